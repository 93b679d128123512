"""`kleene learn`: networks that find a program's behaviour by gradient descent."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from kleene.cli import AsJson, app, busy, finish, print_json, show
from kleene.cli.names import find_program, read_tokens
from kleene.cli.programs import ProgramName, check_folder, read_lengths
from kleene.machines.program import ProgramClass

learn = typer.Typer(
    help="Learn a program from its runs: every step from its traces, or its answers alone.", no_args_is_help=True
)
app.add_typer(learn, name="learn")


class Optimiser(StrEnum):
    adafactor = "adafactor"
    adam = "adam"


class Positions(StrEnum):
    relative = "relative"
    absolute = "absolute"


class Read(StrEnum):
    all = "all"
    last = "last"


Lengths = Annotated[str, typer.Option("--lengths", help="Lengths of the training inputs: 1-10, or 6.")]
TestLengths = Annotated[str | None, typer.Option("--test-lengths", help="Lengths of inputs to test on: 11-20.")]
Random = Annotated[int, typer.Option("--random", min=1, help="This many random inputs of these lengths.")]
Inputs = Annotated[list[str] | None, typer.Option("--input", help="An input to learn from instead; may be repeated.")]
Seed = Annotated[int, typer.Option(help="The seed of inputs, first weights and batches.")]
Steps = Annotated[int, typer.Option(min=1, help="Training steps.")]
Rate = Annotated[float, typer.Option(help="The learning rate.")]
Batch = Annotated[int, typer.Option(min=1, help="Examples per step.")]
Target = Annotated[float | None, typer.Option(min=0, max=1, help="Stop when this share of training examples is right.")]
Checkpoints = Annotated[
    Path | None, typer.Option(help="Folder for checkpoints and metrics.jsonl; a killed run continues from it.")
]
Output = Annotated[Path | None, typer.Option("-o", "--output", metavar="DIR", help="Save the network here.")]


@learn.command("trace")
def trace(
    program: ProgramName,
    lengths: Lengths = "1-8",
    test_lengths: TestLengths = None,
    random: Random = 500,
    inputs: Inputs = None,
    depth: Annotated[int, typer.Option(min=0, help="Hidden layers of the MLP.")] = 2,
    width: Annotated[int, typer.Option(min=1, help="Units of each hidden layer.")] = 128,
    steps: Steps = 2_000,
    rate: Rate = 1e-2,
    optimiser: Optimiser = Optimiser.adafactor,
    batch: Batch = 256,
    noise: Annotated[float, typer.Option(min=0, help="Standard deviation of noise on the MLP's input.")] = 0.1,
    seed: Seed = 0,
    target: Target = None,
    checkpoints: Checkpoints = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Learn the MLP of a program from its traces.

    It replaces the compiled MLP; everything else stays compiled. Exit code 1 if the network is not
    right on every training input.

    Example: kleene learn trace parity_relative --lengths 1-10 --test-lengths 11-40
    """
    _learn(
        program,
        lengths,
        test_lengths,
        random,
        inputs,
        seed,
        checkpoints,
        output,
        as_json,
        supervision="trace",
        depth=depth,
        width=width,
        steps=steps,
        rate=rate,
        optimiser=str(optimiser),
        batch=batch,
        noise=noise,
        target=target,
    )


@learn.command("end-to-end")
def end_to_end(
    program: ProgramName,
    lengths: Lengths = "1-8",
    test_lengths: TestLengths = None,
    random: Random = 2_000,
    inputs: Inputs = None,
    layers: Annotated[int, typer.Option(min=1, help="Layers of the transformer.")] = 2,
    shared: Annotated[bool, typer.Option(help="One set of weights for all layers.")] = True,
    positions: Annotated[Positions, typer.Option(help="How it knows positions.")] = Positions.relative,
    width: Annotated[int, typer.Option(min=1, help="Dimensions of the residual stream.")] = 64,
    hidden: Annotated[int, typer.Option(min=1, help="Hidden units of the MLP.")] = 256,
    heads: Annotated[int, typer.Option(min=1, help="Attention heads.")] = 4,
    head_size: Annotated[int, typer.Option(min=1, help="Dimensions of a head.")] = 16,
    read: Annotated[Read, typer.Option(help="Learn the output at all positions or at the last.")] = Read.all,
    steps: Steps = 2_000,
    rate: Rate = 1e-3,
    optimiser: Optimiser = Optimiser.adam,
    batch: Batch = 64,
    seed: Seed = 0,
    target: Target = None,
    checkpoints: Checkpoints = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Train a standard transformer on a program's inputs and outputs.

    Layer norm, GeLU and softmax attention; nothing of it is compiled. Exit code 1 where it is not right on every
    training input.

    Example: kleene learn end-to-end parity_relative --lengths 1-8 --read last --steps 500
    """
    _learn(
        program,
        lengths,
        test_lengths,
        random,
        inputs,
        seed,
        checkpoints,
        output,
        as_json,
        supervision="end-to-end",
        layers=layers,
        shared=shared,
        positions=str(positions),
        width=width,
        hidden=hidden,
        heads=heads,
        head_size=head_size,
        read=str(read),
        steps=steps,
        rate=rate,
        optimiser=str(optimiser),
        batch=batch,
        target=target,
    )


def _learn(
    name: str,
    lengths: str,
    test_lengths: str | None,
    random: int,
    inputs: list[str] | None,
    seed: int,
    checkpoints: Path | None,
    output: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    program = find_program(name)
    if output is not None:
        check_folder(output)
    if inputs:
        train = [read_tokens(program, text) for text in inputs]
    else:
        train = _drawn(program, lengths, random, seed)
    test = _drawn(program, test_lengths, min(random, 1_000), seed + 1) if test_lengths else None
    with busy("importing torch", as_json):
        from kleene.training.from_traces import accuracy
        from kleene.verbs import learn as verb
    net = verb(program, train, seed=seed, folder=checkpoints, progress=not as_json, **options)
    read = options.get("read", "all")
    right = accuracy(net, program, train, read)
    tested = None if test is None else accuracy(net, program, test, read)
    if output is not None:
        net.save(output)
    if as_json:
        print_json(
            {
                "program": name,
                **options,
                "seed": seed,
                "inputs": len(train),
                "right": right,
                "test": tested,
                "metrics": net.metrics,
                "folder": None if output is None else str(output),
            }
        )
    else:
        last = net.metrics[-1]
        show(f"{name}: {last['step']:,} steps, loss {last['loss']:.4g}")
        show(f"right on {right:.1%} of {len(train):,} training inputs")
        if test is not None and tested is not None:
            show(f"right on {tested:.1%} of {len(test):,} inputs of lengths {test_lengths}")
        show(f"saved in {output}" if output is not None else "not saved; use -o DIR to save it")
    finish(right == 1.0)


def _drawn(program: ProgramClass, lengths: str, count: int, seed: int) -> list[list[int]]:
    from kleene.checks.agreement import choose_inputs

    sample = getattr(program, "sample", None)
    return list(choose_inputs(program.spec, None, read_lengths(lengths), count, seed, sample)[0])
