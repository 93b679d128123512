"""Attention programs as integer tables: many programs of one shape run at once, with interventions.

`step` is a function of the variables and head outputs at one position, so it is a table: one row for every combination
of their values. The interpreter fills the table. Runs on tensors then give the values of every node, by layer and
position, on many inputs; and what an interchange changes: where a mask says so, a node has a given value instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from kleene.errors import InputError, KleeneError
from kleene.machines.interpreter import run_step
from kleene.machines.kinds import Categorical
from kleene.machines.program import ProgramClass
from kleene.machines.spec import HeadSpec, Spec
from kleene.machines.trace import HeadOutput
from kleene.truth.causal_graph import HeldLayer

MOST_ROWS = 200_000  # of the table of one program's `step`


def _check(spec: Spec) -> None:
    plain = all(isinstance(kind, Categorical) for kind in spec.kinds.values())
    if not plain or any(head.counts for head in spec.heads.values()):
        raise InputError(f"{spec.name}: has a variable or head that is not categorical; tables need kl.cat")
    limited = any(head.where or head.among for head in spec.heads.values())
    if spec.moves or spec.clears or spec.cycle or limited:
        raise InputError(f"{spec.name}: has layers that take turns, or heads that write or have conditions")
    if spec.layers is None or spec.max_tokens is not None:
        raise InputError(f"{spec.name}: has no fixed number of layers, or appends tokens; tables need `layers`")


def _step_table(program: ProgramClass) -> Tensor:
    """Every variable after `step`, for each combination of variables and heads: (row, variable); −1 where it raises."""
    spec = program.spec
    sizes = [len(kind) for kind in spec.kinds.values()]
    rows = int(torch.tensor(sizes).prod())
    if rows > MOST_ROWS:
        raise InputError(
            f"{spec.name}: {rows:,} combinations of variables and heads; tables have at most {MOST_ROWS:,}"
        )
    names, found = list(spec.variables), []
    for values in product(*map(range, sizes)):
        layer = HeldLayer(spec, [dict(zip(names, values))], 1)
        layer.held = {(h, 0): HeadOutput((0,), v) for h, v in zip(spec.heads, values[len(names) :])}
        try:
            after = run_step(program, layer, 0)
        except KleeneError:
            after = dict.fromkeys(names, -1)
        found.append([after[name] for name in names])
    return torch.tensor(found)


def _looking(head: HeadSpec, spec: Spec, length: int) -> Tensor:
    """The score of each position for each other: (from, to); −inf where it cannot look."""
    found = torch.full((length, length), -torch.inf)
    for i, j in product(range(length), repeat=2):
        if head.allows(j - i) and not (spec.causal and j > i):
            found[i, j] = float(head.rank(j - i)) if head.prefer else 0.0
    return found


def _tensors(program: ProgramClass, length: int) -> dict[str, Tensor]:
    """The tensors of one program, by the names that `Tables` gives them."""
    spec = program.spec
    names, heads = list(spec.variables), list(spec.heads.values())
    reads = [[names.index(getattr(h, w)) if getattr(h, w) else 0 for h in heads] for w in ("query", "key", "value")]
    tokens, variables = range(spec.tokens), spec.variables.values()
    return {
        "first": torch.tensor([[[v.initial(t, p) for v in variables] for t in tokens] for p in range(length)]),
        "step": _step_table(program),
        "reads": torch.tensor(reads),
        "plain": torch.tensor([h.query is None or h.key is None for h in heads]),
        "looks": torch.stack([_looking(h, spec, length) for h in heads]),
        "default": torch.tensor([-1 if h.default is None else h.default for h in heads]),
        "output": torch.tensor(names.index(spec.output)),
    }


@dataclass(frozen=True)
class Tables:
    """Programs of one shape as tensors; the first dimension of each is the program.

    Nodes of a layer are the heads, then the variables that `step` leaves, in the order of `names`. Values are
    (program, batch, position, node), one such tensor per layer.
    """

    names: tuple[str, ...]  # heads, then variables
    heads: int
    layers: int
    length: int
    tokens: int
    classes: int
    first: Tensor  # (program, position, token, variable)
    step: Tensor  # (program, row, variable)
    strides: Tensor  # (variables + heads,)
    reads: Tensor  # (program, 3, head): the query, the key and the value of each head
    plain: Tensor  # (program, head): it looks at every position, whatever the query
    looks: Tensor  # (program, head, from, to)
    default: Tensor  # (program, head)
    output: Tensor  # (program,): the variable

    @staticmethod
    def of(programs: Sequence[ProgramClass], length: int, device: str | torch.device = "cpu") -> Tables:
        """The tables of programs, for inputs of a length.

        - `programs`: their variables, heads, sizes and layers must be equal in number.
        - `length`: of the inputs.
        - `device`: where the tensors lie.
        """
        specs = [program.spec for program in programs]
        for spec in specs:
            _check(spec)
        shapes = {(tuple(s.kinds), *map(len, s.kinds.values()), s.layers, s.tokens) for s in specs}
        if len(shapes) != 1:
            raise InputError(f"tables: the programs are of {len(shapes)} shapes; all must have the same")
        spec = specs[0]
        assert spec.layers is not None
        sizes = [len(kind) for kind in spec.kinds.values()]
        strides = [int(torch.tensor(sizes[k + 1 :]).prod()) for k in range(len(sizes))]
        parts = [_tensors(program, length) for program in programs]
        return Tables(
            (*spec.heads, *spec.variables),
            len(spec.heads),
            spec.layers,
            length,
            spec.tokens,
            max(len(s.variables[s.output].kind) for s in specs),
            strides=torch.tensor(strides, device=device),
            **{name: torch.stack([part[name] for part in parts]).to(device) for name in parts[0]},
        )

    def __len__(self) -> int:
        return len(self.output)

    @property
    def nodes(self) -> list[tuple[int, str]]:
        """(layer, name) of every node, layers counted from 1."""
        return [(layer, name) for layer in range(1, self.layers + 1) for name in self.names]

    def every_input(self) -> Tensor:
        """All inputs of the length: (inputs, position)."""
        return torch.cartesian_prod(*[torch.arange(self.tokens, device=self.output.device)] * self.length).reshape(
            -1, self.length
        )

    def looked_up(self, state: Tensor) -> Tensor:
        """The outputs of the heads on variables (program, batch, position, variable)."""
        count, batch = state.shape[:2]
        query, key, value = (
            state.gather(3, self.reads[:, w, None, None].expand(-1, batch, self.length, -1)).transpose(2, 3)
            for w in range(3)
        )  # (program, batch, head, position)
        same = (query[..., :, None] == key[..., None, :]) | self.plain[:, None, :, None, None]
        wanted = torch.where(same, self.looks[:, None], -torch.inf)  # (program, batch, head, from, to)
        best, at = wanted.max(-1)
        several = (wanted == best[..., None]).sum(-1) > 1
        default = self.default[:, None, :, None].expand(count, batch, -1, self.length)
        found = torch.where(several, -1, value.gather(3, at))
        return torch.where(best == -torch.inf, default, found).transpose(2, 3)

    def initial(self, inputs: Tensor) -> Tensor:
        """The variables before the first layer: (program, batch, position, variable)."""
        places = torch.arange(inputs.shape[2], device=inputs.device)
        programs = torch.arange(len(inputs), device=inputs.device)[:, None, None]
        return self.first[programs, places, inputs]

    def stepped(self, state: Tensor, read: Tensor) -> Tensor:
        """The variables after `step`, from the variables and the heads' outputs."""
        rows = (torch.cat([state, read], -1) * self.strides).sum(-1)
        programs = torch.arange(len(state), device=state.device)[:, None, None]
        return self.step[programs, rows.clamp(min=0)]

    def run(
        self, inputs: Tensor, masks: Tensor | None = None, given: Sequence[Tensor] | None = None
    ) -> tuple[list[Tensor], Tensor]:
        """Run the programs; the values of all nodes by layer, and the outputs (program, batch, position).

        - `inputs`: (program, batch, position).
        - `masks`: (layer, program, batch, position, node), true where a node has a given value.
        - `given`: values by layer, for the masks.
        """
        count, batch, length = inputs.shape
        state, kept = self.initial(inputs), []
        for layer in range(self.layers):
            read = self.looked_up(state)
            if masks is not None and given is not None:
                read = torch.where(masks[layer, ..., : self.heads], given[layer][..., : self.heads], read)
            state = self.stepped(state, read)
            if masks is not None and given is not None:
                state = torch.where(masks[layer, ..., self.heads :], given[layer][..., self.heads :], state)
            kept.append(torch.cat([read, state], -1))
        which = self.output[:, None, None, None].expand(count, batch, length, 1)
        return kept, state.gather(3, which)[..., 0]
