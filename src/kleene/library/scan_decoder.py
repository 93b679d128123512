"""SCAN as a decoder: after a command and `=` it writes the actions, without a scratchpad.

Every position of the answer knows all of the command: what each of the two phrases does, which is first, and how long
it is. It counts the actions since `=`, and writes the next one.
"""

from __future__ import annotations

from random import Random
from typing import Any

from kleene.library.decoding import doublings, text_decoder
from kleene.library.encoding import TextProgram
from kleene.lowering.symbolic import among, table
from kleene.machines.declarations import attend, cat, layer, relative
from kleene.machines.scan_grammar import ACTIONS, JOINS, MANNERS, TIMES, TURNS, VERBS, WORDS, commands

SYMBOLS = (*WORDS, "=", *ACTIONS, ";")
EQUALS, END = SYMBOLS.index("="), SYMBOLS.index(";")
LONGEST = 48  # actions
PHRASE = 24  # actions of one phrase, at most
NAMES = (*VERBS, "turn")  # what begins a phrase
TURN, NO_VERB = NAMES.index("turn"), len(NAMES)
PARTS: dict[str, tuple[str | None, ...]] = {
    "verb": NAMES,
    "way": (None, *TURNS),
    "manner": (None, *MANNERS),
    "times": (None, *TIMES),
}
SIZES = {"verb": NO_VERB + 1, "way": 3, "manner": 3, "times": 3}
DEFAULTS = {"verb": NO_VERB, "way": 0, "manner": 0, "times": 0}


def _length(verb: int, way: int, manner: int, times: int) -> int:
    """How many actions a phrase has."""
    one = 0 if verb == NO_VERB else 1 if verb == TURN or not way else 2
    turns = {0: one, 1: one + 1, 2: 4 * one}[manner] if one and way else one
    return turns * (times + 1)


def scan_decoder() -> type[TextProgram]:
    """Translates SCAN commands: after `jump twice and look left =` it writes the actions, and stops.

    Every command of SCAN, of one or two phrases: up to 9 words and 48 actions.
    """
    body: dict[str, Any] = {
        "token": cat(len(SYMBOLS), token=lambda t: t),
        "one": cat(2, default=1),
        "join": cat(2, token=lambda t: int(SYMBOLS[t] in JOINS)),
        "is_after": cat(2, token=lambda t: int(SYMBOLS[t] == "after")),
        "side": cat(2),  # 1 after `and` or `after`
        "count": cat(LONGEST + 1, token=lambda t: int(SYMBOLS[t] in ACTIONS)),
        "lengths": cat(PHRASE + 1),
        "index": cat(LONGEST + 1),  # of the next action in its phrase
        "result": cat(len(SYMBOLS), default=END),
    }
    for side in (0, 1):
        body[f"asks_{side}"] = cat(2, default=side)
    for part, names in PARTS.items():
        body[part] = cat(SIZES[part], default=DEFAULTS[part])  # of the phrase that the next action is in
        for which in ("first", "then"):
            body[f"{part}_{which}"] = cat(SIZES[part], default=DEFAULTS[part])
        given = [names.index(symbol) if symbol in names else None for symbol in SYMBOLS]
        said = [DEFAULTS[part] if number is None else number for number in given]
        body[f"is_{part}"] = cat(2, token=[int(number is not None) for number in given].__getitem__)
        body[f"its_{part}"] = cat(SIZES[part], token=said.__getitem__)
    body["length_first"], body["length_then"] = cat(PHRASE + 1), cat(PHRASE + 1)
    layers = [_side(body), _phrases(body), _lengths(body)]
    cycle = []
    for k in range(doublings(LONGEST + 1)):
        heads, also = layers[k] if k < len(layers) else ([], None)
        cycle.append(_counting(body, k, heads, also))
    cycle += [_choosing(body), _writing(body)]
    body |= {"cycle": tuple(cycle), "layers": len(cycle), "output": body["result"], "sample": staticmethod(_sample)}
    made: type[TextProgram] = text_decoder("scan_decoder", scan_decoder.__doc__ or "", SYMBOLS, END, LONGEST + 1, body)
    return made


