"""`kleene regex` and `kleene tm`: automata and Turing machines as RNNs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from kleene.cli import AsJson, app, busy, print_json, show
from kleene.cli.names import find_machine, read_word
from kleene.files import read_json

TRACED = 500  # steps of a Turing machine on a page
STEPS = 1_000_000  # of a Turing machine, where no number is given


def verify_words(
    name: str, other: str | None, lengths: range | None, random: int | None, seed: int, inputs: list[str] | None
) -> Any:
    """The report of `kleene verify DIR [FILE]` or `kleene verify FILE` where words are read; None where they are
    not."""
    from kleene import verbs
    from kleene.errors import FileError

    options: dict[str, Any] = {} if lengths is None else {"lengths": lengths}
    options |= {} if random is None else {"random": random, "seed": seed}
    saved: Any = verbs.load(name) if _is_rnn(name) else None
    machine: Any = find_machine(name) if other is None and saved is None else None
    if saved is None and machine is None:
        return None
    if inputs:
        options["inputs"] = [read_word(machine if saved is None else saved, [text]) for text in inputs]
    if saved is None:
        return verbs.verify(machine, verbs.compile(machine), **options)
    wanted = None if other is None else find_machine(other)
    if other is not None and wanted is None:
        raise FileError(f"{other}: not a machine's file; use .json, .jff, .att or .yaml")
    return verbs.verify(saved, wanted, **options)


def run_word(name: str, words: list[str], on: str | None, as_json: bool) -> bool:
    """`kleene run` where the name is a machine's file or the folder of an RNN; False where it is neither."""
    from kleene import verbs
    from kleene.errors import InputError

    saved = _is_rnn(name)
    machine: Any = verbs.load(name) if saved else find_machine(name)
    if machine is None:
        return False
    evaluator = on or ("network" if saved else "interpreter")
    if evaluator not in (("network",) if saved else ("interpreter", "network")):
        has = "a saved network, which runs --on network only" if saved else "a machine, which has no rules"
        raise InputError(f"{name}: {has}; leave --on {on} out")
    with busy(f"running {name}", as_json):
        runner = verbs.compile(machine) if evaluator == "network" and not saved else machine
        word = read_word(machine, words)
        answer, steps = _decide(runner, word)
    if as_json:
        print_json({"program": name, "input": word, "evaluator": evaluator, "answer": answer, "steps": steps})
        return True
    show(f"{answer}s" if answer else "still running; 'kleene tm' has --max-steps")
    by = "RNN" if evaluator == "network" else "interpreter"
    taken = "" if steps is None else f", in {steps:,} step{'' if steps == 1 else 's'} of the machine"
    show(f"by the {by}{taken}")
    return True


def _is_rnn(folder: str) -> bool:
    """Whether a folder holds a network that reads words."""
    path = Path(folder) / "kleene.json"
    content = read_json(path) if path.is_file() else None
    return isinstance(content, dict) and content.get("kind") in ("rnn", "decider")


def _decide(machine: Any, word: Any) -> tuple[str | None, int | None]:
    """Accept, reject or nothing yet, and after how many steps where it takes steps of its own."""
    from kleene.machines.turing import TuringMachine

    decide = machine.run if isinstance(machine, TuringMachine) else getattr(machine, "decide", None)
    if decide is None:
        return "accept" if machine.accepts(word) else "reject", None
    decision = decide(word, max_steps=STEPS)
    return decision.answer, decision.steps


@app.command(epilog="Example: kleene regex '(0|10*1)*' 0110 010 --alphabet 01 -o even.png -o even/")
def regex(
    pattern: Annotated[str, typer.Argument(help="A Python regular expression, matched in full.")],
    words: Annotated[list[str] | None, typer.Argument(help="Words to decide on the network.")] = None,
    alphabet: Annotated[str | None, typer.Option(help="The symbols; by default those that the pattern names.")] = None,
    method: Annotated[str, typer.Option(help="smallest, minsky, image or scalar.")] = "smallest",
    activation: Annotated[str, typer.Option(help="relu or slu.")] = "relu",
    ignore_case: Annotated[bool, typer.Option("--ignore-case", "-i", help="Letters match both cases.")] = False,
    output: Annotated[
        list[Path] | None,
        typer.Option("-o", help="Save: .json, .jff, .att, .dot, .png, .svg, .pdf the automaton; a folder the network."),
    ] = None,
    dot: Annotated[bool, typer.Option("--dot", help="Print the minimal automaton for Graphviz, and no more.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Save a page that steps through one word.")] = None,
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
    options: dict[str, Any] = {"method": method, "activation": activation}
    rnn = kl.compile(dfa, **options)
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
    file: Annotated[str, typer.Argument(help="A machine: .yaml, .jff, .json, .txt, or bbchallenge text itself.")],
    word: Annotated[
        str | None, typer.Argument(help="The input; by default the one in the file, or the empty word.")
    ] = None,
    max_steps: Annotated[int, typer.Option(help="Steps of the machine, at most.")] = STEPS,
    form: Annotated[str, typer.Option(help="compact or literal (the chapter's construction).")] = "compact",
    evaluator: Annotated[str, typer.Option(help="patterns (fast) or plain; both are exact.")] = "patterns",
    tape: Annotated[bool, typer.Option("--tape", help="Show the tape too.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Compare with the direct simulator.")] = False,
    output: Annotated[
        list[Path] | None,
        typer.Option("-o", help="Save: .json, .yaml, .jff, .dot, .png, .svg, .pdf the machine; a folder the network."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save a page that steps through the first 500 steps.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a Turing machine as an exact RNN: accept, reject, or still running."""
    import kleene as kl
    from kleene.errors import FileError
    from kleene.machines.turing_files import BBCHALLENGE

    text = not Path(file).exists() and BBCHALLENGE.fullmatch(file)
    if not text and not Path(file).suffix and not Path(file).exists():
        raise FileError(f"{file}: no such file, and no bbchallenge text such as '1RB1LB_1LA1RZ'")
    machine = kl.TuringMachine.parse(file) if text else kl.TuringMachine.load(file)
    given = read_word(machine, [machine.example if word is None else word])
    options: dict[str, Any] = {"form": form}
    net = kl.compile(machine, **options)
    for path in output or []:
        _save_machine(machine, net, path)
    with _Progress(max_steps) as progress:
        decision = net.decide(given, max_steps=max_steps, tape=tape or check, evaluator=evaluator, progress=progress)
    if html is not None:
        kl.explain(net, given, max_steps=min(max_steps, TRACED)).to_html(html, title=machine.name)
    expected = machine.run(given, max_steps=max_steps) if check else None
    agree = expected is None or expected == decision
    if as_json:
        print_json(
            {
                "machine": machine.name,
                "word": given,
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
        for path in [*(output or []), *([html] if html else [])]:
            print(f"saved {path}")
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
