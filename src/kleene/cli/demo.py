"""`kleene demo`: compile several programs, run both sides, verify and certify."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from kleene import verbs
from kleene.cli import AsJson, app, busy, finish, print_json, show
from kleene.cli.names import answer, find_program, read_tokens
from kleene.cli.programs import layers_text, outputs_text, sizes_of, sizes_text
from kleene.machines.program import ProgramClass

if TYPE_CHECKING:
    from rich.text import Text

ADDER = "9 11 3 11 10 6 11 11 -1 5 7 0"  # adds word 9 to word 10, through word 11

# program, an input, and what is compared
DEMO: list[tuple[str, str, dict[str, Any]]] = [
    ("parity_relative", "10110", {"lengths": range(1, 8)}),
    ("addition", "95+3817", {"inputs": [f"{a}+{b}" for a in range(0, 100, 7) for b in range(0, 100, 7)]}),
    ("sort:length=10,values=10", "3 1 4 1 5 9 2 6", {"random": 100, "seed": 0}),
    ("histogram:length=10,values=5", "1 0 1 3 1", {"random": 100, "seed": 0}),
    ("dyck2:length=10", "([)]][", {"lengths": range(1, 6)}),
    ("subleq", ADDER, {"inputs": [ADDER, "0 0 -1", "3 4 -1 5 9"]}),
    ("addition_scratchpad:digits=4", "95+3817", {"inputs": ["95+3817", "1+1", "99+1", "9999+9999", "0+0"]}),
]


@app.command("demo")
def demo(as_json: AsJson = False) -> None:
    """Compile, run, verify and certify several programs.

    Example: kleene demo
    """
    rows = []
    if not as_json:
        show("Each program is plain Python. Its network's weights are constructed, not trained.\n")
    with busy("importing torch", as_json):
        import torch  # noqa: F401  (it is no part of the time that compiling takes)
    for name, text, options in DEMO:
        with busy(name, as_json):
            row = demonstrate(name, text, options)
        rows.append(row)
        if not as_json:
            show(demo_text(row))
    holds = all(row["holds"] for row in rows)
    if as_json:
        print_json({"holds": holds, "programs": rows})
    else:
        checked = sum(row["checked"] for row in rows)
        verdict = "every answer agrees" if holds else "NOT all of this holds"
        show(f"{len(rows)} programs, {checked:,} inputs compared: {verdict}.")
        show("Next: kleene list, kleene trace parity_relative 101, kleene decompile addition")
    finish(holds)


def demonstrate(name: str, text: str, options: dict[str, Any]) -> dict[str, Any]:
    """Run one program and its network on one input, then count agreement and certify."""
    program = find_program(name)
    tokens = read_tokens(program, text)
    start = time.perf_counter()
    net = verbs.compile(program)
    seconds = time.perf_counter() - start
    expected, got = program.run(tokens), net.run(tokens)
    given: dict[str, Any] = {
        key: [read_tokens(program, i) for i in v] if key == "inputs" else v for key, v in options.items()
    }
    report, certificate = verbs.verify(program, net, **given), verbs.certify(net)
    same = list(expected) == list(got) and expected.layers == got.layers
    return {
        "program": name,
        "input": text,
        "answer": answer_text(program, expected),
        "network": answer_text(program, got),
        "layers": got.layers,
        "size": sizes_text(net),
        **sizes_of(net),
        "compile_seconds": round(seconds, 3),
        "checked": report.checked,
        "mismatches": report.mismatches,
        "certified": certificate.holds,
        "reasons": list(certificate.reasons),
        "holds": same and report.holds and certificate.holds,
    }


def answer_text(program: ProgramClass, outputs: list[int]) -> str:
    decoded = answer(program, outputs)
    return outputs_text(outputs if decoded is None else decoded)


def demo_text(row: dict[str, Any]) -> Text:
    """Show what happened with one program, with failures marked."""
    from rich.text import Text

    same = "the same" if row["answer"] == row["network"] else row["network"]
    certified = "certified exact" if row["certified"] else f"NOT certified: {'; '.join(row['reasons'])}"
    text = Text(row["program"], style="bold").append("\n", style="not bold")
    text.append(f"  {row['input']}  →  {row['answer']}\n", style="not bold cyan")
    text.append(
        f"  by the interpreter; the network says {same}, after {layers_text(row['layers'])}\n",
        style="not bold",
    )
    text.append(f"  {row['size']}; compiled in {row['compile_seconds']:.2f} s\n", style="not bold dim")
    verdict = f"  {row['checked']:,} inputs compared, {row['mismatches']:,} differ; {certified}\n"
    return text.append(verdict, style="not bold green" if row["holds"] else "bold red")