def _sample(chance: Random, wanted: int) -> list[int]:
    every = list(commands())
    return [SYMBOLS.index(word) for word in [*chance.choice(every).split(), "="]]


def _counting(body: dict[str, Any], k: int, heads: list[Any], also: Any) -> Any:
    """Count actions by doubling."""
    left = f"count_{1 << k}_left"
    body[left] = relative(body["count"], -(1 << k), default=0)
    sums = table([min(n, LONGEST) for n in range(2 * LONGEST + 1)])

    def step(z: Any) -> None:
        z.count = sums[z.count + getattr(z, left)]
        if also is not None:
            also(z)

    body[f"count_{1 << k}"] = made = layer(body[left], *heads)(step)
    return made


def _side(body: dict[str, Any]) -> tuple[list[Any], Any]:
    """Which phrase each word is in."""
    body["joined"] = attend(body["one"], body["join"], body["one"], latest=True, default=0)

    def step(z: Any) -> None:
        z.side = z.joined

    return [body["joined"]], step


def _phrases(body: dict[str, Any]) -> tuple[list[Any], Any]:
    """Return what both phrases do, the one that is done first in front."""
    body["swaps"] = attend(body["one"], body["join"], body["is_after"], latest=True, default=0)
    heads = [body["swaps"]]
    for part in PARTS:
        for side in (0, 1):
            body[f"{part}_{side}"] = attend(
                body[f"asks_{side}"],
                body["side"],
                body[f"its_{part}"],
                among={body[f"is_{part}"]: 1},
                latest=True,
                default=DEFAULTS[part],
            )
            heads.append(body[f"{part}_{side}"])

    def step(z: Any) -> None:
        for part in PARTS:
            one, other = getattr(z, f"{part}_0"), getattr(z, f"{part}_1")
            setattr(z, f"{part}_first", other if z.swaps else one)
            setattr(z, f"{part}_then", one if z.swaps else other)

    return heads, step


def _lengths(body: dict[str, Any]) -> tuple[list[Any], Any]:
    """How many actions each phrase has."""
    sizes = [_length(v, w, m, t) for v in range(NO_VERB + 1) for w in range(3) for m in range(3) for t in range(3)]

    def step(z: Any) -> None:
        for which in ("first", "then"):
            verb, way, manner, times = (getattr(z, f"{part}_{which}") for part in PARTS)
            setattr(z, f"length_{which}", table(sizes)[27 * verb + 9 * way + 3 * manner + times])

    return [], step


def _choosing(body: dict[str, Any]) -> Any:
    """Which phrase the next action is in, and where."""

    def step(z: Any) -> None:
        if z.count < z.length_first:
            z.index, z.lengths = z.count, z.length_first
            z.verb, z.way, z.manner = z.verb_first, z.way_first, z.manner_first
        else:
            z.index, z.lengths = z.count - z.length_first, z.length_then
            z.verb, z.way, z.manner = z.verb_then, z.way_then, z.manner_then

    body["choose"] = made = layer()(step)
    return made


def _writing(body: dict[str, Any]) -> Any:
    """Turn, then act: every time, or after two turns."""
    turns = [SYMBOLS.index(action) for action in TURNS.values()]
    acts = [SYMBOLS.index(VERBS[name]) for name in VERBS] + [END, END]

    def step(z: Any) -> None:
        acting = z.verb != TURN and (
            z.way == 0
            or (z.manner == 1 and among(z.index, range(2, LONGEST + 1, 3)))
            or (z.manner != 1 and among(z.index, range(1, LONGEST + 1, 2)))
        )
        if z.index >= z.lengths:
            z.result = END
        elif acting:
            z.result = table(acts)[z.verb]
        else:
            z.result = turns[1] if z.way == 2 else turns[0]

    body["write"] = made = layer()(step)
    return made
