"""`kleene regex` and `kleene tm`: automata and Turing machines as RNNs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from kleene.cli import AsJson, app, print_json

TRACED = 500  # steps of a Turing machine on a page


def find_machine(name: str) -> Any:
    """The automaton or Turing machine in a file, or None where the name is not that of a machine's file."""
    from kleene.files import read_json, read_text
    from kleene.machines.automaton import DFA
    from kleene.machines.turing import TuringMachine

    path = Path(name)
    if path.suffix in (".att", ".fst"):
        return DFA.load(path)
    if path.suffix in (".yaml", ".yml", ".tm", ".bb"):
        return TuringMachine.load(path)
    if path.suffix == ".json":
        content = read_json(path)
        turing = isinstance(content, dict) and content.get("kind") != "dfa" and "blank" in content
        return TuringMachine.load(path) if turing else DFA.load(path)
    if path.suffix == ".jff":
        return TuringMachine.load(path) if "<type>turing" in read_text(path)[:2000] else DFA.load(path)
    return None


def verify_folder(
    folder: str,
    other: str | None,
    lengths: range | None,
    random: int | None,
    seed: int,
    inputs: list[str] | None,
) -> Any:
    """The report of `kleene verify DIR [FILE]` where DIR holds a network that reads words; None where it
    does not."""
    from kleene import verbs
    from kleene.errors import FileError
    from kleene.files import read_json

    path = Path(folder) / "kleene.json"
    content = read_json(path) if path.is_file() else None
    if not isinstance(content, dict) or content.get("kind") not in ("rnn", "decider"):
        return None
    machine = None if other is None else find_machine(other)
    if other is not None and machine is None:
        raise FileError(f"{other}: not a machine's file; use .json, .jff, .att or .yaml")
    options: dict[str, Any] = {"inputs": inputs} if inputs else {}
    options |= {} if lengths is None else {"lengths": lengths}
    options |= {} if random is None else {"random": random, "seed": seed}
    return verbs.verify(verbs.load(folder), machine, **options)


@app.command(epilog="Example: kleene regex '(0|10*1)*' 0110 010 --alphabet 01 -o even.png -o even/")
def regex(
    pattern: Annotated[str, typer.Argument(help="A Python regular expression, matched in full.")],
    words: Annotated[list[str] | None, typer.Argument(help="Words to decide on the network.")] = None,
    alphabet: Annotated[
        str | None, typer.Option(help="The symbols; by default those that the pattern names.")
    ] = None,
    method: Annotated[str, typer.Option(help="smallest, minsky, image or scalar.")] = "smallest",
    activation: Annotated[str, typer.Option(help="relu or slu.")] = "relu",
    ignore_case: Annotated[
        bool, typer.Option("--ignore-case", "-i", help="Letters match both cases.")
    ] = False,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "-o", help="Save: .json, .jff, .att, .dot, .png, .svg, .pdf the automaton; a folder the network."
        ),
    ] = None,
    dot: Annotated[bool, typer.Option("--dot", help="Print the minimal automaton for Graphviz, and no more.")] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save a page that steps through one word.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """A regular expression as a minimal automaton and as an exact RNN, certified; decide words on the
    network."""
    import kleene as kl
    from kleene.errors import InputError

    if html is not None and len(words or []) != 1:
        raise InputError(f"--html {html}: a page shows one word, not {len(words or [])}; '' is the empty one")
    dfa = kl.regex(pattern, alphabet, flags=re.IGNORECASE if ignore_case else 0)
    if dot:
        return print_json({"dot": dfa.to_dot()}) if as_json else print(dfa.to_dot(), end="")
    rnn = kl.compile(dfa, method=method, activation=activation)
    certificate = kl.certify(rnn)
    answers = {word: rnn.accepts(word) for word in words or []}
    agree = certificate.holds and all(dfa.accepts(word) == answer for word, answer in answers.items())
    for path in output or []:
        _save(dfa, rnn, certificate, path)
    if html is not None:
        kl.explain(rnn, (words or [""])[0]).to_html(html, title=pattern)
    if as_json:
        print_json(
            {
                "pattern": pattern,
                "automaton": dfa.to_json(),
                "sizes": rnn.sizes,
                "method": rnn.about["method"],
                "certificate": {"holds": certificate.holds, "reasons": list(certificate.reasons)},
                "words": answers,
                "saved": [str(path) for path in [*(output or []), *([html] if html else [])]],
            }
        )
    else:
        print(dfa)
        print(rnn)
        print(certificate)
        for word, answer in answers.items():
            print(f"{word!r} {'accepted' if answer else 'rejected'}")
        for path in [*(output or []), *([html] if html else [])]:
            print(f"saved {path}")
    if not agree:
        raise typer.Exit(1)


