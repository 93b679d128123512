"""Commands for attention programs and their networks."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import re
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from kleene import verbs
from kleene.cli import AsJson, app, busy, each_line, finish, print_json, show
from kleene.cli.names import (
    answer,
    find_network,
    find_program,
    find_source,
    is_folder,
    joined,
    library_programs,
    read_tokens,
)
from kleene.cli.words import complete_anything, complete_program, in_options
from kleene.errors import FileError, InputError, NotSupported, a_type
from kleene.machines.program import ProgramClass

PROGRAM_HELP = "addition, sort:length=20,values=10, path/to/file.py:Name or file.rasp:name:vocab=abc,length=10"
ProgramName = Annotated[
    str,
    typer.Argument(metavar="PROGRAM", help=f"A program: {PROGRAM_HELP}.", autocompletion=complete_program),
]
NetworkName = Annotated[
    str,
    typer.Argument(
        metavar="DIR",
        help="A folder with a saved network, a PROGRAM, or a machine's file or name.",
        autocompletion=complete_anything,
    ),
]
Words = Annotated[
    list[str],
    typer.Argument(metavar="INPUT...", help="Text, numbers, or tokens as [2,1,0]; - reads inputs, one per line."),
]
Layers = Annotated[int | None, typer.Option("--layers", min=1, help="Run exactly this many layers.")]
MaxLayers = Annotated[int, typer.Option("--max-layers", min=1, help="Give up after this many layers.")]
WORDS = {"ignore_unknown_options": True}  # an input may contain negative numbers


DEFAULT_RANDOM = 200


class Evaluator(StrEnum):
    """What computes the answer."""

    interpreter = "interpreter"
    rules = "rules"
    network = "network"


NAMES = {
    Evaluator.interpreter: "interpreter",
    Evaluator.rules: "rule machine",
    Evaluator.network: "network (dense, every read checked)",
}


class Lowering(StrEnum):
    thresholds = "thresholds"
    rules = "rules"


class Shape(StrEnum):
    universal = "universal"
    encoder = "encoder"
    decoder = "decoder"


class Dtype(StrEnum):
    float32 = "float32"
    float64 = "float64"
    bfloat16 = "bfloat16"


class Depth(StrEnum):
    sequential = "sequential"
    logarithmic = "logarithmic"
    constant = "constant"


class Transitions(StrEnum):
    products = "products"
    positive = "positive"
    signed = "signed"


class Network(StrEnum):
    """Unmodified classes of Hugging Face's transformers."""

    llama = "llama"
    gpt2 = "gpt2"
    phi3 = "phi3"
    qwen3 = "qwen3"


class CertifiedDtype(StrEnum):
    float32 = "float32"
    float64 = "float64"
    bfloat16 = "bfloat16"
    float16 = "float16"


@app.command("list")
def list_programs(as_json: AsJson = False) -> None:
    """List the programs of the library.

    Example: kleene list
    """
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "parameters": _parameters(made),
            "about": (inspect.getdoc(made) or "").split("\n\n")[0],
        }
        for name, made in library_programs().items()
    ]
    if as_json:
        return print_json(rows)
    from rich.table import Table
    from rich.text import Text

    from kleene.library.turing_machines import MACHINES as TURING

    table = Table("program", "what it does", box=None, pad_edge=False, header_style="dim")
    for row in rows:
        values = ",".join(f"{key}={value}" for key, value in row["parameters"].items())
        name = Text(row["name"], style="bold").append(f":{values}" if values else "", style="not bold dim")
        table.add_row(name, Text(" ".join(row["about"].split())))
    show(table)
    show("\nkleene run sort 3 1 2 uses these parameters; kleene run sort:length=5,values=10 3 1 2 uses others.")
    show(f"Turing machines, wherever a machine's file can stand: {', '.join(TURING)}.")


def _parameters(made: Any) -> dict[str, Any]:
    if isinstance(made, ProgramClass):
        return {}
    return {name: parameter.default for name, parameter in inspect.signature(made).parameters.items()}


