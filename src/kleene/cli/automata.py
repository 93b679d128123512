"""`kleene regex`, `kleene convert` and `kleene tm`: automata and Turing machines, their files and their RNNs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from kleene.cli import AsJson, app, busy, each_line, finish, print_json, show
from kleene.cli.names import MACHINES, find_machine, find_source, is_folder, read_word, turing_machine
from kleene.cli.words import complete_anything, complete_machine
from kleene.errors import FileError, InputError, NotSupported, a_type, counted
from kleene.files import read_json

TRACED = 500  # steps of a Turing machine on a page
STEPS = 1_000_000  # of a Turing machine, where no number is given


def verify_words(
    name: str, other: str | None, lengths: range | None, random: int | None, seed: int, inputs: list[str] | None
) -> Any:
    """The report of `kleene verify DIR [FILE]`, `verify DIR DIR` or `verify FILE` if words are checked; None if they
    are not."""
    from kleene import verbs

    options: dict[str, Any] = {} if lengths is None else {"lengths": lengths}
    options |= {} if random is None else {"random": random, "seed": seed}
    second: Any = verbs.load(other) if other is not None and _kind(other) is not None else None
    saved: Any = verbs.load(name) if _reads_words(name, second) else None
    machine: Any = find_machine(name) if other is None and saved is None else None
    if saved is None and machine is None:
        return None
    if inputs:
        options["inputs"] = [read_word(machine if saved is None else saved, [text]) for text in inputs]
    if saved is None:
        return verbs.verify(machine, verbs.compile(machine), **options)
    wanted = find_machine(other) if other is not None and second is None else second
    if other is not None and wanted is None:
        raise FileError(f"{other}: neither a machine's file (.json, .jff, .att, .yaml) nor a saved network")
    return verbs.verify(saved, wanted, **options)


def run_word(name: str, words: list[str], on: str | None, as_json: bool, brief: bool = False) -> bool:
    """`kleene run` for a machine's file or the folder of an RNN. Return False for any other name."""
    from kleene import verbs

    saved = _is_rnn(name)
    machine: Any = verbs.load(name) if saved else find_machine(name)
    if machine is None:
        return False
    evaluator = on or ("network" if saved else "interpreter")
    if evaluator not in (("network",) if saved else ("interpreter", "network")):
        has = "a saved network, which runs --on network only" if saved else "a machine, which has no rules"
        raise InputError(f"{name}: {has}; omit --on {on}")
    with busy(f"running {name}", as_json):
        runner = verbs.compile(machine) if evaluator == "network" and not saved else machine
        word = read_word(machine, words)
        answer, steps = _decide(runner, word)
    if as_json:
        print_json({"program": name, "input": word, "evaluator": evaluator, "answer": answer, "steps": steps})
        return True
    show(f"{answer}s" if answer else "still running; raise --max-steps of 'kleene tm'")
    if brief:
        return True
    by = (
        evaluator if saved and _kind(name) not in ("rnn", "decider") else "RNN" if evaluator == "network" else evaluator
    )
    taken = "" if steps is None else f", in {steps:,} step{'' if steps == 1 else 's'} of the machine"
    show(f"by the {by}{taken}")
    return True


def trace_word(name: str, words: list[str], refused: dict[str, Any], html: Path | None, as_json: bool) -> bool:
    """`kleene trace` for a machine, or the folder of an RNN: every step on a word. Return False for any other name.

    - `refused`: the options of traces of programs, with what was given; only programs have layers.
    """
    from kleene import verbs

    saved = _is_rnn(name)
    machine: Any = verbs.load(name) if saved else find_machine(name)
    if machine is None:
        return False
    for option, value in refused.items():
        if value is not None and value is not False:
            raise InputError(f"--{option}: only for attention programs; omit it for {name}")
    word = read_word(machine, words)
    with busy(f"running {name}", as_json):
        net = machine if saved else verbs.compile(machine)
        run: Any = verbs.explain(net, word)
    if html is not None:
        run.to_html(html, title=f"{getattr(machine, 'name', '') or name}: {show_input(word)}")
    if as_json:
        print_json(run.to_json())
    else:
        show(f"saved {html}" if html is not None else str(run))
    return True


def show_input(word: Any) -> str:
    """A word as it was typed."""
    return word if isinstance(word, str) else " ".join(word)


def _kind(folder: str) -> str | None:
    """The kind of the network that a folder holds; None where it holds none."""
    path = Path(folder) / "kleene.json"
    content = read_json(path) if path.is_file() else None
    kind = content.get("kind") if isinstance(content, dict) else None
    return kind if isinstance(kind, str) else None


