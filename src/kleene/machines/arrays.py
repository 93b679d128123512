"""Arrays of variables and heads: `kl.array(4, kl.cat(10))`, read and written in `step` as `z.x[k]`.

The elements are ordinary variables and heads, with the names `x.0`, `x.1` and so on. `z.x` is a view of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from operator import index
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from kleene.common.tokens import as_int
from kleene.errors import ProgramError
from kleene.machines.declarations import Head, Variable, WordVariable

T = TypeVar("T")
D = TypeVar("D")  # the declaration of an element

MOST_ELEMENTS = 10_000


class Array(Generic[D, T]):
    """A declared array, made by `kl.array`. In the class it is a sequence of declarations D, in `step` of values T."""

    def __init__(self, elements: Iterable[Any]) -> None:
        self.elements: tuple[Any, ...] = tuple(elements)

    def __len__(self) -> int:
        return len(self.elements)

    @overload
    def __getitem__(self, key: int) -> D: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[D, ...]: ...
    def __getitem__(self, key: int | slice) -> Any:
        return self.elements[key]

    def __iter__(self) -> Iterator[D]:
        return iter(self.elements)

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: Any) -> Array[D, T]: ...
        @overload
        def __get__(self, instance: object, owner: Any) -> ArrayView[T]: ...
        def __get__(self, instance: object, owner: Any) -> Any: ...
        def __set__(self, instance: object, value: Iterable[T]) -> None: ...


@overload
def array(size: int, declaration: WordVariable | Callable[[int], WordVariable]) -> Array[WordVariable, int]: ...
@overload
def array(size: int, declaration: Variable[T] | Callable[[int], Variable[T]]) -> Array[Variable[T], T]: ...
@overload
def array(size: int, declaration: Head[T] | Callable[[int], Head[T]]) -> Array[Head[T], T]: ...
@overload
def array(size: Iterable[WordVariable]) -> Array[WordVariable, int]: ...
@overload
def array(size: Iterable[Variable[T]]) -> Array[Variable[T], T]: ...
@overload
def array(size: Iterable[Head[T]]) -> Array[Head[T], T]: ...
def array(size: Any, declaration: Any = None) -> Array[Any, Any]:
    """Declare an array of variables or heads; `step` reads and writes `z.x[k]`.

    - `size`: how many elements; or the elements themselves, as a list.
    - `declaration`: the variable or head to repeat, or a function from k to the k-th one.

    >>> from kleene.machines.declarations import cat
    >>> len(array(4, cat(10)))
    4
    """
    if as_int(size) is None:
        if declaration is not None:
            raise ProgramError("array: takes a number and a declaration, or a list of declarations")
        return _checked(size)
    if not 1 <= int(size) <= MOST_ELEMENTS:
        raise ProgramError(f"array: the size must be 1 … {MOST_ELEMENTS:,}, not {size!r}")
    if isinstance(declaration, Variable | Head):
        return Array(replace(declaration) for _ in range(int(size)))
    if not callable(declaration):
        raise ProgramError(f"array: give a declaration such as kl.cat(10), or a function of k, not {declaration!r}")
    return _checked(declaration(k) for k in range(int(size)))


def _checked(elements: Any) -> Array[Any, Any]:
    made: Array[Any, Any] = Array(elements)
    if not made.elements or not all(isinstance(one, Variable | Head) for one in made):
        raise ProgramError("array: the elements must be declarations such as kl.cat(10) or kl.relative(x, −1)")
    return made


def element_name(name: str, place: int) -> str:
    """The name of an element.

    >>> element_name("x", 2)
    'x.2'
    """
    return f"{name}.{place}"


def is_array(thing: Any) -> bool:
    """Whether a class attribute is an array: `kl.array(…)`, or a list or tuple of declarations."""
    if isinstance(thing, Array):
        return True
    return isinstance(thing, list | tuple) and bool(thing) and all(isinstance(one, Variable | Head) for one in thing)


def expanded(body: dict[str, Any]) -> dict[str, Any]:
    """A class body in which the elements of arrays are attributes, and every array is an `Array`."""
    made: dict[str, Any] = {}
    named = {id(thing) for name, thing in body.items() if name != "output"}
    for name, thing in body.items():
        if not is_array(thing) or name in ("tokens", "cycle") or any(id(one) in named for one in thing):
            made[name] = thing  # a list of variables that already have names is a constant
            continue
        made[name] = thing if isinstance(thing, Array) else Array(thing)
        for place, one in enumerate(thing):
            made[element_name(name, place)] = one
            if isinstance(one, Head) and one.own is not None:
                made[f"{element_name(name, place)}_here"] = one.own
    return made


class ArrayView(Generic[T]):
    """`z.x` of an array: the values of its elements, to read and to write."""

    def __init__(self, state: Any, program: str, name: str, size: int) -> None:
        self._state, self._program, self._name, self._size = state, program, name, size

    def _element(self, key: Any) -> str:
        place = index(key)
        if not -self._size <= place < self._size:
            raise IndexError(f"'{self._name}' has {self._size} elements, and no element {place}")
        return element_name(self._name, place % self._size)

    @overload
    def __getitem__(self, key: int) -> T: ...
    @overload
    def __getitem__(self, key: slice) -> list[T]: ...
    def __getitem__(self, key: Any) -> Any:
        if type(key) is slice:
            return [self[place] for place in range(*key.indices(self._size))]
        return getattr(self._state, self._element(key))

    def __setitem__(self, key: int, value: T) -> None:
        setattr(self._state, self._element(key), value)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[T]:
        return (self[place] for place in range(self._size))

    def assign(self, values: Iterable[T]) -> None:
        """Write all elements at once: `z.x = [1, 2, 3]`."""
        given = list(values)
        if len(given) != self._size:
            raise ProgramError(
                f"{self._program}: step writes {len(given)} values to '{self._name}', which has {self._size} elements"
            )
        for place, value in enumerate(given):
            self[place] = value


def view(state: Any, program: Any, name: str) -> ArrayView[Any] | None:
    """The meaning of `z.NAME` where the program declares an array of that name."""
    found = getattr(program, name, None) if not name.startswith("_") else None
    return ArrayView(state, program.spec.name, name, len(found)) if isinstance(found, Array) else None
