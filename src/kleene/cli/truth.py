"""`kleene factory` and `kleene score`: networks whose mechanism is known, and how well methods find it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from kleene.cli import AsJson, app, busy, print_json
from kleene.errors import FileError, InputError


def _range(option: str, text: str) -> tuple[int, int]:
    """`3` or `2-10` as two numbers."""
    found = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", text)
    if found is None:
        raise InputError(f"--{option} {text!r}: not a number or a range such as 2-10")
    return int(found[1]), int(found[2] or found[1])


@app.command(epilog="Example: kleene factory --count 4 --level compiled -o models/compiled")
def factory(
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder for the models.")],
    count: Annotated[int, typer.Option(min=1, help="How many models.")] = 100,
    level: Annotated[
        str,
        typer.Option(
            help="Automata: compiled, softened or trained; programs: compiled, superposed, interchange or trained."
        ),
    ] = "compiled",
    kind: Annotated[str, typer.Option(help="automaton or program.")] = "automaton",
    depth: Annotated[int, typer.Option(min=1, help="Layers of a program.")] = 3,
    variables: Annotated[int, typer.Option(min=2, help="Variables of a program.")] = 4,
    heads: Annotated[int, typer.Option(min=1, help="Heads of a program.")] = 3,
    values: Annotated[int, typer.Option(min=2, help="Values of a variable, and tokens, of a program.")] = 3,
    states: Annotated[str, typer.Option(metavar="N-M", help="Sizes of the automata.")] = "2-10",
    symbols: Annotated[str, typer.Option(metavar="N-M", help="Sizes of their alphabets.")] = "2-3",
    length: Annotated[str, typer.Option(metavar="N-M", help="Lengths of the words in the truth files.")] = "6-10",
    words: Annotated[int, typer.Option(min=1, help="Words in each truth file.")] = 8,
    steps: Annotated[int, typer.Option(min=1, help="Training steps, for trained models.")] = 3000,
    seed: Annotated[int, typer.Option(min=0, help="The seed of everything that is drawn.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Processes, for compiled models.")] = 1,
    batch: Annotated[int, typer.Option(min=1, help="Pairs of inputs per step, for transformers that train.")] = 256,
    together: Annotated[int, typer.Option(min=1, help="Transformers that train in one stack.")] = 32,
    limit: Annotated[
        float | None, typer.Option(min=0, help="For transformers that train: stop cleanly after this many seconds.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Train the stacks on this Ray cluster; auto: the one here.")
    ] = None,
    gpus: Annotated[float, typer.Option(min=0, help="With --cluster: the share of a GPU that a stack takes.")] = 0.0,
    storage: Annotated[
        str | None, typer.Option(metavar="URL", help="With --cluster: the storage of models, as an fsspec address.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make random automata and programs as networks, with the exact truth about them.

    Compiled models are certified. Each gets a folder with the network and truth.json: the automaton, its circuit, and
    words with their exact Shapley values and interactions; or the program, and the heads and variables in its circuit.
    Transformers train in stacks, on a GPU if there is one; the same command continues an interrupted run.
    """
    from kleene.truth.factory import Order, build, describe

    sizes = _range("states", states), _range("symbols", symbols), _range("length", length)
    order = Order(
        count,
        level,
        *sizes,
        words=words,
        seed=seed,
        steps=steps,
        kind=kind,
        depth=depth,
        variables=variables,
        heads=heads,
        values=values,
        batch=batch,
        together=together,
    )
    if order.stacks:
        made = _stacks(order, output, limit, cluster, gpus, storage, as_json)
        if as_json:
            return print_json({"folder": str(output), "level": level, "models": made})
        return typer.echo(describe(made))
    total = steps if level == "trained" else count
    with busy(f"making {count} models", as_json, total) as progress:
        made = build(order, output, workers=workers, progress=progress)
    if as_json:
        return print_json({"folder": str(output), "level": level, "models": made})
    typer.echo(describe(made))


def _stacks(
    order: Any, output: Path, limit: float | None, cluster: str | None, gpus: float, storage: str | None, as_json: bool
) -> list[dict[str, Any]]:
    """Train stacks of transformers as tasks, here or on a cluster."""
    from kleene.common.cluster import Cluster, fetch
    from kleene.papers.tasks import Plan, run_tasks
    from kleene.truth.factory import build

    if cluster is not None and storage is None:
        raise InputError("--cluster: the models come back through shared storage; name it with --storage")
    storage = storage and storage.rstrip("/")
    spread = None if cluster is None else Cluster(cluster, gpus=gpus, storage=storage)

    def runner(work: Any, tasks: Any, folder: Path) -> dict[str, dict[str, Any]]:
        plan = Plan(limit=limit, workers=1, cluster=spread)
        done = run_tasks(work, tasks, folder, plan=plan, progress=not as_json, title="stacks")
        if spread is not None and not plan.late:
            for name in done:  # a stack comes back as its checkpoint; the models are cut out of it here
                fetch(f"{storage}/{name}", folder / name)
                work(**tasks[name], folder=folder / name)
        return done

    return build(order, output, runner=runner)


@app.command(
    epilog="Example: kleene score cd random exact --models models/compiled, after kleene factory --count 4 -o "
    "models/compiled"
)
def score(
    methods: Annotated[
        list[str],
        typer.Argument(help="Names of methods; all: every one; exact: the planted one; module:function: one of yours."),
    ],
    models: Annotated[Path, typer.Option(help="A folder that kleene factory made, or one of several such.")],
    only: Annotated[
        list[str] | None, typer.Option(help="Score only these: tokens, pairs, nodes or edges; may be repeated.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of methods that draw at random.")] = 5,
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many models of each folder of models.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Folder for JSON, table and plot.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare methods with the truth: rank correlation, AUROC, faithfulness, completeness; each with its interval.

    With -o, the measurements of each model are kept: the same command continues a stopped run.
    """
    import time

    from kleene.papers.provenance import commit, loaded_code
    from kleene.papers.report import command, device
    from kleene.truth.scoreboard import every_method
    from kleene.truth.scoreboard import score as run

    if output is not None and output.exists() and not output.is_dir():
        raise FileError(f"{output}: a file; -o needs the name of a folder")
    names = [name for one in methods for name in (every_method() if one == "all" else [one])]
    started = time.time()
    with busy("scoring", as_json) as progress:
        keep = None if output is None else output / "models"
        asked: dict[str, Any] = {"only": only or (), "seeds": seeds, "limit": limit, "workers": workers, "keep": keep}
        board = run(names, models, **asked, progress=progress)
    board.about = {
        "command": command(),
        "commit": commit(),
        "device": device(),
        "seconds": round(time.time() - started, 1),
        "seeds": seeds,
        "code": loaded_code(),
    }
    if output is not None:
        board.write(output)
    print_json(board.to_dict()) if as_json else typer.echo(board.table())
