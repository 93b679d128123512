"""Every error that a user can meet. A message is one line: the input, what is wrong, what would be right."""

from __future__ import annotations


class KleeneError(Exception):
    """The base of all errors that Kleene raises on purpose."""


class ProgramError(KleeneError):
    """A program breaks a rule of the language. Raised by the class statement, or when the program is compiled."""


class InputError(KleeneError):
    """A machine or network cannot take an input: a token, a length, a word, the content of a file."""


class UnknownName(InputError, KeyError):
    """A collection has no such name. The message lists the names that it has."""

    __str__ = Exception.__str__  # KeyError would show the message in quotes


class RangeError(ProgramError):
    """A value is outside the declared range of its variable."""


class UndefinedRead(KleeneError):
    """`step` read a head that selected no position, or several where it needs one."""

    def __init__(self, program: str, variable: str, position: int, layer: int, selected: int) -> None:
        self.program, self.variable = program, variable
        self.position, self.layer, self.selected = position, layer, selected
        found = "nothing" if selected == 0 else f"{selected} positions"
        super().__init__(
            f"{program}: step reads '{variable}' at position {position} in layer {layer}, where the head "
            f"selects {found}; give the head a default, or read it only where it is defined"
        )


class WrongReplacement(KleeneError):
    """A head with `replacing=` met a variable that does not hold the value to be replaced."""

    def __init__(self, program: str, head: str, into: str, replacing: str, position: int, layer: int) -> None:
        super().__init__(
            f"{program}: '{head}' writes into '{into}' at position {position} in layer {layer}, where '{into}' is not "
            f"the '{replacing}' that it replaces"
        )


class StepError(KleeneError):
    """`step` raised an exception."""


class DidNotHalt(KleeneError):
    """A run needed more layers, steps or tokens than it was allowed."""


class TooManyPaths(ProgramError):
    """`step` has more paths than symbolic execution follows."""


class TooManyRules(ProgramError):
    """A program has more transition rules than the `rules` lowering makes."""


class NotExact(KleeneError):
    """A number format cannot represent a computation exactly."""


class FileError(KleeneError):
    """A file is missing, malformed, changed, or of an unknown version."""


class NotSupported(KleeneError):
    """Kleene does not offer a combination. The message says what it offers."""


class KleeneWarning(UserWarning):
    """Kleene did something that the user should know: it completed an automaton, or found an empty language."""


def counted(number: int, noun: str) -> str:
    """A number with its noun, for messages.

    >>> counted(1, "layer"), counted(2_000, "layer")
    ('1 layer', '2,000 layers')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def a_type(thing: object) -> str:
    """The name of a thing's class with its article, for messages.

    >>> a_type(3), a_type("word")
    ('an int', 'a str')
    """
    name = type(thing).__name__.removesuffix("Class")  # a program is a class
    spelled = len(name) > 1 and name[:2].isupper() and name[0] in "FHLMNRSX"  # an NFA, an LSTM
    return f"{'an' if spelled or name[0] in 'AEIOUaeiou' else 'a'} {name}"
