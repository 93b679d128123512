"""`kleene explain` and `kleene reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kleene.cli import AsJson, app, each_line, print_json, show
from kleene.cli.names import find_source, is_folder, read_tokens, read_word
from kleene.cli.words import complete_anything, complete_experiment
from kleene.errors import FileError, InputError, NotSupported, a_type


@app.command(epilog="Example: kleene explain dyck1:length=6 '(()'")
def explain(
    model: Annotated[
        str,
        typer.Argument(
            help="folder of a saved network, the file of an automaton, or the name of a program or a machine",
            autocompletion=complete_anything,
        ),
    ],
    input: Annotated[
        list[str],
        typer.Argument(
            help="a sentence (language model with words), a word (RNN), else tokens: [2,1,0]; "
            "- reads inputs, one per line"
        ),
    ],
    target: Annotated[
        str | None, typer.Option(help="the predicted word to explain; the likeliest if not given")
    ] = None,
    bias_rule: Annotated[
        str | None, typer.Option(help="who gets the product of the gates' biases: focus (default) or murdoch")
    ] = None,
    read: Annotated[str | None, typer.Option(help="where pairs are read: right (default) or end")] = None,
    distribution: Annotated[
        str | None,
        typer.Option(metavar="SYMBOL=P,…", help="machines: how other symbols are drawn; uniformly by default"),
    ] = None,
    position: Annotated[int | None, typer.Option(help="programs: the position whose output counts; the last")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="write the picture here (PNG)")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="save a page for a closer look")] = None,
    as_json: AsJson = False,
) -> None:
    """Show which parts of an input did what in a saved network, or exactly, in a machine.

    A machine gives the exact Shapley value of each symbol, and the symbol that it interacts with most; where there are
    too many words to draw, or some of them have no output, its run. --html saves the page of the run.
    """
    from kleene.verbs import explain as verb
    from kleene.verbs import load

    if input == ["-"]:
        asked = (target, bias_rule, read, distribution, position)
        one_input({"--html": html, "-o": output})
        return each_line(lambda line: explain(model, line.split(" "), *asked, as_json=as_json))
    given = {"target": target, "bias_rule": bias_rule, "read": read}
    drawn = {"distribution": distribution, "position": position}
    if not is_folder(model):
        return _explain_machine(model, input, given, drawn, output, html, as_json)
    if any(value is not None for value in drawn.values()):
        option = next(option for option, value in drawn.items() if value is not None)
        raise InputError(f"--{option}: only for machines; {model} is a saved network")
    network: Any = load(model)
    options: dict[str, Any] = {option: value for option, value in given.items() if value is not None}
    evidence: Any
    if _is_language_model(network):
        text = " ".join(input)
        sentence = read_tokens(None, text) if network.vocabulary is None else text
        evidence = verb(network, sentence, **options)
    elif options:
        option = next(iter(options)).replace("_", "-")
        raise InputError(f"--{option}: only for language models; {model} holds {a_type(network)}")
    elif hasattr(network, "alphabet"):  # an RNN: the input is a word
        evidence = verb(network, read_word(network, input))
    else:
        evidence = verb(network, read_tokens(network, " ".join(input)))
    if html is not None:
        evidence.to_html(html)
    if output is not None:
        if not hasattr(evidence, "to_png"):
            raise InputError(f"{output}: there is no picture of the evidence for {a_type(network)}")
        evidence.to_png(output)
    if as_json:
        print_json(evidence.to_dict() if hasattr(evidence, "to_dict") else evidence.to_json())
    elif html is not None:
        typer.echo(f"saved {html}")
    else:
        typer.echo(str(evidence))


def one_input(files: dict[str, Path | None]) -> None:
    """Reject files that show one input where - stands for many."""
    for option, file in files.items():
        if file is not None:
            raise InputError(f"{option} {file}: shows one input; give the input in place of -")


def _explain_machine(
    name: str,
    words: list[str],
    networks: dict[str, Any],
    given: dict[str, Any],
    picture: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """The exact effects of a word's symbols, or of the tokens of a program's input; with --html, the page of a run."""
    from kleene.machines.program import ProgramClass
    from kleene.truth.shapley import explain_machine

    for option, value in networks.items():
        if value is not None:
            raise InputError(f"--{option.replace('_', '-')}: only for language models; {name} is a machine")
    if picture is not None:
        raise InputError(f"{picture}: there is no picture of the effects in a machine; --json gives the numbers")
    machine = find_source(name)
    program = isinstance(machine, ProgramClass)
    word: Any = read_tokens(machine, " ".join(words)) if program else read_word(machine, words)
    if html is not None:
        _run_of(machine, word, program).to_html(html)
        return typer.echo(f"saved {html}")
    drawn = _chances(given["distribution"], program)
    try:
        found = explain_machine(machine, word, distribution=drawn, position=given["position"])
    except NotSupported as error:  # too many words to draw, or some have no output
        if drawn is not None or given["position"] is not None:
            raise
        run = _run_of(machine, word, program)
        if as_json:
            return print_json({"no_exact_effects": str(error), **run.to_json()})
        return typer.echo(f"No exact effects: {error}. The run itself:\n\n{run}")
    print_json(found.to_dict()) if as_json else typer.echo(str(found))


def _run_of(machine: Any, word: Any, program: bool) -> Any:
    """The trace of a program, or of the network that a machine becomes."""
    from kleene.verbs import compile as to_network
    from kleene.verbs import explain as verb

    return machine.trace(word) if program else verb(to_network(machine), word)


def _chances(text: str | None, program: bool) -> dict[Any, float] | None:
    """`0=0.25,1=0.75` as a distribution; the symbols of a program are whole numbers."""
    if text is None:
        return None
    chances: dict[Any, float] = {}
    for part in text.split(","):
        symbol, _, chance = part.rpartition("=")
        try:
            chances[int(symbol) if program else symbol] = float(chance)
        except ValueError:
            raise InputError(f"--distribution: {part!r} is not symbol=probability, as in 0=0.25,1=0.75") from None
    return chances


def _is_language_model(network: object) -> bool:
    return type(network).__module__ == "kleene.networks.trained.lstm"


@app.command(epilog="Example: kleene reproduce interdependence.synthetic --scale small -o results/synthetic")
def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="the experiment; without it, list all", autocompletion=complete_experiment)
    ] = None,
    scale: Annotated[str, typer.Option(help="small (minutes on a CPU) or paper")] = "small",
    data: Annotated[
        Path | None, typer.Option(help="folder of data sets (or KLEENE_DATA)", envvar="KLEENE_DATA")
    ] = None,
    treebank: Annotated[
        Path | None, typer.Option(help="a CoNLL-U file, for experiments that measure on a treebank")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="run only tasks with such a name, as in '*-8-*'; may be repeated")
    ] = None,
    limit: Annotated[
        float | None, typer.Option(min=0, help="stop cleanly after this many seconds; the same command continues")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="number of training processes")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="training steps, instead of the scale's")] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="run the tasks on this Ray cluster; auto: the one here")
    ] = None,
    gpus: Annotated[float, typer.Option(min=0, help="with --cluster: the share of a GPU that a task takes")] = 0.0,
    storage: Annotated[
        str | None, typer.Option(metavar="URL", help="with --cluster: the storage of checkpoints, as an fsspec address")
    ] = None,
    together: Annotated[bool, typer.Option(help="train networks of one shape side by side, as one; for a GPU")] = False,
    stale: Annotated[bool, typer.Option(help="list the published results whose code has changed since")] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="folder for results")] = None,
    as_json: AsJson = False,
) -> None:
    """Run an experiment of one of the papers, and show its results beside the paper's.

    The same command with the same folder continues an interrupted run.
    """
    from kleene.common.cluster import Cluster
    from kleene.papers import experiment
    from kleene.papers.tasks import Plan

    if stale:
        return _stale(as_json)
    if name is None:
        return list_experiments(as_json)
    if scale not in ("small", "paper", "tiny"):
        raise InputError(f"--scale {scale!r}: unknown; use small or paper")
    if output is not None and output.exists() and not output.is_dir():
        raise FileError(f"{output}: a file; -o needs the name of a folder")
    run = experiment(name)
    options: dict[str, Any] = {}
    if treebank is not None:
        scales = getattr(getattr(run, "__self__", None), "scales", {})
        if "treebank" not in scales.get(scale, {}):
            raise InputError(f"--treebank {treebank}: {name} reads no treebank")
        options["settings"] = {"treebank": str(treebank)}
    asked: dict[str, Any] = {"only": tuple(only or ()), "limit": limit, "workers": workers, "steps": steps}
    asked = {option: value for option, value in asked.items() if value not in (None, ())}
    if together:
        if cluster is not None or getattr(getattr(run, "__self__", None), "together", None) is None:
            what = "tasks on a cluster run alone" if cluster is not None else f"the tasks of {name} run alone"
            raise InputError(f"--together: {what}; omit --together")
        asked["together"] = True
    if cluster is not None:
        asked["cluster"] = Cluster(cluster, gpus=gpus, storage=storage)
    folder = output or Path("results") / name
    result = run(scale=scale, data=data, folder=folder, progress=not as_json, plan=Plan(**asked), **options)
    print_json(result.published()) if as_json else typer.echo(result.table())


def list_experiments(as_json: bool) -> None:
    """List every experiment: a sentence, its scales, and how long a published run of each took."""
    from rich.table import Table
    from rich.text import Text

    from kleene.papers import EXPERIMENTS
    from kleene.papers.durations import DURATIONS, about

    rows: list[dict[str, Any]] = [
        {"name": name, "about": about(name), "seconds": DURATIONS.get(name, {})} for name in EXPERIMENTS
    ]
    if as_json:
        return print_json(rows)
    table = Table("experiment", "what it shows", "how long it took", box=None, pad_edge=False, header_style="dim")
    for row in rows:
        took = "; ".join(f"--scale {scale}: {_duration(*taken)}" for scale, taken in row["seconds"].items())
        table.add_row(Text(row["name"], style="bold"), row["about"], took or "not published")
    show(table)
    show("\nkleene reproduce alta.scan runs one at --scale small; --scale paper is what the paper ran.")


def _duration(seconds: float, device: str) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s ({device})"
    return f"{seconds / 60:.0f} min ({device})" if seconds < 5400 else f"{seconds / 3600:.1f} h ({device})"


def _stale(as_json: bool) -> None:
    """Print the published results whose code has changed; they lie in docs/results of a checkout."""
    from kleene.papers.publish import stale

    docs = Path("docs/results")
    if not docs.is_dir():
        raise FileError(f"{docs}: no such folder; --stale looks at the results of a checkout, from its root")
    found = stale(docs)
    if as_json:
        return print_json(found)
    for name, files in found.items():
        more = f" and {len(files) - 3} more" if len(files) > 3 else ""
        typer.echo(f"{name}: {', '.join(files[:3])}{more}")
    typer.echo(f"{len(found)} published results were made by different code")
