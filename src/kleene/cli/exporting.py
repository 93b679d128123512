"""`kleene export`: write networks and machines for other tools."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from kleene import verbs
from kleene.cli import AsJson, app, busy, print_json, show
from kleene.cli.names import find_machine, find_network, is_folder
from kleene.cli.words import complete_anything
from kleene.errors import InputError

ALIASES = {"hf": "hugging-face", "lens": "transformer-lens", "dot": "graphviz"}


class Target(StrEnum):
    transformer_lens = "transformer-lens"
    hugging_face = "hugging-face"
    onnx = "onnx"
    graphviz = "graphviz"
    circuit = "circuit"
    llama = "llama"
    gpt2 = "gpt2"
    phi3 = "phi3"
    qwen3 = "qwen3"

    @classmethod
    def read(cls, text: str) -> Target:
        """A target by its name or its alias."""
        try:
            return cls(ALIASES.get(text, text))
        except ValueError:
            known = ", ".join([*cls, *(f"{short} ({name})" for short, name in ALIASES.items())])
            raise InputError(f"--to {text}: unknown; choose one of {known}") from None


STOCK = (Target.llama, Target.gpt2, Target.phi3, Target.qwen3)
OPTIONS = {
    Target.transformer_lens: ("layers", "length"),
    Target.onnx: ("layers",),
    Target.circuit: ("layers",),
    **dict.fromkeys(STOCK, ("length",)),
}
PRINTED = (Target.graphviz, Target.circuit)  # text: printed if no file is given


@app.command("export")
def export(
    name: Annotated[
        str,
        typer.Argument(
            metavar="DIR",
            help="A saved network, a PROGRAM, or a machine's file (.json, .jff, .yaml) or name.",
            autocompletion=complete_anything,
        ),
    ],
    target: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="TOOL",
            help=f"The tool or format: {', '.join(Target)}; also {', '.join(ALIASES)}.",
            autocompletion=lambda incomplete: [one for one in (*Target, *ALIASES) if one.startswith(incomplete)],
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="OUT", help="Write here: a folder, or a file.")
    ] = None,
    layers: Annotated[
        int | None,
        typer.Option(min=1, help="Unroll this many layers (transformer-lens, circuit; without it, onnx loops)."),
    ] = None,
    length: Annotated[
        int | None, typer.Option(min=1, help="The longest input (transformer-lens, llama, gpt2, phi3, qwen3).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Export a network or a machine to another tool.

    transformer-lens: the folder of a HookedTransformer. hugging-face: a folder for from_pretrained. onnx: a file for
    onnxruntime, looped with halting, or unrolled with --layers. graphviz: an automaton's .dot. circuit: circuit.json,
    which heads and units implement which variable. Without -o, these two are printed. llama, gpt2, phi3, qwen3: a
    decoder as an unmodified class of transformers.

    Example: kleene export addition --to onnx -o addition.onnx
    """
    to = Target.read(target)
    given: dict[str, Any] = {key: value for key, value in (("layers", layers), ("length", length)) if value is not None}
    for key in given:
        if key not in OPTIONS.get(to, ()):
            fits = ", ".join(target for target, options in OPTIONS.items() if key in options)
            raise InputError(f"--{key}: not an option of --to {to}, but of {fits}")
    if output is None and to not in PRINTED:
        raise InputError(f"--to {to}: give -o OUT, the place to write to")
    thing = None if is_folder(name) else find_machine(name)
    thing = find_network(name, as_json) if thing is None else thing
    with busy(f"exporting {name}", as_json):
        named: Any = str(to)
        made: Any = verbs.export(thing, named, output, **given)
    if output is None:
        if to is Target.graphviz and as_json:
            return print_json({"dot": made})
        return print_json(made) if to is Target.circuit else print(made, end="")
    if as_json:
        return print_json({"name": name, "to": str(to), "saved": str(output), **given})
    show(f"{name}: saved for {to} in {output}{_said(to, made)}")


def _said(to: Target, made: Any) -> str:
    """Return what a user of the export needs to know."""
    if to is Target.transformer_lens:
        n = made.names
        return (
            f"; {n['layers']} layers as {made.config['n_layers']} blocks, inputs of up to {n['length']} tokens after "
            f"the sink, which is token {n['sink_token']}"
        )
    if to is Target.circuit and "class" in made:  # a stock model
        return f"; {len(made['residual'])} dimensions, {len(made['layers'])} layers"
    if to is Target.circuit:
        return f"; {len(made['nodes'])} nodes, {len(made['edges'])} edges"
    if to is Target.onnx:
        return f"; {made.doc_string.partition(': ')[2]}"
    return ""