def _save(dfa: Any, rnn: Any, certificate: Any, path: Path) -> None:
    if path.suffix:
        dfa.save(path)
    else:
        rnn.save(path)
        certificate.save(path)


@app.command(epilog="Example: kleene tm 1RB1LC_1RC1RB_1RD0LE_1LA1LD_1RZ0LA --max-steps 1000000")
def tm(
    file: Annotated[
        str, typer.Argument(help="A machine: .yaml, .jff, .json, .txt, or bbchallenge text itself.")
    ],
    word: Annotated[str, typer.Argument(help="The input.")] = "",
    max_steps: Annotated[int, typer.Option(help="Steps of the machine, at most.")] = 1_000_000,
    form: Annotated[str, typer.Option(help="compact or literal (the chapter's construction).")] = "compact",
    evaluator: Annotated[str, typer.Option(help="patterns (fast) or plain; both are exact.")] = "patterns",
    tape: Annotated[bool, typer.Option("--tape", help="Show the tape too.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Compare with the direct simulator.")] = False,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "-o", help="Save: .json, .yaml, .jff, .dot, .png, .svg, .pdf the machine; a folder the network."
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save a page that steps through the first 500 steps.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a Turing machine as an exact RNN: accept, reject, or still running."""
    import kleene as kl
    from kleene.machines.turing_files import BBCHALLENGE

    text = not Path(file).exists() and BBCHALLENGE.fullmatch(file)
    machine = kl.TuringMachine.parse(file) if text else kl.TuringMachine.load(file)
    net = kl.compile(machine, form=form)
    for path in output or []:
        _save_machine(machine, net, path)
    with _Progress(max_steps) as progress:
        decision = net.decide(
            word, max_steps=max_steps, tape=tape or check, evaluator=evaluator, progress=progress
        )
    if html is not None:
        kl.explain(net, word, max_steps=min(max_steps, TRACED)).to_html(html, title=machine.name)
    expected = machine.run(word, max_steps=max_steps) if check else None
    agree = expected is None or expected == decision
    if as_json:
        print_json(
            {
                "machine": machine.name,
                "word": word,
                **decision.to_json(),
                "units": net.units,
                "form": form,
                "evaluator": evaluator,
                "agrees": None if expected is None else agree,
            }
        )
    else:
        print(f"{machine.name} on an RNN of {net.units} units ({form}; {evaluator})")
        print(decision)
        if expected is not None:
            print("the direct simulator agrees" if agree else f"the direct simulator differs: {expected}")
        if html is not None:
            print(f"saved {html}")
    if not agree:
        raise typer.Exit(1)


def _save_machine(machine: Any, net: Any, path: Path) -> None:
    if path.suffix in (".png", ".svg", ".pdf"):
        from kleene.show.automata import draw

        draw(machine, path)
    elif path.suffix:
        machine.save(path)
    else:
        net.save(path)


class _Progress:
    """A bar on standard error when that is a terminal and the run is long."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.bar: Any = None

    def __enter__(self) -> Any:
        if self.total < 2_000_000 or not sys.stderr.isatty():
            return None
        from rich.console import Console
        from rich.progress import Progress

        self.bar = Progress(console=Console(stderr=True), transient=True)
        self.bar.start()
        task = self.bar.add_task("steps", total=self.total)
        return lambda steps: self.bar.update(task, completed=steps)

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()
