"""RASP's own notation: its operators, functions, lists and loops, and its errors."""

from __future__ import annotations

import pytest

import kleene as kl
from kleene import rasp


def last(text: str) -> rasp.SOp:
    return rasp.parse(text).main


@pytest.mark.parametrize(
    "text, given, expected",
    [
        ("x = indices + 1;", "abc", [1, 2, 3]),
        ("x = length - 1 - indices;", "abc", [2, 1, 0]),
        ("x = 2 ^ indices;", "abc", [1, 2, 4]),
        ("x = indices % 2 == 0;", "abc", [True, False, True]),
        ("x = -indices;", "abc", [0, -1, -2]),
        ("x = round(indices / 2);", "abcd", [0, 0, 1, 2]),
        ("x = not (tokens == \"a\");", "ab", [False, True]),
        ("x = tokens == \"a\" or indices == 1 and indices == 0;", "aba", [True, False, False]),  # (a or b) and c
        ("x = \"T\" if tokens == \"a\" else \"F\";", "ab", ["T", "F"]),
        ("x = tokens in [\"a\", \"b\"];", "abc", [True, True, False]),
        ("x = \"a\" in tokens;", "bca", [True] * 3),
        ("x = aggregate(select(indices, 7, ==), tokens, \"-\");", "ab", ["-", "-"]),
        ("x = aggregate(select(indices, 7, ==), indices);", "ab", [0, 0]),  # the default of nothing is 0
        ("x = tokens[0];", "abc", ["a"] * 3),
        ("x = tokens[-1];", "abc", ["c"] * 3),
        ("x = tokens_int + 1;", "120", [2, 3, 1]),
        ("x = selector_width(select(tokens, tokens, !=));", "aab", [1, 1, 2]),
        ("x = selector_width(not select(tokens, tokens, ==));", "aab", [1, 1, 2]),
        ("x = count(tokens, \"a\");", "aab", [2] * 3),
        ("x = contains(tokens, \"b\");", "aa", [False] * 2),
        ("x = max(indices, 1);", "abc", [1, 1, 2]),
        ("x = min(indices, 1);", "abc", [0, 1, 1]),
        ("x = average(indices);", "abc", [1] * 3),
        ("x = shift(tokens, 1, \"-\");", "abc", ["-", "a", "b"]),
        ("x = load_from_location(tokens, 1);", "abc", ["b"] * 3),
        ("x = indicator(mark_last_instance(tokens, \"a\"));", "aba", [0, 0, 1]),
        ("x = indicator(mark_first_instance(tokens, \"a\"));", "aba", [1, 0, 0]),
        ("x = aggregate(select_from_last(tokens, \"a\"), indices);", "aba", [2] * 3),
        ("x = aggregate(select_from_first(tokens, \"a\"), indices);", "aba", [0] * 3),
        ("x = sort(tokens, tokens);", "bcab", ["a", "b", "b", "c"]),
        ("x = aggregate(select_next_identical(tokens), indices, -1);", "abab", [2, 3, -1, -1]),
        ("def f(s, n) { t = s + n; return t * 2; } x = f(indices, 1);", "ab", [2, 4]),
        ("def f() { return indices, indices + 1; } a, b = f(); x = b - a;", "ab", [1, 1]),
        ("x = 0; for k in range(1, 4) { x = x + k * indices; }", "ab", [0, 6]),
        ("l = [indices + k for k in [1, 2]]; x = l[0] * l[1];", "ab", [2, 6]),
        ("d = {\"p\": 1, \"q\": 2}; x = indices + d[\"q\"];", "ab", [2, 3]),
        ("d = {k: indices + k for k in range(3)}; x = d[2];", "ab", [2, 3]),
        ("x = indices; for a, b in zip([1, 2], [3, 4]) { x = x + a * b; }", "ab", [11, 12]),
        ("x = indices + len([1, 2, 3]);", "a", [3]),
        ("def f(a, b = 2, c = 3) { return a * b + c; } x = f(indices, c = 1);", "abc", [1, 3, 5]),
        ("x = selector_width(select(tokens, tokens, ==), assume_bos = True);", "caa", [0, 2, 2]),
        ("x = 0; for t, v in [('a', 1), (\"b\", 5)] { x = x + (v if tokens == t else 0); }", "abc", [1, 5, 0]),
        ("x = tokens not in [\"a\"] and indices > 1;", "aba", [False] * 3),
        ("x = tokens in [\"a\"] if True else [\"b\"];", "ab", [True, False]),
        ("# a comment\nset example \"abc\"\nfull seq display on\nx = indices; # another\nexamples off", "ab", [0, 1]),
    ],
)  # fmt: skip
def test_meaning(text, given, expected):
    sop = last(text)
    assert sop(given) == expected
    vocab = sorted(set(given) | {"0"}) if "tokens_int" in text else sorted({*given, "c"})
    net = kl.compile(sop, vocab=vocab, max_seq_len=len(given))
    assert net.apply(given).decoded == expected


