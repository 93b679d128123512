"""One machine in every architecture: the cost of each network, its growth, and the proof about it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from kleene.errors import InputError, KleeneError, NotSupported, a_type
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.nfa import NFA
from kleene.machines.automata.transducer import Transducer
from kleene.machines.automata.weighted import WeightedAutomaton
from kleene.machines.program import ProgramClass
from kleene.machines.turing import TuringMachine

FORMATS = ("float16", "bfloat16", "float32", "float64")  # narrowest first
LENGTHS = (16, 64)


@dataclass(frozen=True)
class Row:
    """A network of the machine, or the reason why there is none.

    depth: layers; the word's length for networks that read symbol by symbol. precision: the narrowest format with a
    certificate for the longest words. length: the longest word; None without a limit. proof: whether it is certified,
    or the theorem that refuses.
    """

    network: str
    options: str
    holds: bool
    parameters: int | None
    nonzero: int | None
    depth: str
    precision: str
    length: int | None
    seconds: float
    proof: str


@dataclass(frozen=True)
class Comparison:
    """The table of a machine, a row per network. `plot(path)` draws parameters and depths."""

    machine: str
    rows: tuple[Row, ...]

    def __str__(self) -> str:
        titles = ("network", "parameters", "non-zero", "depth", "precision", "words up to", "proof")
        lines = [titles]
        for row in self.rows:
            name = f"{row.network} {row.options}".strip()
            if not row.holds:
                lines.append((name, "–", "–", "–", "–", "–", row.proof))
                continue
            limit = "any length" if row.length is None else f"{row.length:,}"
            lines.append((name, f"{row.parameters:,}", f"{row.nonzero:,}", row.depth, row.precision, limit, row.proof))
        widths = [max(len(line[i]) for line in lines) for i in range(len(titles) - 1)]
        table = "\n".join(
            "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths)), line[-1]]).rstrip() for line in lines
        )
        return f"{self.machine}\n\n{table}"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"machine": self.machine, "rows": [asdict(row) for row in self.rows]}

    def plot(self, path: str | Path) -> None:
        """Draw the parameters and depths of the networks, as a picture (.png, .svg, .pdf)."""
        from kleene.show.comparison import draw

        draw(self, Path(path))


Compiler = tuple[str, str, dict[str, Any]]  # network, "module:function", options

_GATED, _LINEAR, _DEEP = (f"kleene.compilers.dfa_to_{name}:compile_to" for name in ("gated", "linear", "transformer"))
_TURING = "kleene.compilers.turing_to_transformer"
_WRITING = "kleene.compilers.transducer_to_rnn:compile"


def _cells(machine: Any, lengths: Sequence[int]) -> list[Compiler]:
    """The architectures to try for a machine."""
    if isinstance(machine, DFA):
        tried: list[Compiler] = [
            ("rnn", "kleene.compilers.dfa_to_rnn:compile_dfa", {}),
            ("lstm", f"{_GATED}_lstm", {}),
            ("gru", f"{_GATED}_gru", {}),
            *[("linear", f"{_LINEAR}_linear", {"transitions": kind}) for kind in ("products", "positive", "signed")],
            ("transformer", f"{_DEEP}_transformer", {"depth": "sequential"}),
        ]
        for depth in ("logarithmic", "constant"):
            tried += [("transformer", f"{_DEEP}_transformer", {"depth": depth, "length": n}) for n in lengths]
        return [*tried, ("decoder", f"{_TURING}:compile_dfa_to_decoder", {"length": max(lengths)})]
    if isinstance(machine, TuringMachine):
        tried = [("rnn", "kleene.compilers.turing_to_rnn:compile_turing", {})]
        gated = "kleene.compilers.turing_to_gated:compile_turing_to"
        for name in ("lstm", "gru"):
            tried += [(name, f"{gated}_{name}", options) for options in ({}, {"tape": min(lengths), "length": 4})]
        tried += [("linear", f"{_TURING}:refuse_linear", {})]
        tried += [("transformer", f"{_TURING}:compile_turing_to_transformer", {"tape": n}) for n in lengths]
        return tried + [("decoder", f"{_TURING}:compile_turing_to_decoder", {"length": n}) for n in lengths]
    if isinstance(machine, WeightedAutomaton):
        return [("linear", "kleene.compilers.dfa_to_linear:compile_weighted", {})]
    if isinstance(machine, Transducer):
        return [("rnn", f"{_WRITING}_transducer", {}), ("linear", f"{_WRITING}_transducer_to_linear", {})]
    if isinstance(machine, ProgramClass):
        last = "transformer" if machine.spec.max_tokens is None else "decoder"
        return [
            ("rnn", f"{_WRITING}_program_to_rnn", {}),
            ("linear", f"{_WRITING}_program_to_linear", {}),
            (last, "kleene.compilers.program_to_transformer:compile_program", {}),
        ]
    raise NotSupported(f"compare: cannot take {a_type(machine)}; it takes automata, Turing machines and programs")


def compare(
    machine: DFA | NFA | WeightedAutomaton | Transducer | TuringMachine | ProgramClass,
    *,
    lengths: Sequence[int] = LENGTHS,
    progress: Callable[[int], None] | None = None,
) -> Comparison:
    """Compile a machine to every architecture, certify each network, and tabulate the costs.

    - `lengths`: the longest words, tapes or sequences for networks that need a limit; a row for each.
    - `progress`: a function that is called with the number of networks done so far.

    >>> import kleene as kl
    >>> table = kl.compare(kl.regex("(0|10*1)*", alphabet="01"), lengths=[8])
    >>> [row.network for row in table.rows if not row.holds]                   # parity, without negative numbers
    ['linear']
    """
    right = isinstance(lengths, Sequence) and all(isinstance(n, int) and not isinstance(n, bool) for n in lengths)
    if not right or not lengths or min(lengths) < 1:
        raise InputError(f"compare: lengths={lengths!r}; lengths must be whole numbers of at least 1")
    given = machine.minimise() if isinstance(machine, NFA) else machine
    rows = []
    for done, (name, target, options) in enumerate(_cells(given, lengths)):
        rows.append(_row(given, name, target, options))
        if progress is not None:
            progress(done + 1)
    return Comparison(_described(given), tuple(rows))


def _described(machine: Any) -> str:
    if isinstance(machine, ProgramClass):
        return f"program {machine.spec.name}"
    return str(machine).partition("\n")[0].rstrip(":")


def _row(machine: Any, name: str, target: str, options: dict[str, Any]) -> Row:
    shown = ", ".join(f"{key}={value}" for key, value in options.items())
    start = time.process_time()
    module, _, function = target.partition(":")
    try:
        net = getattr(import_module(module), function)(machine, **options)
    except KleeneError as error:
        why = str(error).removeprefix("compile: ")
        return Row(name, shown, False, None, None, "", "", None, round(time.process_time() - start, 3), why)
    limit = _limit(net, options)
    precision, certificate = _proved(net, limit)
    proof = str(certificate) if certificate is not None else "no certificate"
    seconds = round(time.process_time() - start, 3)
    holds = certificate is not None and bool(certificate)
    parameters, nonzero = _sizes(net)
    length = _length(limit, certificate) if holds else limit
    return Row(name, shown, holds, parameters, nonzero, _depth(net), precision, length, seconds, _short(proof, holds))


def _short(proof: str, holds: bool) -> str:
    return "certified" if holds else " ".join(proof.split())[:200]


def _sizes(net: Any) -> tuple[int, int]:
    """The parameters and the non-zero parameters. Exact networks store only the latter."""
    net = cell_of(net)
    sizes = net.sizes if isinstance(net.sizes, dict) else asdict(net.sizes)
    if "parameters" in sizes:
        return int(sizes["parameters"]), int(sizes["nonzero"])
    units, symbols = net.units, len(net.alphabet)
    return units * (units + symbols + 2) + net.out_W.rows * (units + 1), int(sizes["nonzero"])


def cell_of(net: Any) -> Any:
    """The recurrent cell of a network that writes a symbol per symbol; any other network itself."""
    return net.cell if getattr(net, "kind", None) == "sequence" else net


def _depth(net: Any) -> str:
    """The number of layers that a word of n symbols passes."""
    net = cell_of(net)
    config = getattr(net, "config", None)
    if config is None:
        shapes = getattr(net, "shapes", None)
        return "n" if shapes is None else f"{len(shapes)} × 2 log₂ n"  # a parallel scan
    if config.halts:
        return "a layer per step" if "tape" in net.description else "n"
    return str(config.layers)


def _limit(net: Any, options: dict[str, Any]) -> int | None:
    description = getattr(net, "description", {})
    if "words" in description:
        length: int | None = description["words"]["length"]
        return length
    found = options.get("length", options.get("tape"))
    return int(found) if found is not None else getattr(getattr(net, "config", None), "max_length", None)


def _length(limit: int | None, certificate: Any) -> int | None:
    """The longest words that a network reads and its certificate covers; None without a limit."""
    found = [n for n in (limit, getattr(certificate, "max_length", None)) if n is not None]
    return min(found, default=None)


def _proved(net: Any, limit: int | None) -> tuple[str, Any]:
    """The number format with a certificate for the longest words, the narrowest of several, and that certificate.

    Exact numbers need no format.
    """
    from kleene.checks.bisimulation import certify_rnn
    from kleene.checks.certificates import certify_transformer
    from kleene.checks.languages import certify_gated, certify_linear
    from kleene.checks.sequences import certify_sequence
    from kleene.checks.turing_steps import certify_decider
    from kleene.networks.rnn.decider import Decider
    from kleene.networks.rnn.exact import ExactRNN
    from kleene.networks.rnn.gated import GatedRNN
    from kleene.networks.rnn.linear import LinearRNN
    from kleene.networks.rnn.sequence import SequenceRNN

    if isinstance(net, SequenceRNN) and isinstance(net.cell, ExactRNN):
        return "whole numbers up to 1", certify_sequence(net)
    if isinstance(net, Decider):
        return "fractions", certify_decider(net)
    if isinstance(net, ExactRNN):
        largest = net.largest if net.largest is not None else math.inf
        return f"whole numbers up to {largest:,}", certify_rnn(net)
    certify: Any = certify_transformer
    if isinstance(net, GatedRNN):
        certify = certify_gated
    elif isinstance(net, LinearRNN):
        certify = certify_linear
    elif isinstance(net, SequenceRNN):
        certify = certify_sequence
    best, last = ("", None), None
    for dtype in FORMATS:
        try:
            last = certify(net, dtype=dtype)
        except NotSupported:
            continue
        length = _length(limit, last)
        if last and (best[1] is None or length is None or length > (_length(limit, best[1]) or 0)):
            best = (dtype, last)
        if last and length == limit:
            break
    return best if best[1] is not None else ("", last)
