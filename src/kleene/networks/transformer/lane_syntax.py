"""The two languages that lanes are written in: C, and Python for Numba. Expressions are the same in both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

SMALL_SUM = 1 << 31  # sums below this fit 32 bits
AT_ONCE = 16  # sums in one vector

Sources = Sequence[tuple[str, Sequence[int], int]]  # (name, mask of each lane, weight)
Extras = Sequence[tuple[str, Sequence[int]]]  # (name of a bit, its weight in each lane)


class Syntax:
    """How statements are written."""

    def begin(self, columns: Sequence[Any], tables: int, words: int) -> str:
        raise NotImplementedError

    def let(self, name: str, value: str) -> str:
        raise NotImplementedError

    def store(self, place: str, value: str, bits: int | None, condition: str | None = None) -> str:
        """Write a value into the state, or into an entry of a column of this many bits."""
        raise NotImplementedError

    def function(self, name: str, body: list[str], bad: str | None, commits: list[str]) -> Iterator[str]:
        raise NotImplementedError

    def sums(self, name: str, sources: Sources, extras: Extras, limits: Sequence[int], small: bool) -> list[str]:
        """A lane for each unit: Σ weight × (source & mask) + Σ weight × bit ≥ limit."""
        raise NotImplementedError

    def loop(self, blocks: int, halting: str | None) -> str:
        raise NotImplementedError


def width_of(bits: int) -> int:
    """The smallest whole number of 8, 16, 32 or 64 bits with at least `bits` bits."""
    return next(width for width in (8, 16, 32, 64) if bits <= width)


class C(Syntax):
    """C with the vectors of gcc and clang."""

    def begin(self, columns: Sequence[Any], tables: int, words: int) -> str:
        stored = [(k, width_of(c.size)) for k, c in enumerate(columns) if c.offset is None]
        parameters = ["int64_t *restrict s"]
        parameters += [f"uint{width}_t *restrict c{k}" for k, width in stored]
        parameters += [f"const int32_t *restrict t{k}" for k in range(tables)]
        self.parameters = ", ".join(parameters)
        self.given = ", ".join(["s", *(f"c{k}" for k, _ in stored), *(f"t{k}" for k in range(tables))])
        opened = [f"  uint{width}_t *c{k} = columns[{n}];" for n, (k, width) in enumerate(stored)]
        opened += [f"  const int32_t *t{k} = tables[{k}];" for k in range(tables)]
        self.opened = "\n".join(opened)
        return C_PRELUDE

    def let(self, name: str, value: str) -> str:
        return f"  const int64_t {name} = {value};"

    def store(self, place: str, value: str, bits: int | None, condition: str | None = None) -> str:
        cast = "" if bits is None else f"(uint{width_of(bits)}_t)"
        return f"  {f'if ({condition}) ' if condition else ''}{place} = {cast}({value});"

    def function(self, name: str, body: list[str], bad: str | None, commits: list[str]) -> Iterator[str]:
        yield f"static inline int {name}({self.parameters}) {{"
        yield from body
        if bad:
            yield f"  if (__builtin_expect({bad} != 0, 0)) return 1;"
        yield from commits
        yield "  return 0;\n}"

    def sums(self, name: str, sources: Sources, extras: Extras, limits: Sequence[int], small: bool) -> list[str]:
        if not small:
            return scalar_sums(name, sources, extras, limits, self.let)
        lines, parts = [], []
        for begin in range(0, len(limits), AT_ONCE):
            part = slice(begin, begin + AT_ONCE)
            lanes = len(limits[part])
            vector = f"{name}_{begin}"
            terms = []
            for held, masks, weight in sources:
                one = f"(((vector){{0}} + (int32_t){held}) & {listed(masks[part])})"
                terms.append(one if weight == 1 else f"{one} * {weight}")
            for held, weights in extras:
                if len({*weights[part]}) == 1:
                    terms.append(f"((vector){{0}} + (int32_t){held} * {weights[begin]})")
                else:
                    terms.append(f"((vector){{0}} + (int32_t){held}) * {listed(weights[part])}")
            limit = listed([limit - 1 for limit in limits[part]] + [0x7FFFFFFF] * (AT_ONCE - lanes))
            lines.append(f"  const int64_t {vector} = LANES({' + '.join(terms)} > {limit});")
            parts.append(vector if not begin else f"({vector} << {begin})")
        return [*lines, self.let(name, " | ".join(parts))]

    def loop(self, blocks: int, halting: str | None) -> str:
        lines = [
            "int64_t run(int64_t *s, void **columns, int32_t **tables, int64_t layers, int64_t place,",
            "            int64_t watch_place, int64_t watch_word, int64_t watch_bit, int64_t *why) {",
            self.opened,
            "  int64_t count = 0; *why = 0;",
            "  if (layers <= 0) return 0;",
            "  switch (place) {",
        ]
        for place in range(blocks):
            lines += [
                f"  case {place}: again{place}:",
                f"    if (block{place}({self.given})) {{ *why = 3; return count; }}",
                "    count++;",
                *([f"    if ({halting}) {{ *why = 1; return count; }}"] if halting else []),
                f"    if (watch_place == {place} && ((s[watch_word] >> watch_bit) & 1)) {{ *why = 2; return count; }}",
                "    if (count >= layers) return count;",
            ]
        return "\n".join([*lines, "    goto again0;", "  }", "  return count;", "}"])


class Numba(Syntax):
    """Python that Numba compiles. Whole numbers have 64 bits and are never negative."""

    def begin(self, columns: Sequence[Any], tables: int, words: int) -> str:
        stored = [(k, width_of(c.size)) for k, c in enumerate(columns) if c.offset is None]
        self.given = ", ".join(["s", *(f"c{k}" for k, _ in stored), *(f"t{k}" for k in range(tables))])
        return NUMBA_PRELUDE

    def let(self, name: str, value: str) -> str:
        return f"    {name} = {value}"

    def store(self, place: str, value: str, bits: int | None, condition: str | None = None) -> str:
        return f"    if {condition} != 0: {place} = {value}" if condition else f"    {place} = {value}"

    def function(self, name: str, body: list[str], bad: str | None, commits: list[str]) -> Iterator[str]:
        yield f"@njit(nogil=True, cache=True, error_model='numpy')\ndef {name}({self.given}):"
        yield from body
        if bad:
            yield f"    if {bad} != 0: return 1"
        yield from commits
        yield "    return 0\n"

    def sums(self, name: str, sources: Sources, extras: Extras, limits: Sequence[int], small: bool) -> list[str]:
        return scalar_sums(name, sources, extras, limits, self.let)

    def loop(self, blocks: int, halting: str | None) -> str:
        lines = [
            "@njit(nogil=True, cache=True, error_model='numpy')",
            f"def run({self.given}, layers, place, watch_place, watch_word, watch_bit):",
            "    count = 0",
            "    while count < layers:",
        ]
        for place in range(blocks):
            lines += [
                f"        if place == {place}:",
                f"            if block{place}({self.given}) != 0: return count, 3",
                "            count += 1",
                f"            place = {(place + 1) % blocks}",
                *([f"            if {halting}: return count, 1"] if halting else []),
                f"            if watch_place == {place} and (s[watch_word] >> watch_bit) & 1: return count, 2",
                "            if count >= layers: return count, 0",
            ]
        return "\n".join([*lines, "    return count, 0"])


def scalar_sums(name: str, sources: Sources, extras: Extras, limits: Sequence[int], let: Any) -> list[str]:
    """The lanes of `Syntax.sums` one by one."""
    lines = []
    for lane, limit in enumerate(limits):
        terms = [
            f"({held} & {masks[lane]}) * {weight}" if weight != 1 else f"({held} & {masks[lane]})"
            for held, masks, weight in sources
        ]
        terms += [f"{held} * {weights[lane]}" for held, weights in extras]
        before = f"{name}_{lane - 1} | " if lane else ""
        lines.append(let(f"{name}_{lane}", f"{before}(INT(({' + '.join(terms)}) >= {limit}) << {lane})"))
    return [*lines, let(name, f"{name}_{len(limits) - 1}")]


def listed(numbers: Sequence[int]) -> str:
    return f"(vector){{{', '.join(map(str, numbers))}}}"


C_PRELUDE = """/* Generated from the weights of a transformer. */
#include <stdint.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif
#define INT(x) ((int64_t)(x))
#define COUNT(x) ((int64_t)__builtin_popcountll((unsigned long long)(x)))
typedef int32_t vector __attribute__((vector_size(64)));
static inline int64_t LANES(vector v) { /* one bit for each lane, which is 0 or -1 */
#if defined(__AVX512DQ__)
  return (int64_t)_mm512_movepi32_mask((__m512i)v);
#elif defined(__AVX2__)
  union { vector v; __m256 h[2]; } u; u.v = v;
  return (int64_t)_mm256_movemask_ps(u.h[0]) | (int64_t)_mm256_movemask_ps(u.h[1]) << 8;
#else
  int64_t bits = 0;
  for (int k = 0; k < 16; k++) bits |= (int64_t)(v[k] & 1) << k;
  return bits;
#endif
}
static inline int64_t REVERSE(int64_t bits, int count) {
  uint64_t x = __builtin_bswap64((uint64_t)bits);
  x = (x >> 4 & 0x0f0f0f0f0f0f0f0fULL) | (x & 0x0f0f0f0f0f0f0f0fULL) << 4;
  x = (x >> 2 & 0x3333333333333333ULL) | (x & 0x3333333333333333ULL) << 2;
  x = (x >> 1 & 0x5555555555555555ULL) | (x & 0x5555555555555555ULL) << 1;
  return (int64_t)(x >> (64 - count)); }
