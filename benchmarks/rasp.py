"""RASP programs: compile times and sizes at length 40, beside Tracr's and beside programs that a person wrote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kleene as kl
from benchmarks.measure import Row, cpu_seconds
from kleene.library import rasp_programs as programs
from kleene.rasp import SOp, tokens

LENGTH = 40
TRACR_SORT = "51 M parameters in Tracr (reported; not measured in this run)"  # a sort of 40 over 40 values


def cases() -> dict[str, tuple[SOp, Any]]:
    """Program → the s-op and its tokens."""
    made: dict[str, tuple[SOp, Any]] = {
        "make_length": (programs.make_length(), "abcd"),
        "make_reverse": (programs.make_reverse(tokens), "abcd"),
        "make_hist": (programs.make_hist(), "abcd"),
        "make_sort": (programs.make_sort(tokens, tokens, max_seq_len=LENGTH, min_key=1), range(LENGTH)),
        "make_sort_freq": (programs.make_sort_freq(LENGTH), "abcd"),
        "make_shuffle_dyck2": (programs.make_shuffle_dyck2(), "(){}"),
        "make_frac_prevs": (programs.make_frac_prevs(tokens == "a"), "abcd"),
        "make_count_less_freq": (programs.make_count_less_freq(2), "abcd"),
        "detect_pattern": (programs.detect_pattern(tokens, "abca"), "abcd"),
    }
    return made | {f"paper {n}": (s, "(){}") for n, s in programs.paper_programs().items() if n != "dyck2_ptf"}


def rows() -> Iterator[Row]:
    limits = {"make_sort": 2.0, "make_shuffle_dyck2": 2.0}
    kl.compile(programs.make_hist(), vocab="ab", max_seq_len=2)  # imports
    for name, (sop, vocab) in cases().items():
        nets: list[kl.Transformer] = []
        seconds = cpu_seconds(lambda sop=sop, vocab=vocab, nets=nets: nets.append(  # type: ignore[misc]
            kl.compile(sop, vocab=vocab, max_seq_len=LENGTH)
        ))  # fmt: skip
        sizes = nets[-1].sizes
        certified = kl.certify(nets[-1]).holds
        note = "certified" if certified else "NOT certified"
        title = f"rasp {name}, length {LENGTH}"
        yield {"name": f"{title}: compile", "ours": seconds, "unit": "s", "at_most": limits.get(name), "note": note}
        others = TRACR_SORT if name == "make_sort" else None
        yield {"name": f"{title}: parameters", "ours": sizes.parameters, "others": others, "note": note}
        yield {"name": f"{title}: hidden units", "ours": sizes.hidden, "note": note}