@app.command("run", context_settings=WORDS)
def run_program(
    program: Annotated[
        str,
        typer.Argument(
            metavar="PROGRAM",
            help=f"{PROGRAM_HELP}, a machine's file or name, or a saved network's folder.",
            autocompletion=complete_anything,
        ),
    ],
    words: Words,
    on: Annotated[
        Evaluator | None, typer.Option("--on", help="What computes: interpreter (default), rules, network.")
    ] = None,
    layers: Layers = None,
    max_layers: MaxLayers = 10_000,
    as_json: AsJson = False,
) -> None:
    """Run a program, a machine, or a saved network on one input, or on each line of standard input (-).

    Example: kleene run addition 34+56 --on network
    """
    from kleene.cli.automata import run_word

    if words == ["-"]:
        return run_lines(program, on, layers, max_layers, as_json)
    text = joined(words)
    if run_word(program, words, on, as_json):
        return
    machine, runner, evaluator, options = _prepared(program, on, layers, max_layers, as_json)
    tokens = read_tokens(machine, text)
    if isinstance(machine, ProgramClass):
        tokens = machine.spec.check_input(tokens)
    with busy(f"running {program}", as_json):
        outputs = runner.run(tokens, **options)
    decoded = answer(machine, outputs)
    if as_json:
        return print_json(_result(program, text, tokens, evaluator, outputs, decoded))
    show(outputs_text(outputs if decoded is None else decoded))
    show(f"by the {said_of(runner, evaluator)}, in {layers_text(outputs.layers)}")


def _result(
    program: str, text: str, tokens: list[int], evaluator: Evaluator, outputs: Any, decoded: Any
) -> dict[str, Any]:
    return {
        "program": program,
        "input": text,
        "tokens": tokens,
        "evaluator": str(evaluator),
        "outputs": list(outputs),
        "decoded": decoded,
        "layers": outputs.layers,
    }


def _prepared(
    program: str, on: Evaluator | None, layers: int | None, max_layers: int, as_json: bool
) -> tuple[Any, Any, Evaluator, dict[str, Any]]:
    """The program or network of this name, what runs it, which evaluator that is, and the options of `run`."""
    if is_folder(program):
        if on not in (None, Evaluator.network):
            raise InputError(f"{program}: a saved network runs only --on network; name a program for --on {on}")
        network = find_network(program)
        return network, network, Evaluator.network, network_options(program, network, layers, max_layers)
    machine, evaluator = find_program(program), on or Evaluator.interpreter
    with busy(f"preparing the {evaluator}", as_json):
        runner = _runner(machine, evaluator)
    options: dict[str, Any] = {"layers": layers, "max_layers": max_layers}
    return machine, runner, evaluator, options | ({"check": True} if evaluator is Evaluator.network else {})


def run_lines(program: str, on: Evaluator | None, layers: int | None, max_layers: int, as_json: bool) -> None:
    """Run each line of standard input and print its answer at once."""
    from kleene.cli.automata import run_word

    prepared: tuple[Any, Any, Evaluator, dict[str, Any]] | None = None

    def run(text: str) -> None:
        nonlocal prepared
        if prepared is None and not run_word(program, [text], on, as_json, brief=True):
            prepared = _prepared(program, on, layers, max_layers, as_json)
        if prepared is not None:
            _run_line(program, text, *prepared, as_json)

    each_line(run)


def _run_line(
    program: str, text: str, machine: Any, runner: Any, evaluator: Evaluator, options: dict[str, Any], as_json: bool
) -> None:
    tokens = read_tokens(machine, text)
    outputs = runner.run(tokens, **options)
    decoded = answer(machine, outputs)
    if as_json:
        return print_json(_result(program, text, tokens, evaluator, outputs, decoded))
    show(outputs_text(outputs if decoded is None else decoded))


