"""A program whose heads look left, as a machine that reads once from left to right: its Mealy machine.

A head at one position can read only a part of what lies to the left: the last few positions, as far back as offsets
reach, and those earlier positions that it may still select (the latest or the earliest of each key, two where it needs
one, as many as it counts, all where it averages). This memory, for each layer, is a state of the machine. The
interpreter itself takes the step from it, so this file does not repeat what a program means. Where words reach finitely
many memories, the program is a Mealy machine, and exploring all memories finds it.

A program that halts runs as many layers as its slowest position. Positions wait for those to their left, and wait
longer the further right they are. Two memories that differ only in how long nothing happens are one state if every
token waits while nothing happens to its left. `_check_waiting` shows this for all memories that words reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Never

from kleene.errors import KleeneError, NotSupported
from kleene.machines.automata.transducer import UNDEFINED, Transducer
from kleene.machines.interpreter import RunningLayer, halted, run_step
from kleene.machines.kinds import Numerical, Value
from kleene.machines.program import LayerProgram, ProgramClass
from kleene.machines.spec import HeadSpec, Spec

LIMIT = 10_000  # memories
MAX_ROUNDS = 200  # the most rounds of layers that a memory tells apart
MAX_LAYERS = 1_000  # the most that one position runs after all to its left have settled

Seen = tuple[Value, ...]  # what heads can read at one position
State = dict[str, Value]


@dataclass(frozen=True)
class Past:
    """What the heads of one layer can read: the last positions, and those before them that may still be selected."""

    old: tuple[Seen, ...] = ()
    window: tuple[Seen, ...] = ()


Memory = tuple[Past, ...]  # a past for each layer; of a program that halts, the last round of layers goes on for ever
Key = tuple[int, Memory]  # the next position (0 where no variable starts from its position), and the memory


def transducer_of(program: ProgramClass, *, limit: int = LIMIT) -> Transducer:
    """The smallest Mealy machine that writes a program's output at every position. A move that is missing raises.

    - `limit`: the most memories to explore. Above it, `NotSupported` names the head that needs them.

    >>> import kleene as kl
    >>> print(transducer_of(kl.library.parity_relative))
    Transducer: 3 states over {0, 1, ^}
    → q0: ^/0→q1
      q1: 0/0→q1  1/1→q2  ^/0→q1
      q2: 0/1→q2  1/0→q1  ^/0→q1
    """
    return _Explored(program, limit).transducer().minimise()


class _Reading:
    """The heads of one layer: which variables they read at other positions, and how far back."""

    def __init__(self, part: ProgramClass | LayerProgram) -> None:
        self.part, spec = part, part.spec
        spec.refuse_parts("reading from left to right")
        self.heads = [*spec.heads.values(), *spec.moves.values()]
        for head in self.heads:
            _check_one_way(spec, head)
        read = [(head.key, head.value, head.replacing, *(name for name, _ in head.among)) for head in self.heads]
        self.names = sorted({name for names in read for name in names if name is not None})
        self.reach = max((-o for head in self.heads for o in head.offsets or () if o < 0), default=0)
        self.endless = [head for head in self.heads if head.offsets is None]
        self.ordered = any(head.prefer is not None for head in self.endless)

    def seen(self, state: State) -> Seen:
        return tuple(state[name] for name in self.names)

    def after(self, past: Past, state: State) -> Past:
        """The past with one more position."""
        window = (*past.window, self.seen(state))
        leaving = window[: max(0, len(window) - self.reach)]
        window = window[len(leaving) :]
        if not self.endless:
            return Past((), window)
        old = (*past.old, *leaving)
        needed = set[int]()
        for head in self.endless:
            needed |= self._needed(head, (*old, *window))
        kept = [seen for place, seen in enumerate(old) if place in needed]
        return Past(tuple(kept if self.ordered else sorted(kept, key=repr)), window)

    def _needed(self, head: HeadSpec, every: tuple[Seen, ...]) -> set[int]:
        """The positions that a head may still select, or needs to notice that it selects too many."""
        among = [(self.names.index(name), self.part.spec.kinds[name].values[i]) for name, i in head.among]
        key = None if head.key is None else self.names.index(head.key)
        places: dict[Any, list[int]] = {}
        for place, seen in enumerate(every):
            if all(seen[at] == value for at, value in among):
                places.setdefault(None if key is None else seen[key], []).append(place)
        if head.prefer is not None:
            return {found[0 if head.prefer == "earliest" else -1] for found in places.values()}
        most = len(head.kind) if head.counts else None if isinstance(head.kind, Numerical) else 2
        return {place for found in places.values() for place in found[:most]}

    def step(self, past: Past, state: State, number: int) -> State:
        """The state of the next position after this layer."""
        states = [dict(zip(self.names, seen)) for seen in (*past.old, *past.window)]
        layer = RunningLayer(self.part.spec, [*states, state], number)
        layer.running = (len(states),)
        return run_step(self.part, layer, len(states))


def _check_one_way(spec: Spec, head: HeadSpec) -> None:
    if spec.causal:
        return
    if head.offsets is None:
        how = "looks at every position, also to the right; declare causal = True"
    elif max(head.offsets) > 0:
        how = f"looks {max(head.offsets)} to the right"
    else:
        return
    raise NotSupported(
        f"compile: the head '{head.name}' of {spec.name} {how}. A network that reads once from left to right cannot "
        "look ahead; compile to='transformer' instead"
    )


@dataclass
class _Moves:
    """What each token does from one memory: the next memory (UNDEFINED where it raises) and the output.

    For a program that halts, also whether the position waits in each round of layers, and which round of the next
    memory that becomes."""

    after: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    waits: list[list[bool]] = field(default_factory=list)
    becomes: list[list[int]] = field(default_factory=list)


class _Explored:
    """All memories of a program that words reach, breadth-first."""

    def __init__(self, program: ProgramClass, limit: int) -> None:
        self.spec: Spec = program.spec
        self.layers = [_Reading(part) for part in program.by_layer]
        self.placed = any(variable.by_position is not None for variable in self.spec.variables.values())
        self.round = len(self.layers)
        rounds = 1 if self.spec.halt else -(-(self.spec.layers or 0) // self.round)
        first: Key = (0, (Past(),) * (self.round * rounds if self.spec.halt else self.spec.layers or 0))
        self.keys: list[Key] = [first]
        self.number: dict[Key, int] = {first: 0}
        self.moves: list[_Moves] = []
        self.shortened = set[tuple[int, int]]()  # (memory, round): this round stands for several equal ones
        for place, memory in self.keys:
            moves = _Moves()
            for token in range(self.spec.tokens):
                self._move(place, memory, token, moves, limit)
            self.moves.append(moves)
        self._check_waiting()

    def _move(self, place: int, memory: Memory, token: int, moves: _Moves, limit: int) -> None:
        found = None
        if not self.placed or self.spec.positions is None or place < self.spec.positions:
            found = self._position(place, memory, token)
        states, output = ([], None) if found is None else found
        n = self.round
        moves.waits.append([states[t] == states[t + n] for t in range(0, len(memory), n) if t + n < len(states)])
        moves.outputs.append(output or 0)
        if output is None:
            moves.after.append(UNDEFINED)
            moves.becomes.append([])
            return
        pasts = [self._layer(t).after(self._past(memory, t), state) for t, state in enumerate(states[:-1])]
        after, becomes = self._shortest(pasts)
        key = (place + 1 if self.placed else 0, after)
        if key not in self.number:
            if len(self.keys) >= limit:
                self._refuse(limit)
            self.number[key] = len(self.keys)
            self.keys.append(key)
        number = self.number[key]
        self.shortened |= {(number, r) for r in becomes if becomes.count(r) > 1} if self.spec.halt else set()
        moves.after.append(number)
        moves.becomes.append(becomes)

    def _layer(self, t: int) -> _Reading:
        return self.layers[t % self.round]

    def _past(self, memory: Memory, t: int) -> Past:
        if t < len(memory):
            return memory[t]
        return memory[len(memory) - self.round + t % self.round]

    def _position(self, place: int, memory: Memory, token: int) -> tuple[list[State], int | None]:
        """The states of a position before each layer and after the last one, and its output; None where it raises."""
        variables = self.spec.variables.items()
        states = [{name: one.kind.values[one.initial(token, place)] for name, one in variables}]
        done: int | None = None  # the layer after which the position has the halting values
        while not self._settled(states, memory):
            t = len(states) - 1
            try:
                states.append(self._layer(t).step(self._past(memory, t), states[-1], t + 1))
            except KleeneError as error:
                if done is not None:
                    raise NotSupported(
                        f"compile: {self.spec.name} raises at a halted position while others go on ({error})"
                    ) from None
                return states, None
            if self.spec.halt:
                done = self._still_done(states, done)
            if t > len(memory) + MAX_LAYERS:
                raise NotSupported(
                    f"compile: {self.spec.name}: a position changes for more than {MAX_LAYERS:,} layers after those to "
                    "its left have settled"
                )
        if self.spec.halt and done is None:
            return states, None  # it settles without halting
        return states, int(states[-1][self.spec.output])

    def _settled(self, states: list[State], memory: Memory) -> bool:
        layers = len(states) - 1
        if not self.spec.halt:
            return layers == len(memory)
        before = layers - self.round
        return before >= len(memory) and before % self.round == 0 and states[-1] == states[before]

    def _still_done(self, states: list[State], done: int | None) -> int | None:
        now = halted(self.spec, states[-1:])
        if done is None:
            return len(states) - 1 if now else None
        output = self.spec.output
        if not now or states[-1][output] != states[done][output]:
            raise NotSupported(
                f"compile: {self.spec.name}: a position goes on after it has halted, so its output depends on how long "
                "positions to its right need"
            )
        return done

    def _shortest(self, pasts: list[Past]) -> tuple[Memory, list[int]]:
        """A memory with each repeated round of layers once, and where each round went."""
        n = self.round
        if not self.spec.halt:
            return tuple(pasts), []
        kept: list[list[Past]] = []
        becomes = []
        for t in range(0, len(pasts), n):
            if not kept or kept[-1] != pasts[t : t + n]:
                kept.append(pasts[t : t + n])
            becomes.append(len(kept) - 1)
        if len(kept) > MAX_ROUNDS:
            self._refuse_waiting()
        return tuple(past for one in kept for past in one), becomes

    def _check_waiting(self) -> None:
        """Show that it does not matter how often a round of layers repeats in which nothing happens to the left.

        Let D(M) be the memory M with one of its rounds doubled. If every token is after that round what it was before,
        then the memory after D(M) is D of the memory after M, and the outputs are equal. So D(M) and M are one state if
        the same holds for the memories that follow. The last round goes on for ever, so there D(M) is M.
        """
        queue, seen = sorted(self.shortened), set(self.shortened)
        for at, number in queue:
            if (number + 1) * self.round == len(self.keys[at][1]):
                continue
            moves = self.moves[at]
            for after, waits, becomes in zip(moves.after, moves.waits, moves.becomes):
                if number < len(waits) and not waits[number]:  # with fewer rounds, the position raises before this one
                    self._refuse_waiting()
                if after == UNDEFINED:
                    continue
                pair = (after, becomes[number])
                if pair not in seen:
                    seen.add(pair)
                    queue.append(pair)

    def _refuse_waiting(self) -> Never:
        names = ", ".join(f"'{head.name}'" for layer in self.layers for head in layer.heads)
        raise NotSupported(
            f"compile: {self.spec.name}: what a position computes depends on how many layers the positions to its left "
            f"take, and nothing bounds that number (heads {names}); compile to='transformer' instead"
        )

    def _refuse(self, limit: int) -> Never:
        """Name the head that needs the largest number of different pasts."""
        counts = {}
        for number, layer in enumerate(self.layers):
            pasts = {past for _, memory in self.keys for past in memory[number :: self.round]}
            for head in layer.heads:
                names = [head.key, head.value, *(name for name, _ in head.among)]
                at = [layer.names.index(name) for name in names if name is not None]
                old = {tuple(tuple(seen[i] for i in at) for seen in past.old) for past in pasts}
                recent = {tuple(tuple(seen[i] for i in at) for seen in past.window) for past in pasts}
                counts[head.name] = len(old) if head.offsets is None else len(recent)
        worst = max(counts, key=lambda name: counts[name], default="")
        raise NotSupported(
            f"compile: {self.spec.name}: what positions see to their left takes more than {limit:,} values, mostly "
            f"through the head '{worst}' ({counts.get(worst, 0):,} of its own). With finitely many values a network "
            "that reads once is a finite automaton (Myhill and Nerode); compile to='transformer' instead"
        )

    def transducer(self) -> Transducer:
        """The Mealy machine of all memories."""
        text = self.spec.text
        alphabet: Sequence[str] = text.alphabet if text is not None else [str(t) for t in range(self.spec.tokens)]
        outputs = [
            [() if after == UNDEFINED else (str(output),) for after, output in zip(moves.after, moves.outputs)]
            for moves in self.moves
        ]
        return Transducer([moves.after for moves in self.moves], outputs, alphabet)