def _reads_words(folder: str, other: Any) -> bool:
    """Whether a folder's network is compared on words: it holds a machine, or `other` is a network, too."""
    return _is_rnn(folder) or _holds_machine(folder) or (other is not None and _kind(folder) is not None)


def _holds_machine(folder: str) -> bool:
    """Whether a folder holds a transformer that was compiled from an automaton or a Turing machine."""
    path = Path(folder) / "kleene.json"
    content = read_json(path) if path.is_file() else None
    description = content.get("description") if isinstance(content, dict) else None
    return isinstance(description, dict) and bool(description.keys() & {"words", "tape", "chain"})


def _is_rnn(folder: str) -> bool:
    """Whether a folder holds a network that reads words one by one."""
    return _kind(folder) in ("rnn", "decider", "gated", "linear", "mamba", "olmo_hybrid")


def _decide(machine: Any, word: Any) -> tuple[str | None, int | None]:
    """Accept, reject or no answer yet, and the number of steps if the network counts steps."""
    from kleene.machines.turing import TuringMachine

    decide = machine.run if isinstance(machine, TuringMachine) else getattr(machine, "decide", None)
    if decide is None:
        return "accept" if machine.accepts(word) else "reject", None
    decision = decide(word, max_steps=STEPS)
    return decision.answer, decision.steps


