"""Programs and machines into stock classes: compile the decoder, plan its layers, write the tensors of the class."""

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
from kleene.compilers.turing_to_transformer import chain_of, words_of
from kleene.errors import InputError, NotSupported, a_type
from kleene.library.decoders import regex_decoder, turing_decoder
from kleene.machines.automata.dfa import DFA
from kleene.machines.automata.nfa import NFA
from kleene.machines.program import ProgramClass
from kleene.machines.spec import Spec
from kleene.machines.turing import TuringMachine
from kleene.networks.stock.model import Family, StockModel
from kleene.networks.transformer.model import DTYPES, Transformer

DEFAULT_WORD, DEFAULT_STEPS = 64, 128  # the longest sequence of an automaton, of a Turing machine

WRITERS: dict[str, Any] = {"llama": llama, "gpt2": gpt2, "phi3": phi3, "qwen3": qwen3}
Dtype = Literal["float32", "bfloat16"]
Spare = Literal["zero", "random"]
AskedSize = str | Mapping[str, int] | None
StockSource = ProgramClass | DFA | NFA | TuringMachine


def _into(family: Family) -> Callable[..., StockModel]:
    """The function that compiles a program or a machine into a family."""

    def compile_stock(
        machine: StockSource,
        *,
        length: int | None = None,
        dtype: Dtype = "float32",
        layers: int | None = None,
        size: AskedSize = None,
        spare: Spare = "zero",
    ) -> StockModel:
        if length is not None and length < 1:
            raise InputError(f"compile: length={length}; the longest sequence has at least 1 token")
        program, length, about = decoder_of(machine, length, layers)
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
        net.description |= about
        return to_stock(net, family, length, dtype, symbols, inspect.getdoc(program) or "", choices, room)

    return compile_stock


compile_to_llama, compile_to_gpt2 = _into("llama"), _into("gpt2")
compile_to_phi3, compile_to_qwen3 = _into("phi3"), _into("qwen3")


def decoder_of(
    machine: StockSource, length: int | None, layers: int | None
) -> tuple[ProgramClass, int | None, dict[str, Any]]:
    """The decoder of a machine, its longest sequence, and what its tokens mean: an automaton becomes a language model,
    a Turing machine a chain of thought."""
    if isinstance(machine, ProgramClass):
        return machine, length, {}
    if layers is not None:
        raise InputError(f"compile: layers={layers}; it is for programs, and this is {a_type(machine)}")
    if isinstance(machine, TuringMachine):
        length = DEFAULT_STEPS if length is None else length
        thinking = turing_decoder(machine, length)
        return thinking, length, {"chain": chain_of(machine, thinking, length)}
    length, minimal = DEFAULT_WORD if length is None else length, machine.minimise()
    speaking = regex_decoder(minimal, length)
    return speaking, length, {"words": words_of(minimal, speaking, length - 1)}  # a token stands before the word


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
    texts = declared_symbols(plan.spec) if symbols is None else list(symbols)
    description = {**net.description, "program": {**net.description["program"], "causal": True}}
    return StockModel(
        family, config, made, description, {**claim, "length": plan.length, "choices": choices}, texts, about
    )


def declared_symbols(spec: Spec) -> list[str]:
    """The symbols of `tokens="01+="`; numbers where a program declares none for every token."""
    alphabet = [] if spec.text is None else list(spec.text.alphabet)
    return alphabet if len(alphabet) == spec.tokens else [str(token) for token in range(spec.tokens)]
