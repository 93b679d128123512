"""SCAN (Lake & Baroni 2018): its grammar, its meaning, its 20,910 commands and its published splits.

    C → S and S | S after S | S            S → V twice | V thrice | V
    V → D opposite left … | D around left … | D left | D right | U      (D is U or turn)
    U → walk | look | run | jump

`interpret` defines the meaning, as published, without parsers or networks. They are tested against it. It needs no
download; functions below read the published files if they are present.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from kleene.errors import FileError, InputError
from kleene.files import read_text

VERBS = {"walk": "I_WALK", "look": "I_LOOK", "run": "I_RUN", "jump": "I_JUMP"}
TURNS = {"left": "I_TURN_LEFT", "right": "I_TURN_RIGHT"}
MANNERS = ("opposite", "around")
TIMES = {"twice": 2, "thrice": 3}
JOINS = ("and", "after")

WORDS = (*VERBS, "turn", *TURNS, *MANNERS, *TIMES, *JOINS)
ACTIONS = (*TURNS.values(), *VERBS.values())
LONGEST_COMMAND, LONGEST_TRAINING_OUTPUT = 9, 22  # words; actions in the length split's training set

Pair = tuple[str, str]  # a command and its actions, both as text

# --- meaning ----------------------------------------------------------------------------------------------


def interpret(command: str) -> str:
    """Translate a command to its actions, or raise an `InputError` that names the wrong word or structure.

    >>> interpret("jump twice and look left")
    'I_JUMP I_JUMP I_TURN_LEFT I_LOOK'
    """
    words = _known_words(command)
    joins = [place for place, word in enumerate(words) if word in JOINS]
    if len(joins) > 1:
        one, other = (words[place] for place in joins[:2])
        raise InputError(
            f"'{command}' joins more than two phrases: '{other}' cannot come after '{one}'; "
            "a command is one phrase, or two with one 'and' or 'after' between them"
        )
    if not joins:
        return " ".join(_phrase(words, command))
    (place,) = joins
    before, after = words[:place], words[place + 1 :]
    for part, side in ((before, "before"), (after, "after")):
        if not part:
            raise InputError(f"'{command}' has no phrase {side} '{words[place]}', such as 'jump twice'")
    first, second = _phrase(before, command), _phrase(after, command)
    return " ".join(first + second if words[place] == "and" else second + first)


def _known_words(command: str) -> list[str]:
    words = command.split()
    if not words:
        raise InputError("the command is empty; give one such as 'jump twice and look left'")
    for word in words:
        if word not in WORDS:
            close = difflib.get_close_matches(word, WORDS, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"the words are {', '.join(WORDS)}"
            raise InputError(f"'{word}' is not a word of SCAN; {hint}")
    return words


def _phrase(words: list[str], command: str) -> list[str]:
    """S: a verb, an optional direction, and an optional number of times."""
    verb, *rest = words
    if verb not in VERBS and verb != "turn":
        raise InputError(
            f"'{verb}' in '{command}' cannot begin a phrase; a phrase begins with {', '.join(VERBS)} or turn"
        )
    manner = rest.pop(0) if rest and rest[0] in MANNERS else None
    direction = rest.pop(0) if rest and rest[0] in TURNS else None
    if manner and not direction:
        raise InputError(f"'{manner}' in '{command}' needs left or right after it")
    if verb == "turn" and not direction:
        raise InputError(f"'turn' in '{command}' needs left or right after it, or opposite or around with one")
    times = rest.pop(0) if rest and rest[0] in TIMES else None
    if rest:
        raise InputError(
            f"'{rest[0]}' in '{command}' cannot come after '{words[-len(rest) - 1]}'; a phrase is a verb, then perhaps "
            "[opposite or around] left or right, then perhaps twice or thrice"
        )
    action = [VERBS[verb]] if verb in VERBS else []
    return _directed(action, manner, TURNS[direction] if direction else None) * TIMES.get(times or "", 1)


def _directed(action: list[str], manner: str | None, turn: str | None) -> list[str]:
    """V: walk, walk left, walk opposite left, walk around left, and the same with turn."""
    if turn is None:
        return action
    if manner == "opposite":
        return [turn, turn, *action]
    return [turn, *action] * (4 if manner == "around" else 1)


# --- every command ----------------------------------------------------------------------------------------


def phrases() -> Iterator[str]:
    """The 102 phrases S."""
    modifiers = ["", *(f" {m}{d}" for m, d in product(["", "opposite ", "around "], TURNS))]
    for verb, modifier, times in product([*VERBS, "turn"], modifiers, ["", *(f" {t}" for t in TIMES)]):
        if verb != "turn" or modifier:
            yield verb + modifier + times


def commands() -> list[str]:
    """All 20,910 commands.

    >>> len(commands())
    20910
    """
    simple = list(phrases())
    return simple + [f"{a} {join} {b}" for join in JOINS for a, b in product(simple, simple)]


def pairs() -> list[Pair]:
    """Every command with its actions."""
    return [(command, interpret(command)) for command in commands()]


# --- the published files ----------------------------------------------------------------------------------

SPLITS: dict[str, str] = {  # name → files of the training and of the test set, with train or test for {}
    "simple": "simple_split/tasks_{}_simple.txt",
    "length": "length_split/tasks_{}_length.txt",
    "addprim_jump": "add_prim_split/tasks_{}_addprim_jump.txt",
    "addprim_turn_left": "add_prim_split/tasks_{}_addprim_turn_left.txt",
    "mcd1": "mcd_split/tasks_{}_mcd1.txt",
    "mcd2": "mcd_split/tasks_{}_mcd2.txt",
    "mcd3": "mcd_split/tasks_{}_mcd3.txt",
}


def length_split() -> tuple[list[Pair], list[Pair]]:
    """Derive the length split: commands of at most 22 actions are for training, the others for testing.

    >>> [len(part) for part in length_split()]
    [16990, 3920]
    """
    every = [(pair, len(pair[1].split())) for pair in pairs()]
    return (
        [pair for pair, length in every if length <= LONGEST_TRAINING_OUTPUT],
        [pair for pair, length in every if length > LONGEST_TRAINING_OUTPUT],
    )


def data_folder(data: str | Path | None = None) -> Path:
    """The folder of the published files: scan in `data`, or in the folder that KLEENE_DATA names."""
    given = data or os.environ.get("KLEENE_DATA")
    folder = Path(given) / "scan" if given else None
    if folder is None or not folder.is_dir():
        where = f"{folder}: no such folder" if folder else "no data folder is given (--data or KLEENE_DATA)"
        raise FileError(
            f"{where}; the published splits are github.com/brendenlake/SCAN, put them there as DATA/scan/tasks.txt, "
            "DATA/scan/length_split/… and so on"
        )
    return folder


def read_pairs(path: str | Path) -> list[Pair]:
    """The pairs of a published file, whose lines are `IN: jump twice OUT: I_JUMP I_JUMP`."""
    found = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        command, mark, actions = line.partition(" OUT: ")
        if not mark or not command.startswith("IN: "):
            raise FileError(f"{path}, line {number}: not of the form 'IN: command OUT: actions'")
        found.append((command.removeprefix("IN: ").strip(), actions.strip()))
    return found


def published_tasks(data: str | Path | None = None) -> list[Pair]:
    """tasks.txt: every command, as published."""
    return read_pairs(data_folder(data) / "tasks.txt")


def published_split(name: str, data: str | Path | None = None) -> tuple[list[Pair], list[Pair]]:
    """The training and the test set of a published split."""
    if name not in SPLITS:
        raise InputError(f"SCAN has no split '{name}'; its splits: {', '.join(SPLITS)}")
    folder = data_folder(data)
    train, test = (read_pairs(folder / SPLITS[name].format(part)) for part in ("train", "test"))
    return train, test