def network_options(name: str, network: Any, layers: int | None, max_layers: int) -> dict[str, Any]:
    """The options for `run` of a saved network. Reject other kinds, and --layers where layers are fixed."""
    kind = type(network).__name__
    if kind == "StandardTransformer":
        if layers is not None:
            raise InputError(f"{name}: a trained transformer has a fixed number of layers; omit --layers")
        return {}
    if kind in ("StockModel", "SequenceRNN"):
        if layers is not None:
            said = "a stock model has a fixed number of layers" if kind == "StockModel" else "an RNN has no layers"
            raise InputError(f"{name}: {said}; omit --layers")
        return {}
    if kind not in ("Transformer", "LearnedTransformer"):
        raise NotSupported(f"{name}: holds a {kind}, which 'run' cannot take; it takes a transformer")
    given: dict[str, Any] = {"layers": layers, "max_layers": max_layers}
    return given if kind == "LearnedTransformer" else {**given, "check": True}


def said_of(runner: Any, evaluator: Evaluator) -> str:
    """What ran, in words: a stock model by its class, a trained network as such."""
    kind = type(runner).__name__
    if kind == "StockModel":
        from kleene.networks.stock.model import CLASSES

        return f"network ({CLASSES[runner.family]} of transformers)"
    if kind in ("LearnedTransformer", "StandardTransformer"):
        return "learned network"
    return "network" if kind == "SequenceRNN" else NAMES[evaluator]


def _runner(program: ProgramClass, evaluator: Evaluator) -> Any:
    """What runs a program: the interpreter, the rule machine, or its network."""
    if evaluator is Evaluator.interpreter:
        return program
    if evaluator is Evaluator.network:
        return verbs.compile(program)
    from kleene.lowering.guarding import guarded_updates
    from kleene.lowering.rule_machine import RuleMachine

    return RuleMachine(guarded_updates(program))


def outputs_text(outputs: Any) -> str:
    return " ".join(map(str, outputs)) if isinstance(outputs, list) else str(outputs)


def layers_text(count: int) -> str:
    return f"{count:,} layer{'' if count == 1 else 's'}"