@app.command(epilog="Example: kleene regex '(0|10*1)*' 0110 010 --alphabet 01 -o even.png -o even/")
def regex(
    pattern: Annotated[str, typer.Argument(help="A Python regular expression, or an automaton's file.")],
    words: Annotated[
        list[str] | None, typer.Argument(help="Words to decide on the network; - reads words, one per line.")
    ] = None,
    alphabet: Annotated[str | None, typer.Option(help="The symbols; by default those that the pattern names.")] = None,
    search: Annotated[bool, typer.Option("--search", help="Accept words in which the pattern is found.")] = False,
    same_as: Annotated[
        str | None, typer.Option(metavar="B", help="Whether another pattern or file has the same words.")
    ] = None,
    included_in: Annotated[
        str | None, typer.Option(metavar="B", help="Whether every word is one of another pattern or file.")
    ] = None,
    list_words: Annotated[
        int | None, typer.Option("--words", metavar="N", help="List the first N words, shortest first.")
    ] = None,
    count: Annotated[int | None, typer.Option(metavar="N", help="Count the words of each length up to N.")] = None,
    random: Annotated[int | None, typer.Option(metavar="N", help="Draw N random words (see --length).")] = None,
    length: Annotated[int, typer.Option(help="The length of random words.")] = 10,
    seed: Annotated[int, typer.Option(help="The seed of random words.")] = 0,
    to_regex: Annotated[bool, typer.Option("--to-regex", help="Print a short pattern of the automaton.")] = False,
    classes: Annotated[bool, typer.Option("--classes", help="Print the classes of languages, with witnesses.")] = False,
    minimise: Annotated[bool, typer.Option("--minimise", help="Print or save the minimal automaton alone.")] = False,
    method: Annotated[str, typer.Option(help="balanced, smallest, minsky, image or scalar.")] = "balanced",
    activation: Annotated[str, typer.Option(help="relu or slu.")] = "relu",
    ignore_case: Annotated[bool, typer.Option("--ignore-case", "-i", help="Letters match both cases.")] = False,
    output: Annotated[
        list[Path] | None,
        typer.Option("-o", help="Save: .json, .jff, .att, .dot, .png, .svg, .pdf the automaton; a folder the network."),
    ] = None,
    dot: Annotated[bool, typer.Option("--dot", help="Print the minimal automaton for Graphviz, and no more.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Save a page that steps through one word.")] = None,
    steps: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save a page of subset construction, minimisation and elimination."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """A regular expression as a minimal automaton and as an exact RNN, certified; questions about its words."""

    if html is not None and len(words or []) != 1:
        raise InputError(f"--html {html}: a page shows one word, not {len(words or [])}; '' is the empty one")
    dfa = _automaton(pattern, alphabet, search, ignore_case)
    if dot:
        return print_json({"dot": dfa.to_dot()}) if as_json else print(dfa.to_dot(), end="")
    if steps is not None:
        from kleene.show.steps import save_page

        save_page(pattern, dfa, steps)
    asked = _asked(dfa, list_words, count, random, length, seed, to_regex, classes)
    others = {"same-as": same_as, "included-in": included_in}
    compared = {
        key: _compared(dfa, key, _automaton(other, alphabet, search, ignore_case))
        for key, other in others.items()
        if other is not None
    }
    if asked or compared or minimise or (steps is not None and not words):
        return _tell(dfa, asked, compared, minimise, output or [], steps, as_json)
    _network(pattern, dfa, words or [], method, activation, output or [], html, as_json)


def _network(
    pattern: str,
    dfa: Any,
    words: list[str],
    method: str,
    activation: str,
    output: list[Path],
    html: Path | None,
    as_json: bool,
) -> None:
    """Compile the automaton, certify the network, and decide words on it."""
    import kleene as kl

    rnn = kl.compile(dfa, method=method, activation=activation)  # type: ignore[call-overload]
    certificate = kl.certify(rnn)
    for path in output:
        _save(dfa, rnn, certificate, path)
    if len(words) == 1 and _is_standard_input(words[0], dfa.alphabet):
        return _decide_lines(dfa, rnn, as_json)
    if html is not None:
        kl.explain(rnn, words[0]).to_html(html, title=pattern)
    answers = {word: rnn.accepts(word) for word in words}
    agree = certificate.holds and all(dfa.accepts(word) == answer for word, answer in answers.items())
    saved = [str(path) for path in [*output, *([html] if html else [])]]
    if as_json:
        print_json(
            {
                "pattern": pattern,
                "automaton": dfa.to_json(),
                "sizes": rnn.sizes,
                "method": rnn.about["method"],
                "certificate": {"holds": certificate.holds, "reasons": list(certificate.reasons)},
                "words": answers,
                "saved": saved,
            }
        )
    else:
        print(dfa)
        print(rnn)
        print(certificate)
        for word, answer in answers.items():
            print(_said(word, answer))
        for name in saved:
            print(f"saved {name}")
    if not agree:
        raise typer.Exit(1)


def _decide_lines(dfa: Any, rnn: Any, as_json: bool) -> None:
    """Decide each line of standard input on the network; exit code 1 if the automaton decides otherwise."""
    agree = True

    def decide(word: str) -> None:
        nonlocal agree
        answer = rnn.accepts(word)
        agree &= answer == dfa.accepts(word)
        print_json({"word": word, "accepted": answer}) if as_json else print(_said(word, answer))

    each_line(decide)
    finish(agree)


def _said(word: str, accepted: bool) -> str:
    return f"{word!r} {'accepted' if accepted else 'rejected'}"


def _automaton(name: str, alphabet: str | None, search: bool, ignore_case: bool) -> Any:
    """The minimal automaton of a pattern, or of the file of this name."""
    import kleene as kl
    from kleene.machines.files import as_automaton, read_machine

    if Path(name).suffix in MACHINES and Path(name).is_file():
        return as_automaton(read_machine(name), name).minimise()
    return kl.regex(name, alphabet, search=search, flags=re.IGNORECASE if ignore_case else 0)


def _asked(
    dfa: Any,
    list_words: int | None,
    count: int | None,
    random: int | None,
    length: int,
    seed: int,
    to_regex: bool,
    classes: bool,
) -> dict[str, Any]:
    """The answers to the questions about one language."""
    from kleene.common.alphabet import show_word

    found: dict[str, Any] = {}
    if list_words is not None:
        found["words"] = [show_word(word) for word in dfa.words(list_words)]
    if count is not None:
        found["count"] = [dfa.count(n) for n in range(count + 1)]
    if random is not None:
        found["random"] = [show_word(dfa.sample(length, seed + i)) for i in range(random)]
    if to_regex:
        found["regex"] = dfa.to_regex()
    if classes:
        found["classes"] = dfa.classes.to_json()
    return found


def _compared(dfa: Any, question: str, other: Any) -> dict[str, Any]:
    """Whether two languages are equal, or one contains the other; if not, a shortest word that shows it."""
    from kleene.common.alphabet import show_word

    word = dfa.distinguish(other) if question == "same-as" else (dfa - other).shortest()
    holds = word is None
    return {"holds": holds, "word": None if holds else show_word(word), "in_first": None if holds else word in dfa}


def _tell(
    dfa: Any,
    asked: dict[str, Any],
    compared: dict[str, Any],
    minimise: bool,
    output: list[Path],
    steps: Path | None,
    as_json: bool,
) -> None:
    """Save and print answers; exit code 1 if a comparison does not hold."""

    for path in output:
        if not path.suffix:
            raise InputError(f"-o {path}: a folder holds a network; omit the questions to save one")
        dfa.save(path)
    saved = [str(path) for path in [*output, *([steps] if steps else [])]]
    if as_json:
        automaton = {"automaton": dfa.to_json()} if minimise else {}
        print_json({**automaton, **asked, **compared, "saved": saved})
    else:
        lines = [str(dfa)] if minimise and not saved else []
        lines += [*_answer_lines(dfa, asked, compared), *(f"saved {name}" for name in saved)]
        print("\n".join(lines))
    if not all(answer["holds"] for answer in compared.values()):
        raise typer.Exit(1)


def _answer_lines(dfa: Any, asked: dict[str, Any], compared: dict[str, Any]) -> list[str]:
    lines = [*asked.get("words", []), *asked.get("random", [])]
    lines += [f"length {n}: {number:,}" for n, number in enumerate(asked.get("count", []))]
    lines += [asked["regex"]] if "regex" in asked else []
    lines += [str(dfa.classes)] if "classes" in asked else []
    for question, answer in compared.items():
        what = "the same words" if question == "same-as" else "every word is in the other"
        where = "the first" if answer["in_first"] else "the other"
        lines.append(what if answer["holds"] else f"no: {answer['word']} is in {where} only")
    return lines


def decompile_to_regex(name: str, net: Any, to: str, output: Path | None, as_json: bool) -> None:
    """`kleene decompile DIR --to regex`: the automaton of a network as a pattern, with what is known of it."""
    from kleene import verbs
    from kleene.files import write_text

    if to != "regex":
        raise InputError(f"--to {to}: it must be regex")
    with busy(f"decompiling {name}", as_json):
        holds = "words" in (getattr(net, "description", None) or {})
        dfa: Any = verbs.decompile(net, to="dfa") if holds else read_network(net)
        if not hasattr(dfa, "to_regex"):
            raise InputError(f"{name}: it holds no finite automaton, so there is no regular expression")
        pattern = dfa.to_regex()
    if output is not None:
        write_text(output, pattern + "\n")
    if as_json:
        said = {"network": name, "regex": pattern, "states": len(dfa), "alphabet": list(dfa.alphabet)}
        return print_json(said | dfa.measured if hasattr(dfa, "measured") else said | {"exact": True})
    print(pattern)
    if hasattr(dfa, "measured"):
        typer.echo(f"extracted by queries, not proved: {dfa.confidence}", err=True)


def read_network(net: Any, blind: bool = False) -> Any:
    """Return what a network does: read from the weights, or by queries for a trained classifier of words."""
    from kleene import verbs
    from kleene.decompilers.lstar import extract
    from kleene.networks.trained.word_classifier import WordClassifier

    if isinstance(net, WordClassifier):
        return extract(net, net.alphabet)
    return verbs.decompile(net, blind=True) if blind else verbs.decompile(net)


@app.command(epilog="Example: kleene convert powers_of_two -o powers.json")
def convert(
    file: Annotated[
        str,
        typer.Argument(
            help="A machine's file: .json, .jff, .att, .mata, .ba, .regex, .yaml, .txt …; a Turing machine's name; or "
            "the folder of a network that holds an automaton or a Turing machine.",
            autocompletion=complete_machine,
        ),
    ],
    output: Annotated[
        list[Path], typer.Option("-o", help="Files to write; the suffix names the format. May be repeated.")
    ],
    minimise: Annotated[bool, typer.Option("--minimise", help="Write the minimal deterministic automaton.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a machine's file in another format: automata, machines with output or weights, Turing machines."""
    from kleene.machines.automata.nfa import NFA
    from kleene.machines.files import as_automaton

    machine = _machine_to_write(file)
    if minimise:
        machine = as_automaton(machine, file).minimise()
    for target in output:
        if not hasattr(machine, "save"):
            raise FileError(f"{target}: {a_type(machine)} cannot be written to a file")
        kept = machine
        if isinstance(machine, NFA) and target.suffix == ".ba":
            kept = machine.without_empty_moves()
        kept.save(target)
    kind = type(machine).__name__
    if as_json:
        return print_json({"file": file, "kind": kind, "saved": [str(target) for target in output]})
    print(f"{file}: a {kind} of {counted(len(getattr(machine, 'states', machine)), 'state')}")
    for target in output:
        print(f"saved {target}")


def _machine_to_write(name: str) -> Any:
    """The machine in a file as it is, a Turing machine by name, or what the network in a folder does."""
    from kleene import verbs
    from kleene.machines.files import read_machine

    if is_folder(name):
        machine = read_network(verbs.load(name))
        if not hasattr(machine, "save"):
            raise NotSupported(
                f"{name}: holds no automaton and no Turing machine; 'kleene decompile' reads its updates"
            )
        return machine
    path = Path(name)
    named = None if path.exists() else turing_machine(name)
    return named or read_machine(path)


@app.command(epilog="Example: kleene compare powers_of_two --length 16 -o powers.png")
def compare(
    file: Annotated[
        str,
        typer.Argument(
            help="A machine's file, a pattern such as '(a|b)*abb', a program's or a Turing machine's name, or the "
            "folder of a network that holds one.",
            autocompletion=complete_anything,
        ),
    ],
    length: Annotated[
        list[int] | None, typer.Option(min=1, help="The longest words of networks with a limit. May be repeated.")
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", metavar="FILE", help="Draw a plot: .png, .svg or .pdf.")] = None,
    as_json: AsJson = False,
) -> None:
    """Put a machine into every architecture: size, depth, precision, longest word and proof of each network."""
    from kleene.checks.comparison import LENGTHS, compare
    from kleene.show.comparison import SUFFIXES

    if output is not None and output.suffix not in SUFFIXES:
        raise FileError(f"{output}: unknown suffix {output.suffix!r}; a plot is {', '.join(SUFFIXES)}")
    machine = _machine_to_write(file) if is_folder(file) else find_source(file)
    with busy(f"comparing {file}", as_json) as progress:
        made = compare(machine, lengths=tuple(length) if length else LENGTHS, progress=progress)
    if output is not None:
        made.plot(output)
    if as_json:
        return print_json({"file": file, **made.to_json(), "saved": None if output is None else str(output)})
    print(made)
    if output is not None:
        print(f"saved {output}")


def _save(dfa: Any, rnn: Any, certificate: Any, path: Path) -> None:
    if path.suffix:
        dfa.save(path)
    else:
        rnn.save(path)
        certificate.save(path)


@app.command(epilog="Example: kleene tm 1RB1LC_1RC1RB_1RD0LE_1LA1LD_1RZ0LA --max-steps 1000000")
def tm(
    file: Annotated[
        str,
        typer.Argument(
            help="A machine: .yaml, .jff, .json, .txt, a name such as powers_of_two, or bbchallenge text itself.",
            autocompletion=complete_machine,
        ),
    ],
    word: Annotated[
        str | None,
        typer.Argument(
            help="The input; by default the one in the file, or the empty word; - reads inputs, one per line."
        ),
    ] = None,
    max_steps: Annotated[
        int, typer.Option("--max-steps", "--steps", min=0, help="Steps of the machine, at most.")
    ] = STEPS,
    form: Annotated[str, typer.Option(help="compact or literal (the chapter's construction).")] = "compact",
    evaluator: Annotated[str, typer.Option(help="patterns (fast) or plain; both are exact.")] = "patterns",
    tape: Annotated[bool, typer.Option("--tape", help="Also show the tape.")] = False,
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

    machine = _turing_machine(file)
    options: dict[str, Any] = {"form": form}
    net = kl.compile(machine, **options)
    for path in output or []:
        _save_machine(machine, net, path)
    if _is_standard_input(word, machine.input_alphabet):
        _one_word(html)

        def run(text: str) -> None:
            found = net.decide(read_word(machine, [text]), max_steps=max_steps, evaluator=evaluator)
            said = {"machine": machine.name, "word": text, **found.to_json()}
            print_json(said) if as_json else print(f"{text}: {found}")

        return each_line(run)
    given = read_word(machine, [machine.example if word is None else word])
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


def _turing_machine(file: str) -> Any:
    """The machine in a file, of the library, or of a bbchallenge text."""
    import kleene as kl
    from kleene.library.turing_machines import MACHINES

    if Path(file).exists() or Path(file).suffix:
        found = find_machine(file)
        if found is not None and not isinstance(found, kl.TuringMachine):
            raise InputError(f"{file}: holds {a_type(found)}, not a Turing machine; kleene run {file} WORD runs it")
        return kl.TuringMachine.load(file) if found is None else found
    machine = turing_machine(file)
    if machine is None:
        names = ", ".join(MACHINES)
        raise FileError(f"{file}: no such file, no bbchallenge text such as '1RB1LB_1LA1RZ', and none of {names}")
    return machine


def _is_standard_input(word: str | None, alphabet: Iterable[str]) -> bool:
    """Whether a word is `-`, which stands for the lines of standard input unless it is a symbol."""
    return word == "-" and "-" not in alphabet


def _one_word(html: Path | None) -> None:
    """Reject a page of many words."""
    if html is not None:
        raise InputError(f"--html {html}: a page shows one word; give the word in place of -")


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
