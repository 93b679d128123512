"""Certificates of transformers: the independent checker's proof that the tensors compute the saved guarded updates.

The checker (kleene/checker.py) receives what `net.save` would write, the live tensors and the attributes of every
block. Nothing is compiled again. A separate statement (kleene/checks/steps.py) says that the guarded updates do what
a Python `step` does; docs/proved.md explains both.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import torch

from kleene import checker
from kleene.checks.steps import StepStatement, certify_step
from kleene.common.alphabet import show_word
from kleene.decompilers.transformer_to_dfa import read_automaton
from kleene.decompilers.transformer_to_turing import check_steps, read_turing
from kleene.errors import DidNotHalt, FileError, InputError, NotExact, NotSupported, counted
from kleene.lowering.updates import Cycle, Updates
from kleene.machines.automata.dfa import DFA
from kleene.machines.program import ProgramClass
from kleene.machines.spec import Spec
from kleene.machines.turing import TuringMachine
from kleene.networks.stock.model import StockModel
from kleene.networks.transformer.files import content_of
from kleene.networks.transformer.model import Block, Transformer


@dataclass(frozen=True)
class Certificate:
    """Whether a network is proved exact, in which number format, up to which length, and why (not)."""

    holds: bool
    dtype: str
    max_length: int | None
    reasons: tuple[str, ...]  # what was shown, or what failed
    program: str = field(default="")
    statement: str = field(default="")  # the conclusion from all lemmas
    lemmas: tuple[checker.Lemma, ...] = field(default=())
    step: StepStatement | None = None  # the second statement, if a program was given
    words: str | None = None  # the statement on words, if the network was compiled from an automaton

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        limit = "any length" if self.max_length is None else f"inputs of up to {self.max_length:,} tokens"
        head = (
            f"{self.program}: certified exact in {self.dtype} for {limit}"
            if self.holds
            else f"{self.program}: not certified in {self.dtype}"
        )
        if self.step is not None and not self.step.holds:
            head = f"{self.program}: the weights compute the saved updates in {self.dtype}, which are not this step"
        lines = [head, *(f"  - {reason}" for reason in self.reasons)]
        lines += [] if self.words is None else [f"  - {self.words}"]
        return "\n".join(lines if self.step is None else [*lines, str(self.step)])

    def to_json(self) -> dict[str, Any]:
        return {
            "program": self.program,
            "holds": self.holds,
            "dtype": self.dtype,
            "max_length": self.max_length,
            "statement": self.statement,
            "reasons": list(self.reasons),
            "lemmas": [lemma.to_json() for lemma in self.lemmas],
            "step": None if self.step is None else self.step.to_json(),
            "words": self.words,
        }


def certify_transformer(
    net: Transformer,
    *,
    dtype: str | torch.dtype | None = None,
    program: ProgramClass | None = None,
    layers: int | None = None,
) -> Certificate:
    """Prove a network in its own number format, or as if it were converted to `dtype`. With `program`, the certificate
    holds where the saved declarations are the program's and the saved updates do what its `step` does; with `layers`,
    where the network runs so many layers, instead of as many as the program."""
    if layers is not None and program is None:
        raise InputError(f"{net.config.name}: layers={layers!r} says how program= is run; there is no program=")
    own = str(net.dtype).removeprefix("torch.")
    name = own if dtype is None else str(dtype).removeprefix("torch.")
    if name not in checker.FORMATS:
        raise NotSupported(f"unknown dtype {name!r}; choose one of {', '.join(checker.FORMATS)}")
    if dtype is None and (other := next((n for n, p in net.state_dict().items() if p.dtype != net.dtype), None)):
        reason = f"{other} is in another number format than the other tensors; convert the network to one"
        return Certificate(False, name, None, (reason,), net.config.name)
    verdict = checker.check(as_saved(net), name)
    reasons = (f"proved: {verdict.statement}", *map(str, verdict.lemmas)) if verdict.holds else (verdict.reason or "",)
    step = None
    if program is not None and verdict.holds:
        step = certify_step(program, updates=saved_updates(net), layers=layers)
    right, words = about_words(net) if verdict.holds else (True, None)
    certificate = Certificate(
        verdict.holds and right and (step is None or step.holds),
        name,
        verdict.max_length,
        reasons,
        net.config.name,
        verdict.statement,
        verdict.lemmas,
        step,
        words,
    )
    if name == own:
        net.note_certificate(certificate)
    return certificate


def about_words(net: Transformer | StockModel) -> tuple[bool, str | None]:
    """Whether a network that was compiled from an automaton accepts its words, by the updates that the checker proved;
    with a sentence that says so."""
    readers = {"words": _about_automaton, "tape": _about_tape, "chain": _about_chain}
    found = [read(net) for name, read in readers.items() if name in net.description]
    failed = [said for right, said in found if not right]
    return not failed, "; ".join(failed or [said for _, said in found]) or None


def _about_automaton(net: Transformer | StockModel) -> tuple[bool, str]:
    """Whether a network accepts the words of its automaton, with a sentence that says so."""
    words = net.description["words"]
    try:
        found = read_automaton(words, saved_updates(net))
        machine = DFA.from_json(words["machine"], "the network's 'machine'")
    except (NotExact, DidNotHalt, InputError, FileError) as error:
        return False, str(error)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        return False, f"the updates are not an automaton's ({error!r})"
    word = machine.distinguish(found)
    if word is not None:
        return False, f"the network and its machine differ on {show_word(word)}"
    length = "every length" if words["length"] is None else f"up to {words['length']:,} symbols"
    return (
        True,
        f"these updates accept the words of the machine's {counted(len(machine), 'state')}, for words of {length}",
    )


def _about_tape(net: Transformer | StockModel) -> tuple[bool, str]:
    """Whether a layer of a Turing machine's network is one step of the machine, with a sentence that says so."""
    tape = net.description["tape"]
    try:
        machine = TuringMachine.from_json(tape["machine"], "the network's 'machine'")
        tried = check_steps(tape, saved_updates(net), machine)
    except (NotExact, InputError, FileError) as error:
        return False, str(error)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        return False, f"the updates are not a Turing machine's ({error!r})"
    return True, f"each layer is one step of {machine.name} on {tape['cells']:,} cells ({tried:,} neighbourhoods tried)"


