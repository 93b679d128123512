"""Networks that write a symbol for each symbol they read: certificates, and comparisons of any two."""

from __future__ import annotations

from typing import Any

from kleene.checks.bisimulation import Report
from kleene.checks.languages import LIMIT, WordCertificate
from kleene.common.alphabet import show_word
from kleene.common.text import Text
from kleene.decompilers.linear_to_dfa import Whole
from kleene.decompilers.sequence_to_transducer import read_machine
from kleene.errors import DidNotHalt, InputError, NotExact, NotSupported, a_type, counted
from kleene.machines.automata.transducer import Transducer
from kleene.machines.automata.transducer import from_json as transducer_from_json
from kleene.machines.left_to_right import transducer_of
from kleene.machines.program import ProgramClass
from kleene.networks.rnn.exact import ExactRNN
from kleene.networks.rnn.sequence import SequenceRNN


def certify_sequence(
    net: SequenceRNN,
    *,
    machine: Transducer | None = None,
    program: ProgramClass | None = None,
    dtype: Any = None,
    limit: int = LIMIT,
) -> WordCertificate:
    """Prove from the weights that a network writes what a Mealy machine writes, on words of every length.

    - `machine`: the machine, by default the one saved with the network.
    - `program`: show also that the machine is that of this program, explored again with its interpreter.
    - `dtype`: certify a linear cell as if it were converted to this format.
    - `limit`: the most hidden vectors to visit.
    """
    if machine is None:
        if "machine" not in net.about:
            raise InputError("certify: the network was not compiled from a machine; pass machine=")
        machine = transducer_from_json(net.about["machine"], "the network's 'machine'")
    cell, reasons = net.cell, list[str]()
    name = "whole numbers"
    try:
        if isinstance(cell, ExactRNN):
            if cell.readout is not None and (cell.readout.A @ cell.readout.R).entries != cell.V.entries:
                raise NotExact("V is not A·R, so that exact steps and the torch module differ")
            found = read_machine(net, limit)
            reasons.append("exact arithmetic")
        else:
            name = cell.dtype if dtype is None else str(dtype).removeprefix("torch.")
            whole = Whole(cell, name, closed=True)
            found = read_machine(net, limit, whole)
            reasons.append(f"all numbers are whole, and no sum is above {whole.largest:,}, which {name} holds exactly")
            reasons.append("the kinds of the steps are closed under composition, so a parallel scan rounds nothing")
    except (NotExact, DidNotHalt) as error:
        return WordCertificate(False, name, (str(error),))
    word = machine.distinguish(found)
    if word is not None:
        return WordCertificate(False, name, (f"the network and its machine differ on {show_word(word)}",))
    reasons.append(
        f"{counted(len(found), 'hidden vector')} write what the machine's {counted(len(machine), 'state')} write"
    )
    if "program" in net.about and net.alphabet != machine.alphabet:
        return WordCertificate(False, name, ("the network numbers its symbols in another way than its machine",))
    if program is not None:
        wanted = transducer_of(program)
        if (other := _other_run(net, program, wanted.alphabet)) is not None:
            return WordCertificate(False, name, (f"the network was not compiled from {program.spec.name}: {other}",))
        word = wanted.distinguish(machine)
        if word is not None:
            return WordCertificate(False, name, (f"{program.spec.name} and the machine differ on {show_word(word)}",))
        reasons.append(
            f"the machine is that of {program.spec.name}, found by exploring what its heads can read to their left"
        )
    about = net.about.get("program")
    return WordCertificate(True, name, tuple(reasons), about.get("positions") if isinstance(about, dict) else None)


def _other_run(net: SequenceRNN, program: ProgramClass, symbols: tuple[str, ...]) -> str | None:
    """What `run` does in another way than the program, or None."""
    spec, about = program.spec, net.about.get("program")
    if not isinstance(about, dict):
        return "it says nothing of a program"
    text = None if about.get("text") is None else Text.from_json(about["text"])
    parts = {
        "positions": (about.get("positions"), spec.positions),
        "stop": (about.get("stop"), spec.stop),
        "max_tokens": (about.get("max_tokens"), spec.max_tokens),
        "text": (text, spec.text),
        "the order of symbols": (net.alphabet, symbols),
    }
    return next((f"they differ in {part}" for part, (here, there) in parts.items() if here != there), None)


def verify_sequence(
    network: SequenceRNN,
    other: SequenceRNN | Transducer | ProgramClass | None = None,
    *,
    limit: int = LIMIT,
) -> Report:
    """Compare a network with the machine saved with it (None), another machine, a program, or another network: on all
    words at once, through Mealy machines. `limit`: the most hidden vectors to visit."""
    if other is None:
        wanted = transducer_from_json(network.about.get("machine"), "the network's 'machine'")
    elif isinstance(other, ProgramClass):
        wanted = transducer_of(other)
    elif isinstance(other, SequenceRNN):
        wanted = read_machine(other, limit)
    elif isinstance(other, Transducer):
        wanted = other
    else:
        raise NotSupported(
            f"verify: cannot compare {a_type(network)} with {a_type(other)}; compare each with the program"
        )
    found = read_machine(network, limit)
    word = wanted.distinguish(found)
    example = None if word is None else f"on {show_word(word)} they write something else, or only one writes"
    return Report(len(wanted) * len(found), int(word is not None), "words of every length", example)
