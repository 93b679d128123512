"""Every error a user can meet. Each message is one line: the input, what is wrong, what would be right."""

from __future__ import annotations


class KleeneError(Exception):
    """The base of all errors that Kleene raises on purpose."""


class ProgramError(KleeneError):
    """A program breaks a rule of the language (found when the class is made, or when it is compiled)."""


class InputError(KleeneError):
    """An input that the machine or network cannot take: a token, a length, a word, a file's content."""


class UnknownName(InputError, KeyError):
    """A name that a collection does not have; the message lists those that it has."""

    __str__ = Exception.__str__  # KeyError would show the message in quotes


class RangeError(ProgramError):
    """A value outside its variable's declared range."""


class UndefinedRead(KleeneError):
    """`step` read the output of a head that selected nothing, or several where one is needed."""

    def __init__(self, program: str, variable: str, position: int, layer: int, selected: int) -> None:
        self.program, self.variable = program, variable
        self.position, self.layer, self.selected = position, layer, selected
        found = "nothing" if selected == 0 else f"{selected} positions"
        super().__init__(
            f"{program}: step reads '{variable}' at position {position} in layer {layer}, where the head "
            f"selects {found}; give the head a default, or read it only where it is defined"
        )


class WrongReplacement(KleeneError):
    """A head with `replacing=` met a variable that holds something else than what it replaces."""

    def __init__(self, program: str, head: str, into: str, replacing: str, position: int, layer: int) -> None:
        super().__init__(
            f"{program}: '{head}' writes into '{into}' at position {position} in layer {layer}, where '{into}' is not "
            f"the '{replacing}' that it replaces"
        )


class StepError(KleeneError):
    """`step` itself raised."""


class DidNotHalt(KleeneError):
    """More layers, steps or tokens than were allowed."""


class TooManyPaths(ProgramError):
    """Symbolic execution of `step` met more paths than it may follow."""


class TooManyRules(ProgramError):
    """The `rules` lowering would need more rules than it may make."""


class NotExact(KleeneError):
    """What was asked for cannot be computed exactly in the number format asked for."""


class FileError(KleeneError):
    """A file that is missing, malformed, changed, or of an unknown version."""


class NotSupported(KleeneError):
    """A combination that Kleene does not offer; the message says what it does offer."""


class KleeneWarning(UserWarning):
    """Something that was done and that the user should know of: a completed automaton, an empty language."""
