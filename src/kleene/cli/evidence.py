"""`kleene explain` and `kleene reproduce`."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from kleene.cli import AsJson, app, print_json
from kleene.cli.names import read_tokens, read_word
from kleene.errors import FileError, InputError, a_type


@app.command(epilog="Example: kleene explain models/wikitext 'the chimney sweep has sick lungs' -o heatmap.png")
def explain(
    model: Annotated[Path, typer.Argument(help="folder of a saved network")],
    input: Annotated[
        list[str], typer.Argument(help="a sentence (language model with words), a word (RNN), else tokens: [2,1,0]")
    ],
    target: Annotated[
        str | None, typer.Option(help="the predicted word to explain; the likeliest if not given")
    ] = None,
    bias_rule: Annotated[
        str | None, typer.Option(help="who gets the product of the gates' biases: focus (default) or murdoch")
    ] = None,
    read: Annotated[str | None, typer.Option(help="where pairs are read: right (default) or end")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="write the picture here (PNG)")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="save a page to look at it closely")] = None,
    as_json: AsJson = False,
) -> None:
    """Show which parts of an input did what in a saved network."""
    from kleene.verbs import explain as verb
    from kleene.verbs import load

    network: Any = load(model)
    given = {"target": target, "bias_rule": bias_rule, "read": read}
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


def _is_language_model(network: object) -> bool:
    return type(network).__module__ == "kleene.networks.trained.lstm"


@app.command(epilog="Example: kleene reproduce interdependence.synthetic --scale small -o results/synthetic")
def reproduce(
    name: Annotated[str | None, typer.Argument(help="the experiment; without it, list all")] = None,
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
        str | None, typer.Option(metavar="URL", help="with --cluster: where checkpoints are kept, as fsspec names it")
    ] = None,
    stale: Annotated[bool, typer.Option(help="list the published results whose code has changed since")] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="folder for results")] = None,
    as_json: AsJson = False,
) -> None:
    """Run an experiment of one of the papers, and show its results beside the paper's.

    The same command with the same folder continues an interrupted run.
    """
    from kleene.common.cluster import Cluster
    from kleene.papers import EXPERIMENTS, experiment
    from kleene.papers.tasks import Plan

    if stale:
        return _stale(as_json)
    if name is None:
        return print_json(list(EXPERIMENTS)) if as_json else typer.echo("\n".join(EXPERIMENTS))
    if scale not in ("small", "paper", "tiny"):
        raise InputError(f"--scale {scale!r}: unknown; use small or paper")
    if output is not None and output.exists() and not output.is_dir():
        raise FileError(f"{output}: a file; -o needs the name of a folder")
    run = experiment(name)
    known = signature(run).parameters
    options: dict[str, Any] = {} if treebank is None else {"treebank": treebank}
    if not options.keys() <= known.keys():
        raise InputError(f"--treebank {treebank}: {name} reads no treebank")
    asked: dict[str, Any] = {"only": tuple(only or ()), "limit": limit, "workers": workers, "steps": steps}
    asked = {option: value for option, value in asked.items() if value not in (None, ())}
    if cluster is not None:
        asked["cluster"] = Cluster(cluster, gpus=gpus, storage=storage)
    if "plan" in known:
        options["plan"] = Plan(**asked)
    elif asked:
        raise InputError(f"--{next(iter(asked))}: {name} is not a list of training tasks, and runs as a whole")
    result = run(scale=scale, data=data, folder=output or Path("results") / name, progress=not as_json, **options)
    print_json(result.published()) if as_json else typer.echo(result.table())


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
    typer.echo(f"{len(found)} published results were made by other code than this")