def _about_chain(net: Transformer | StockModel) -> tuple[bool, str]:
    """Whether the tokens of a Turing machine's decoder are the machine's steps, with a sentence that says so."""
    chain = net.description["chain"]
    try:
        machine = TuringMachine.from_json(chain["machine"], "the network's 'machine'")
        found = read_turing(net.description, saved_updates(net))
    except (NotExact, InputError, FileError) as error:
        return False, str(error)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        return False, f"the updates are not a Turing machine's ({error!r})"
    for q in machine.working:
        for a in machine.symbols:
            wanted, given = machine.transitions[q][a], found.transitions.get(q, {}).get(a)
            if given is None or given[1:] != wanted[1:] or not _same_state(machine, wanted[0], found, given[0]):
                return False, f"in state {q!r} on {a!r} the machine does {wanted}, and the network {given}"
    if not _same_state(machine, machine.start, found, found.start) or machine.two_way != found.two_way:
        return False, "the network starts in another way"
    return True, f"each token is one step of {machine.name}, in sequences of up to {chain['length']:,} tokens"


def _same_state(machine: TuringMachine, state: str, found: TuringMachine, other: str) -> bool:
    """Whether two states have the same name, or halt with the same answer."""
    return state == other if state in machine.transitions else machine.answer(state) == found.answer(other)


def as_saved(net: Transformer) -> checker.Saved:
    """What `net.save` would write, with the current tensors and block attributes of the network."""
    try:
        content = json.loads(json.dumps(content_of(net)))
    except (TypeError, ValueError, RecursionError):  # not JSON: the checker says what is malformed
        content = None
    tensors = {name: tensor.detach().cpu().double().numpy() for name, tensor in net.state_dict().items()}
    attributes = [
        {"heads": list(block.heads), "causal": block.causal, "window": block.window}
        for block in net.blocks
        if isinstance(block, Block)
    ]
    return checker.Saved(content, tensors, attributes)


def saved_updates(net: Transformer | StockModel, spec: Spec | None = None) -> Updates | Cycle:
    """The guarded updates that are saved with a network."""
    spec = Spec.from_json(net.description["program"]) if spec is None else spec
    if not spec.cycle:
        return Updates.from_json(spec, net.description["updates"])
    parts = [Updates.from_json(part, net.described(layer)["updates"]) for layer, part in enumerate(spec.by_layer)]
    return Cycle(spec, tuple(parts))