def test_calls_on_inputs_are_results():
    made = rasp.parse(
        'flip = select(indices, length - 1 - indices, ==); r = aggregate(flip, tokens); r("abc"); flip("ab");'
    )
    assert made.results == [["c", "b", "a"], [[False, True], [True, False]]]
    assert made.main.name == "r" and set(made.sops) == {"r"} and len(made) == 2


def test_a_file_loads_others_beside_it(tmp_path):
    (tmp_path / "base.rasp").write_text("one = indices + 1;", encoding="utf-8")
    (tmp_path / "main.rasp").write_text('load "base"; two = one + 1;', encoding="utf-8")
    assert rasp.parse_file(tmp_path / "main.rasp").main("ab") == [2, 3]
    (tmp_path / "main.rasp").write_text('load "../secret";', encoding="utf-8")
    with pytest.raises(kl.FileError, match="no such file"):
        rasp.parse_file(tmp_path / "main.rasp")
    with pytest.raises(kl.ProgramError, match="only texts in files"):
        rasp.parse('load "base";')


@pytest.mark.parametrize(
    "text, words",
    [
        ("x = indices +;", "line 1: ';' where a name should be"),
        ("x = 1;\ny = z;", "line 2: 'z' is not defined"),
        ("x = select(indices, indices, =);", "one of == < >"),
        ("x = indices", "the end of the text where ';' should be"),
        ("x = $;", "the character '\\$' has no meaning"),
        ("def f(a) { return a; } x = f(1, 2);", "f takes 1 arguments, not 2"),
        ("def f(a) { return a; } x = f(b = 2);", "f has no argument 'b'; it has a"),
        ("def f(a) { return a; } x = f(1, a = 2);", "f is given 'a' twice"),
        ("def f(a = 1, b) { return a; }", "without a default come first"),
        ("x = max(tokens);", "max takes a, b; it is given 1 arguments"),
        ("x = selector_width(tokens);", "selector_width needs a selector, not the s-op"),
        ("x = aggregate(indices, indices);", "needs a selector"),
        ("x = select(indices, indices, ==) + 1;", "between the selector"),
        ("x = [1, 2][5];", "there is no item 5"),
        ("indices = 3;", "'indices' is RASP's own"),
        ("def f(a) { return f(a); } x = f(1);", "steps to build|nests too deeply"),
        ("x = 9 ^ 99;", "too large"),
        ("for k in range(100000) { for j in range(100000) { x = j; } }", "steps to build"),
        ("a, b = 3;", "2 names"),
        ("x = {indices: 1};", "the key of a dict"),
    ],
)  # fmt: skip
def test_errors_say_the_line(text, words):
    with pytest.raises(kl.ProgramError, match=words):
        rasp.parse(text)


def test_a_missing_name_is_said():
    with pytest.raises(kl.InputError, match="defines no 'y'; it defines x"):
        rasp.parse("x = 1;")["y"]
    with pytest.raises(kl.InputError, match="defines no s-op"):
        _ = rasp.parse("x = 1;").main
