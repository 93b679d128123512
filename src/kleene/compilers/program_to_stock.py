"""Programs into stock classes of transformers: compile the decoder, plan its layers, write the tensors of the class."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch

from kleene.compilers.program_to_gpt2 import gpt2
from kleene.compilers.program_to_llama import llama
from kleene.compilers.program_to_phi3 import phi3
from kleene.compilers.program_to_qwen3 import qwen3
from kleene.compilers.program_to_transformer import compile_program
from kleene.compilers.stock_plan import make_plan
from kleene.compilers.stock_sizes import Room, read_size
from kleene.compilers.stock_tensors import check_sums
from kleene.errors import InputError, NotSupported
from kleene.machines.program import ProgramClass
from kleene.networks.stock.model import Family, StockModel
from kleene.networks.transformer.model import DTYPES, Transformer

WRITERS: dict[str, Any] = {"llama": llama, "gpt2": gpt2, "phi3": phi3, "qwen3": qwen3}
Dtype = Literal["float32", "bfloat16"]
Spare = Literal["zero", "random"]
AskedSize = str | Mapping[str, int] | None


def _into(family: Family) -> Callable[..., StockModel]:
    """The function that compiles a program into a family."""

    def compile_stock(
        program: ProgramClass,
        *,
        length: int | None = None,
        dtype: Dtype = "float32",
        layers: int | None = None,
        size: AskedSize = None,
        spare: Spare = "zero",
    ) -> StockModel:
        if spare not in ("zero", "random"):
            raise InputError(f"spare={spare!r}; the weights that are left are 'zero' or 'random'")
        if program.spec.max_tokens is not None and layers is not None:
            raise InputError(f"{program.spec.name}: layers={layers}; a decoder says itself how many layers it has")
        if program.spec.max_tokens is not None or (layers is None and program.spec.halt):
            net = compile_program(program, length=length)
        else:  # an encoder, recast causally: every position gives its output
            net = compile_program(program, length=length, shape="encoder", layers=layers)
        symbols = getattr(program, "symbols", None)
        choices = getattr(program, "choices", None)
        room = Room(read_size(size), spare == "random")
        return to_stock(net, family, length, dtype, symbols, inspect.getdoc(program) or "", choices, room)

    return compile_stock


compile_to_llama, compile_to_gpt2 = _into("llama"), _into("gpt2")
compile_to_phi3, compile_to_qwen3 = _into("phi3"), _into("qwen3")


def to_stock(
    net: Transformer,
    family: Family,
    length: int | None = None,
    dtype: str = "float32",
    symbols: Sequence[str] | None = None,
    about: str = "",
    choices: str | None = None,
    room: Room = Room(),  # noqa: B008  (it is frozen)
) -> StockModel:
    """The stock model of a compiled decoder. `choices`: the variable of the tokens that are allowed next."""
    if dtype not in ("float32", "bfloat16"):
        raise NotSupported(f"{net.config.name}: dtype={dtype!r}; a stock model has float32 or bfloat16 weights")
    plan = make_plan(net, length, choices)
    options = {"dtype": dtype} if family == "gpt2" else {}
    config, tensors, claim, made_of = WRITERS[family](plan, room, **options)
    if dtype == "float32":
        shift = float(np.abs(tensors.get("transformer.ln_f.bias", np.zeros(1))).max())
        check_sums(plan.spec.name, getattr(made_of, "layers", made_of), tensors["lm_head.weight"], shift)
    made = {name: torch.from_numpy(np.ascontiguousarray(array)).to(DTYPES[dtype]) for name, array in tensors.items()}
    texts = [str(t) for t in range(plan.spec.tokens)] if symbols is None else list(symbols)
    description = {**net.description, "program": {**net.description["program"], "causal": True}}
    return StockModel(
        family, config, made, description, {**claim, "length": plan.length, "choices": choices}, texts, about
    )