@app.command("trace", context_settings=WORDS)
def trace_program(
    program: Annotated[
        str,
        typer.Argument(
            metavar="PROGRAM",
            help=f"{PROGRAM_HELP}, a machine's file or name, or a saved network's folder.",
            autocompletion=complete_anything,
        ),
    ],
    words: Words,
    on: Annotated[
        Evaluator | None, typer.Option("--on", help="What is recorded: interpreter (default), or network.")
    ] = None,
    layers: Layers = None,
    max_layers: MaxLayers = 10_000,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save a page that steps through the layers.")
    ] = None,
    weights: Annotated[
        bool | None,
        typer.Option("--weights/--no-weights", help="Show weights on the page; by default if there are few."),
    ] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Save the tables as a picture.")] = None,
    steps: Annotated[
        bool, typer.Option("--steps", help="Say what each layer does, in the program's own words (scan).")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show every variable, position and layer of a run.

    The interpreter runs the program; --on network records the values in the network's residual stream. A change reads
    old→new; ∅ is a head that selects no position, or too many.

    Example: kleene trace parity_relative 101 --html parity.html
    """
    from kleene.cli.automata import trace_word
    from kleene.cli.evidence import one_input

    if words == ["-"]:
        one_input({"--html": html, "--svg": svg})
        again = functools.partial(
            trace_program, program, on=on, layers=layers, max_layers=max_layers, steps=steps, as_json=as_json
        )
        return each_line(lambda line: again([line]))
    text = joined(words)
    if weights is not None and html is None:
        raise InputError("--weights: only for a page; add --html FILE")
    refused = {"on": on, "layers": layers, "weights": weights, "svg": svg, "steps": steps}
    if trace_word(program, words, refused, html, as_json):
        return
    machine, trace = _traced(program, text, on, layers, max_layers, as_json)
    if svg is not None:
        from kleene.files import write_text
        from kleene.show.terminal import trace_svg

        write_text(svg, trace_svg(trace, f"kleene trace {program} {text}"))
    if html is not None:
        with busy("making the page", as_json):
            trace.to_html(html, weights=weights, text=text)
    if steps:
        return show_steps(machine, trace, as_json)
    if as_json:
        return print_json(trace.to_json())
    if html is not None:
        show(f"saved {html}: {trace.layers:,} layers by the {trace.evaluator}")
    else:
        show(trace)
    if trace.spec.max_tokens is not None:
        show("\na decoder: these layers compute the first token that it appends")
    else:
        said = "" if trace.outputs.text is None else f" ({trace.outputs.text})"
        show(f"\n{trace.spec.output} after {layers_text(trace.layers)}: {outputs_text(trace.outputs)}{said}")


def _traced(
    name: str, text: str, on: Evaluator | None, layers: int | None, max_layers: int, as_json: bool
) -> tuple[Any, Any]:
    """The program or network of this name, and the trace of a run."""
    if on is Evaluator.rules:
        raise InputError("--on rules: the rule machine keeps no trace; use --on interpreter or --on network")
    saved = is_folder(name)
    if saved and on is Evaluator.interpreter:
        raise InputError(f"{name}: a saved network has no Python to interpret; omit --on interpreter")
    if not saved and on is not Evaluator.network:
        machine = find_program(name)
        return machine, machine.trace(read_tokens(machine, text), layers=layers, max_layers=max_layers)
    if layers is not None:
        raise InputError(f"--layers {layers}: a trace of a network runs until the network halts; omit --layers")
    thing: Any = find_network(name, as_json) if saved else find_program(name)
    with busy(f"running the network of {name}", as_json):
        net: Any = thing if saved else verbs.compile(thing)
        if type(net).__name__ != "Transformer":
            raise NotSupported(f"{name}: holds {a_type(net)}; 'trace' takes a transformer, 'explain' others")
        trace = verbs.explain(net, read_tokens(thing, text), max_layers=max_layers)
    return thing, trace if saved else dataclasses.replace(trace, origin=thing, spec=thing.spec)


def show_steps(machine: Any, trace: Any, as_json: bool) -> None:
    """Show a run as the program describes it."""
    if not hasattr(machine, "describe"):
        raise NotSupported(f"{machine.spec.name}: has no 'describe' for --steps; omit --steps")
    columns, rows = machine.describe(trace)
    if as_json:
        return print_json([dict(zip(columns, row)) for row in rows])
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=None, pad_edge=False, header_style="dim")
    for row in rows:
        table.add_row(*map(Text, row))
    show(table)


@app.command("compile")
def compile_program(
    program: Annotated[
        str,
        typer.Argument(
            metavar="PROGRAM",
            help=f"{PROGRAM_HELP}, a machine's file (.json, .jff, .yaml, .att), a pattern such as '(a|b)*abb', or "
            "powers_of_two and other machines.",
            autocompletion=complete_anything,
        ),
    ],
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="DIR", help="Save the network here.")] = None,
    to: Annotated[
        str | None, typer.Option(metavar="NETWORK", help="The network's architecture, such as lstm; see the guide.")
    ] = None,
    lowering: Annotated[
        Lowering | None, typer.Option(help="thresholds is compact; rules has one unit per rule.")
    ] = None,
    shape: Annotated[Shape | None, typer.Option(help="By default the shape that fits the program.")] = None,
    layers: Annotated[int | None, typer.Option(min=1, help="The number of layers of an encoder.")] = None,
    length: Annotated[int | None, typer.Option(min=1, help="The longest input, where the network has a limit.")] = None,
    size: Annotated[
        str | None, typer.Option(help="Pad to a shape (--to llama …): llama-3.2-1b, gpt2 …, or width=768,layers=12.")
    ] = None,
    spare: Annotated[str | None, typer.Option(metavar="zero|random", help="The weights that --size leaves.")] = None,
    depth: Annotated[Depth | None, typer.Option(help="An automaton's transformer: how its layers grow.")] = None,
    transitions: Annotated[Transitions | None, typer.Option(help="An automaton's linear RNN: its matrices.")] = None,
    tape: Annotated[int | None, typer.Option(min=1, help="A Turing machine's network: the number of cells.")] = None,
    method: Annotated[
        str | None, typer.Option(help="An automaton's simple RNN: balanced, smallest, minsky, image or scalar.")
    ] = None,
    dtype: Annotated[CertifiedDtype | None, typer.Option(help="The number format of the weights.")] = None,
    report: Annotated[bool, typer.Option("--report", help="Say what each update costs, and why.")] = False,
    as_json: AsJson = False,
) -> None:
    """Construct the network of a program or a machine.

    A program becomes a transformer; an automaton or a Turing machine becomes an RNN, or the network that --to names.
    The weights are constructed, not trained, and compute exactly what the program does.

    Example: kleene compile addition -o adder, or kleene compile '(a|b)*abb' --to lstm -o abb
    """
    machine = find_source(program)
    if output is not None:
        check_folder(output)
    given = {
        **{"to": to, "lowering": lowering, "shape": shape, "layers": layers, "length": length, "dtype": dtype},
        **{"size": read_shape(size), "spare": spare},
        **{"depth": depth, "transitions": transitions, "tape": tape, "method": method},
    }
    options: dict[str, Any] = {
        key: str(v) if isinstance(v, StrEnum) else v for key, v in given.items() if v is not None
    }
    if not isinstance(machine, ProgramClass):
        for key in [*(key for key in ("lowering", "shape") if key in options), *(["report"] if report else [])]:
            raise InputError(f"--{key}: only for attention programs; {program} holds {a_type(machine)}")
    own = to in (None, "transformer")
    if isinstance(machine, ProgramClass) and own and layers is not None and shape is not Shape.encoder:
        raise InputError(f"--layers {layers}: only for an encoder; add --shape encoder")
    with busy("importing torch", as_json):
        import torch  # noqa: F401  (it is no part of the time that compiling takes)
    start = time.perf_counter()
    with busy(f"compiling {program}", as_json):
        net = verbs.compile(machine, **options)
    result = {"program": program, "seconds": round(time.perf_counter() - start, 3), **sizes_of(net)}
    costs = explain_size(machine) if report else None
    if output is not None:
        save_network(net, output, program, as_json)
        result["folder"] = str(output)
    if as_json:
        return print_json(result | ({"report": costs.to_json()} if costs is not None else {}))
    show(f"{program}: {sizes_text(net)}; compiled in {result['seconds']:.2f} s")
    if costs is not None:
        show(f"\n{costs}\n")
    show(f"saved in {output}" if output is not None else "not saved; use -o DIR to save it")


def read_shape(text: str | None) -> str | dict[str, int] | None:
    """The name of a shape, or sizes as `width=768,layers=12`."""
    if text is None or "=" not in text:
        return text
    parts = [part.partition("=") for part in text.split(",")]
    if any(not value.strip().isdecimal() for _, _, value in parts):
        raise InputError(f"--size {text}: give sizes as whole numbers, as in width=768,layers=12")
    return {name.strip(): int(value) for name, _, value in parts}


def save_network(net: Any, folder: Path, name: str, as_json: bool) -> None:
    """Save a network; a stock model with its certificate, which the model card cites."""
    if type(net).__name__ != "StockModel":
        return net.save(folder)  # type: ignore[no-any-return]
    with busy(f"certifying {name}", as_json):
        certificate = verbs.certify(net)
    net.save(folder, certificate=certificate)
    if not as_json:
        show(str(certificate).splitlines()[0])


def check_folder(folder: Path) -> None:
    """Reject a folder with other files: saving replaces the whole folder."""
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{folder}: a file; -o needs the name of a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "kleene.json").exists():
        raise FileError(f"{folder}: a folder with other files in it; -o needs a new folder or a saved network's")


def sizes_of(net: Any) -> dict[str, Any]:
    sizes = getattr(net, "sizes", None)
    if dataclasses.is_dataclass(sizes):
        return {"sizes": dataclasses.asdict(sizes)}  # type: ignore[arg-type]
    return {"sizes": sizes} if isinstance(sizes, dict) else {}


def sizes_text(net: Any) -> str:
    named = {
        "residual": "residual dimensions",
        "heads": "heads",
        "hidden": "hidden units",
        "units": "units",
        "nonzero": "non-zero weights",
    }
    sizes = sizes_of(net).get("sizes", {})
    if type(net).__name__ == "StockModel":
        named = {"layers": "layers", **named, "parameters": "parameters", "bytes": "bytes"}
    return ", ".join(
        f"{sizes[key]:,} {name.removesuffix('s') if sizes[key] == 1 else name}"
        for key, name in named.items()
        if key in sizes
    )


def explain_size(program: ProgramClass) -> Any:
    from kleene.lowering.size_report import explain_size

    return explain_size(program)


@app.command("verify")
def verify(
    first: Annotated[
        str,
        typer.Argument(
            metavar="PROGRAM|DIR",
            help=f"{PROGRAM_HELP}, a machine's file or name, or a saved network.",
            autocompletion=complete_anything,
        ),
    ],
    second: Annotated[
        str | None,
        typer.Argument(metavar="PROGRAM", help="What to compare DIR with: a program, a machine, a network."),
    ] = None,
    lengths: Annotated[
        str | None, typer.Option(help="All inputs of these lengths (1-8, or 4), or those of --random.")
    ] = None,
    random: Annotated[
        int | None, typer.Option(min=1, help="This many random inputs; 200 if no other inputs are given.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of the random inputs.")] = 0,
    inputs: Annotated[list[str] | None, typer.Option("--input", help="An input to try; may be repeated.")] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Check the inputs on this Ray cluster; auto: the one here."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare a network with its program.

    Count the inputs on which the two agree; exit with code 1 if an answer differs. Without PROGRAM, compare DIR with
    the guarded updates that are saved in it. Without DIR, compile PROGRAM first.

    Example: kleene verify parity_relative --lengths 1-6
    """
    from kleene.cli.automata import verify_words

    found = verify_words(first, second, read_lengths(lengths) if lengths else None, random, seed, inputs)
    if found is not None:  # an automaton, a Turing machine, or the network of one
        if cluster is not None:
            raise InputError("--cluster: the words of automata and Turing machines are checked here; omit --cluster")
        print_json(found.to_json()) if as_json else show(str(found))
        return finish(found.holds)
    if second is not None and not is_folder(first):
        raise FileError(f"{first}: no such folder; 'verify DIR PROGRAM' compares a saved network with a program")
    program = second if second is not None else None if is_folder(first) else first
    machine = find_program(program) if program is not None else None
    tokens = [read_tokens(machine, text) for text in inputs or []]
    net = find_network(first, as_json)
    reference = machine if machine is not None else saved_machine(net)
    if hasattr(reference, "sop"):
        return verify_sop(reference, net, tokens, read_lengths(lengths) if lengths else None, random, seed, as_json)
    tokens = [reference.spec.check_input(given) for given in tokens]
    options = verify_options(tokens, read_lengths(lengths) if lengths is not None else None, random, seed)
    total = len(tokens) or options.get("random") or count_inputs(reference.spec.tokens, options["lengths"])
    with busy(f"verifying {first}", as_json, total) as progress:
        report = verbs.verify(reference, net, progress=progress, cluster=cluster, **options)
    print_json(report.to_json()) if as_json else show(in_options(str(report), ["verify"], app))
    finish(report.holds)


def verify_sop(
    program: Any, net: Any, tokens: list[Any], lengths: range | None, random: int | None, seed: int, as_json: bool
) -> None:
    """Compare a network with an s-op, which is evaluated in plain Python."""
    words = program.vocabulary.tokens
    options = verify_options([[words[t] for t in given[1:]] for given in tokens], lengths, random, seed)
    if lengths is not None and random is None and not tokens:
        count_inputs(len(words), lengths)
    with busy(f"verifying {program.__name__}", as_json) as progress:
        report = verbs.verify(program.sop, net, progress=progress, **options)
    print_json(report.to_json()) if as_json else show(in_options(str(report), ["verify"], app))
    finish(report.holds)


def verify_options(tokens: list[Any], lengths: range | None, random: int | None, seed: int) -> dict[str, Any]:
    """The inputs for kl.verify: given inputs, all of some lengths, or random inputs by default."""
    if tokens:
        return {"inputs": tokens}
    options: dict[str, Any] = {"seed": seed}
    if lengths is not None:
        options["lengths"] = lengths
    if random is not None or lengths is None:
        options["random"] = random or DEFAULT_RANDOM
    return options


def read_lengths(text: str) -> range:
    """Read `1-8` or `4` as a range of lengths."""
    found = re.fullmatch(r"\s*(\d+)\s*(?:(?:-|…|\.\.)\s*(\d+))?\s*", text)
    low, high = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= low <= high:
        raise InputError(f"--lengths {text}: not a range of lengths such as 1-8")
    return range(low, high + 1)


def count_inputs(tokens: int, lengths: range) -> int:
    """Count the inputs of these lengths; reject a count that no one can wait for."""
    if lengths[-1] * math.log10(max(tokens, 2)) > 12:
        raise InputError(f"--lengths {lengths[0]}-{lengths[-1]}: too many inputs to try all; add --random 1000")
    return sum(tokens**length for length in lengths)


def saved_machine(net: Any) -> Any:
    """Read the machine that is saved with a network."""
    from kleene.checks.certificates import saved_updates
    from kleene.machines.spec import Spec

    description = getattr(net, "description", {})
    if "program" not in description:
        raise NotSupported(f"{a_type(net)} has no machine to compare with; name one: verify DIR PROGRAM")
    return saved_updates(net, Spec.from_json(description["program"]))


@app.command("certify")
def certify(
    network: NetworkName,
    dtype: Annotated[
        CertifiedDtype | None, typer.Option(help="Certify for this number format; by default the network's.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Prove that a network's weights compute what is saved with it: the guarded updates, or the machine.

    Without a proof, give the reasons and exit with code 1.

    Example: kleene certify parity_relative --dtype bfloat16
    """
    net = find_network(network, as_json)
    with busy(f"certifying {network}", as_json):
        if dtype is not None and not hasattr(net, "dtype"):
            raise InputError(f"--dtype {dtype}: only for transformers; the weights of {network} are exact numbers")
        options: dict[str, Any] = {} if dtype is None else {"dtype": str(dtype)}
        certificate = verbs.certify(net, **options)
    print_json(certificate.to_json()) if as_json else show(str(certificate))
    finish(certificate.holds)


@app.command("decompile")
def decompile(
    network: NetworkName,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Save the result: .json, or any format of a machine."),
    ] = None,
    blind: Annotated[
        bool, typer.Option("--blind", help="Read a transformer's weights alone; everything gets new names.")
    ] = False,
    to: Annotated[
        str | None,
        typer.Option(metavar="regex", help="Print a regular expression of an RNN or a trained classifier of words."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read from the weights what a network does. A trained classifier of words answers queries instead.

    Example: kleene decompile addition
    """
    net = find_network(network, as_json)
    from kleene.cli.automata import decompile_to_regex, read_network

    if to is not None:
        return decompile_to_regex(network, net, to, output, as_json)
    with busy(f"decompiling {network}", as_json):
        found = read_network(net, blind)
    content = {"program": found.spec.to_json()} if hasattr(found, "spec") else {}
    content |= {"updates": found.to_json()} if content else found.to_json()
    if output is not None:
        from kleene.files import write_json

        if hasattr(found, "save"):
            found.save(output)  # a machine: the suffix names the format
        elif output.suffix != ".json":
            raise InputError(f"-o {output}: guarded updates are saved as JSON; use a name that ends in .json")
        else:
            write_json(output, content)
    if as_json:
        return print_json(content)
    show(str(found))
    if output is not None:
        show(f"saved in {output}")