"""

NUMBA_PRELUDE = '''"""Generated from the weights of a transformer."""
import numpy as np
from numba import njit
from numba import int64 as INT

@njit(inline="always")
def COUNT(x):
    x = x - ((x >> 1) & 0x5555555555555555)
    x = (x & 0x3333333333333333) + ((x >> 2) & 0x3333333333333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0F
    x = x + (x >> 8)
    x = x + (x >> 16)
    return (x + (x >> 32)) & 127

@njit(inline="always")
def REVERSE(bits, count):
    x = np.uint64(bits)
    x = (x >> np.uint64(32)) | (x << np.uint64(32))
    x = ((x >> np.uint64(16)) & np.uint64(0x0000FFFF0000FFFF)) | ((x & np.uint64(0x0000FFFF0000FFFF)) << np.uint64(16))
    x = ((x >> np.uint64(8)) & np.uint64(0x00FF00FF00FF00FF)) | ((x & np.uint64(0x00FF00FF00FF00FF)) << np.uint64(8))
    x = ((x >> np.uint64(4)) & np.uint64(0x0F0F0F0F0F0F0F0F)) | ((x & np.uint64(0x0F0F0F0F0F0F0F0F)) << np.uint64(4))
    x = ((x >> np.uint64(2)) & np.uint64(0x3333333333333333)) | ((x & np.uint64(0x3333333333333333)) << np.uint64(2))
    x = ((x >> np.uint64(1)) & np.uint64(0x5555555555555555)) | ((x & np.uint64(0x5555555555555555)) << np.uint64(1))
    return np.int64(x >> np.uint64(64 - count))
'''
