"""The data of pages is exact: every change has its writer, its line and its attention."""

from __future__ import annotations

import base64
import html
import json
import random
import re
import zlib
from collections import Counter

import pytest
from benchmarks.screenshots import FOLDER, KEY, PICTURES
from PIL import Image

import kleene as kl
import kleene.show.page as page_module
from hostile import HOSTILE, Hostile
from kleene.cli import main
from kleene.errors import InputError
from kleene.evidence.program_page import program_page, updates_of
from kleene.lowering.guarding import guarded_updates
from kleene.networks.trained.lstm import LanguageModel, Vocabulary
from kleene.show.page import Page, _asset, gaps, page_version
from kleene.show.page.heat import interdependence_page
from kleene.show.page.writers import Writers, indices
from random_machines import random_slu_rnn, random_two_tape

SAMPLES = [
    (kl.library.parity_relative, "1011"),
    (kl.library.addition, "134+956"),
    (kl.library.scan, "jump twice and look left"),
    (kl.library.sort(5, 4), [3, 1, 2, 0]),
    (kl.library.histogram(5, 4), [3, 1, 1, 3, 1]),
    (kl.library.dyck1(6), [0, 0, 1, 1]),
    (kl.library.subleq(-4, 4, 4), None),
    (kl.library.parity_sum(4), [2, 1, 0, 1]),
    (kl.library.computer(8), "9 9 3 10 11 6 0 0 -1 5 3 7"),
]


def traced(program, given):
    if given is None:
        spec, chance = program.spec, random.Random(3)
        sample = getattr(program, "sample", None)
        tokens = sample(chance, 6) if sample else [chance.randrange(spec.tokens) for _ in range(4)]
    else:
        tokens = program.encode(given) if isinstance(given, str) else given
    return program.trace(tokens)


def content(text: str) -> dict:
    """The data in a page."""
    packed = re.search(r'id="data">([^<]*)<', text)
    assert packed is not None
    return json.loads(zlib.decompress(base64.b64decode(packed[1])))


def written(found: Writers, layer: int) -> dict[int, dict]:
    """cell → its writer, in a layer."""
    distances, writers = found.patterns[found.by_layer[layer]]
    cells, at = {}, 0
    for distance, writer in zip(distances, writers):
        at += distance
        cells[at] = found.table[writer]
    return cells


@pytest.mark.parametrize(("program", "given"), SAMPLES, ids=lambda thing: getattr(thing, "__name__", ""))
def test_every_change_has_the_writer_that_made_it(program, given):
    """The update that is named, computed on what it read, gives what the trace has; nothing else changed."""
    trace = traced(program, given)
    found, names, size = Writers(trace, updates_of(trace)), list(program.spec.variables), len(trace.tokens)
    parts, kinds = guarded_updates(program).by_layer, Counter()
    for layer in range(trace.layers):
        part = parts[layer % len(parts)]
        state, cells = indices(trace, part.spec, [layer]), written(found, layer)
        for row, name in enumerate(names):
            for place in range(size):
                old, new = (trace.states[layer + k][place][name] for k in (0, 1))
                writer = cells.get(row * size + place)
                if writer is None or writer["how"] == "same":
                    assert old == new
                    continue
                assert writer["variable"] == name
                kinds[writer["how"]] += 1
                if writer["how"] == "head":
                    assert trace.heads[layer][writer["head"]][place].value == new
                else:
                    known = {n: int(values[place]) for n, values in state.items() if values[place] >= 0}
                    after = part.apply({**{n: 0 for n in part.spec.heads}, **known})
                    assert program.spec.kinds[name].values[after[name]] == new
                    assert writer["text"].startswith(f"{name} := ")
    assert kinds["update"] + kinds["rule"] > 0
    assert (kinds["head"] > 0) == bool(program.spec.moves)


class Twice(kl.Program):
    """Two lines write the same value; which one it was is told."""

    tokens = 3
    kind = kl.cat(3, token=lambda t: t)
    done = kl.cat(2)
    output = kind
    halt = {done: 1}

    def step(z):
        if z.kind == 0:
            z.done = 1  # for zero
        if z.kind >= 1:
            z.done = 1  # for the rest
        if z.kind == 2:
            z.kind = 2  # as it is


def test_the_line_is_the_one_that_wrote():
    trace = Twice.trace([0, 1, 2])
    data = program_page(trace, weights=False).data
    cells = written(Writers(trace, updates_of(trace)), 0)
    lines = data["sources"][0]["lines"]
    assert [lines[cells[3 + place]["line"]].strip() for place in range(3)] == [
        "z.done = 1  # for zero",
        "z.done = 1  # for the rest",
        "z.done = 1  # for the rest",
    ]
    assert cells[2]["how"] == "same" and lines[cells[2]["line"]].strip() == "z.kind = 2  # as it is"
    assert data["sources"][0]["file"] == "test_page.py"
    assert next(iter(lines.values())).strip() == "def step(z):"  # the step, and nothing around it
    assert [*lines.values()][-1].strip() == "z.kind = 2  # as it is"


def test_what_has_no_source_says_so():
    made: dict = {}
    source = (
        "class Flip(kl.Program):\n    tokens = 2\n    x = kl.cat(2, token=lambda t: t)\n"
        "    output = x\n    layers = 1\n"
        "    def step(z):\n        z.x = 1 - z.x\n"
    )
    exec(compile(source, "<typed>", "exec"), {"kl": kl, "__name__": "typed"}, made)
    data = program_page(made["Flip"].trace([0, 1]), weights=False).data
    assert data["sources"][0]["why"] == "The source text is not available."
    assert data["writers"][0]["line"] == 7
    net = kl.compile(made["Flip"])
    data = content(kl.explain(net, [0, 1]).to_html())
    assert "has no source text" in data["sources"][0]["why"]
    assert data["evaluator"] == "network (dense, float32)"


class Ruled(kl.Program):
    tokens = 2
    x = kl.cat(2, token=lambda t: t)
    output = x
    layers = 1

    def rules(b):
        for x in b.get("x"):
            b.set("x", 1 - x)


def test_a_program_of_rules_names_the_rule():
    data = program_page(Ruled.trace([0, 1]), weights=False).data
    assert [(w["how"], w["text"], w["guard"]) for w in data["writers"]] == [
        ("rule", "x := 1", "if x = 0"),
        ("rule", "x := 0", "if x = 1"),
    ]
    assert "written as rules" in data["sources"][0]["why"]


def test_a_network_page_has_the_same_data_as_the_interpreters():
    program = kl.library.computer(8)
    tokens = program.encode("9 9 3 10 11 6 0 0 -1 5 3 7")
    traces = program.trace(tokens), kl.explain(kl.compile(program), tokens)
    ours, theirs = (program_page(trace, weights=False).data for trace in traces)
    for part in ("initial", "changes", "looks", "rows", "values", "moved"):
        assert ours[part] == theirs[part], part


class Unset(kl.Program):
    """Reads a head that is undefined at the first position: the interpreter refuses, the network reads zeros."""

    tokens = 2
    x = kl.cat(2, token=lambda t: t)
    left = kl.relative(x, -1)
    output = x
    layers = 1

    def step(z):
        if z.left == 0:
            z.x = 1


def test_an_update_that_reads_an_undefined_head_did_not_fire():
    trace = kl.explain(kl.compile(Unset), [0, 0])
    assert trace.outputs == [0, 1]
    assert list(written(Writers(trace, updates_of(trace)), 0)) == [1]


def test_attention_is_what_was_selected():
    trace = kl.library.addition.trace(kl.library.addition.encode("34+56"))
    data = program_page(trace, weights=False).data
    for layer, heads in enumerate(trace.heads):
        for name, outputs in heads.items():
            runs = data["rows"][data["looks"][layer][name][1]]
            selected = [[p for a, b in zip(run[::2], run[1::2]) for p in range(a, b + 1)] for run in runs]
            assert selected == [list(at.selected) for at in outputs]


def test_weights_are_the_networks():
    program = kl.library.addition
    data = program_page(program.trace(program.encode("1+2"))).data["weights"]
    net = kl.compile(program)
    count = sum(len(matrix["entries"]) // 3 for matrix in data["matrices"])
    assert count == net.sizes.nonzero and data["cut"] == []
    units = next(m for m in data["matrices"] if m["name"] == "writes" and "units, second" in m["group"])
    rows, columns = data["lists"][units["rows"]], data["lists"][units["columns"]]
    row, column, weight = units["entries"][:3]
    assert columns == net.layout.names and rows[row] == f"unit 2.{row}"
    assert float(net.block(0).out2[column, row]) == weight


def test_weights_are_left_out_where_they_are_many():
    program = kl.library.computer(16)
    data = program_page(program.trace([0, 0, 0, 65535], layers=3)).data
    assert data["weights"] is None and "weights=True" in data["without_weights"]


def test_nothing_from_outside_becomes_html():
    text = Hostile.trace([0, 1]).to_html(text=HOSTILE)
    assert text.count("<script") == 2 and "<img" not in text
    assert html.escape(HOSTILE) in text
    assert content(text)["text"] == HOSTILE and content(text)["tokens"] == [HOSTILE, "b"]


def test_a_page_needs_nothing_from_outside(tmp_path):
    trace = kl.library.parity_relative.trace([2, 1, 0])
    text = trace.to_html(tmp_path / "p.html")
    assert (tmp_path / "p.html").read_text(encoding="utf-8") == text
    assert not re.search(r"""(src|href)\s*=|url\(|@import|fetch\(|XMLHttp|innerHTML|eval\(""", text)
    assert list(tmp_path.iterdir()) == [tmp_path / "p.html"]


def test_in_a_notebook_it_has_a_frame_of_its_own():
    trace = kl.library.parity_relative.trace([2, 1, 0])
    framed = trace._repr_html_()
    inside = re.search(r'srcdoc="([^"]*)"', framed)
    assert inside is not None and html.unescape(inside[1]) == trace.to_html()
    assert 'sandbox="allow-scripts"' in framed


def test_gaps():
    assert gaps([]) == [] and gaps([0]) == [0] and gaps([2, 3, 10]) == [2, 1, 7]


# --- RNNs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["minsky", "image", "scalar"])
def test_an_rnns_trace_is_its_run(method):
    dfa = kl.regex("(0|10*1)*", "01")
    rnn = kl.compile(dfa, method=method)
    for word in ("", "0", "0110", "10101"):
        trace = kl.explain(rnn, word)
        assert trace.answer == ("accept" if dfa.accepts(word) else "reject")
        assert trace.states == tuple(dfa.name(state) for state in dfa.path(word))
        assert trace.hidden == tuple(rnn.trace(word))
    assert "accept" in str(kl.explain(rnn, "11")) and kl.explain(rnn, "11").to_json()["answer"] == "accept"


@pytest.mark.parametrize("form", ["compact", "literal"])
def test_a_turing_machines_tape_is_read_from_the_numbers(form):
    machine = kl.TuringMachine.parse("1RB1LB_1LA1RZ")
    net = kl.compile(machine, form=form)
    trace = kl.explain(net, "")
    steps = [tape for tape in trace.tapes if tape.state in machine.states][-7:]
    for tape, right in zip(steps, machine.configurations("")):
        assert (tape.state, tape.symbol) == (right.state, right.symbol)
        for mine, its in ((tape.left, right.left), (tape.right, right.right)):
            blank = machine.blank
            assert "".join(mine).rstrip(blank) == "".join(its).rstrip(blank)
    assert trace.answer == "accept"
    assert kl.explain(net, "", max_steps=3).answer is None


@pytest.mark.parametrize("seed", range(4))
def test_networks_of_other_machines_have_pages_too(seed):
    tapes = kl.compile(random_two_tape(random.Random(seed)))
    data = content(kl.explain(tapes, "aa", max_steps=5).to_html())
    assert data["names"] == list(tapes.readout.names) and data["tapes"]
    rnn = random_slu_rnn(random.Random(seed))  # made from no machine: it has no states
    data = content(kl.explain(rnn, "a" * 4).to_html())
    assert data["states"] is None and data["activation"] == "SLU" and len(data["hidden"]) == 5


def test_interdependence_has_a_page():
    import torch
    from torch import nn

    torch.manual_seed(0)
    found = kl.interdependence(nn.LSTM(3, 4), nn.Linear(4, 9), [torch.randn(3, 3), torch.randn(2, 3)])
    data = content(found.to_html(words=[["a", "<b>", "c"], ["d", "e"]]))
    assert data["sentences"][0]["words"] == ["a", "<b>", "c"]
    assert data["sentences"][0]["matrix"][0][1] == round(float(found[0][0, 1]), 5)
    with pytest.raises(InputError, match="words="):
        found.to_html(words=[["a"]])
    first = interdependence_page(found, None, 1)
    assert len(first.data["sentences"]) == 1 and "the first 1 of 2 sentences" in first.title


# --- the command line -------------------------------------------------------------------------------------


def kleene(capsys, *arguments: object) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def test_trace_writes_a_page(capsys, tmp_path):
    path = tmp_path / "scan.html"
    code, said, _ = kleene(capsys, "trace", "scan", "jump twice", "--html", path)
    data = content(path.read_text(encoding="utf-8"))
    assert code == 0 and f"saved {path}" in said and "by the interpreter" in said
    assert data["text"] == "jump twice" and data["weights"] is not None
    kleene(capsys, "trace", "parity_relative", "101", "--html", path, "--no-weights")
    assert content(path.read_text(encoding="utf-8"))["weights"] is None


def test_regex_and_tm_write_pages(capsys, tmp_path):
    path = tmp_path / "page.html"
    assert kleene(capsys, "regex", "(0|10*1)*", "0110", "--html", path)[0] == 0
    assert content(path.read_text(encoding="utf-8"))["answer"] == "accept"
    assert kleene(capsys, "tm", "1RB1LB_1LA1RZ", "--html", path)[0] == 0
    assert content(path.read_text(encoding="utf-8"))["tapes"][-1][0] == "Z"


def test_explain_writes_the_page_that_fits(capsys, tmp_path):
    page = tmp_path / "page.html"
    kl.compile(kl.regex("(0|10*1)*", "01")).save(tmp_path / "rnn")
    kl.compile(kl.library.parity_relative).save(tmp_path / "net")
    LanguageModel(4, 5, 6, vocabulary=Vocabulary(["<unk>", "the", "cat", "sat"])).save(tmp_path / "lm")
    for folder, given, kind in (("rnn", "0110", "rnn"), ("net", "[2,1,0]", "program"), ("lm", "the cat", "heat")):
        code, said, _ = kleene(capsys, "explain", tmp_path / folder, given, "--html", page)
        assert code == 0 and f"saved {page}" in said
        assert content(page.read_text(encoding="utf-8"))["kind"] == kind


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["trace", "parity_relative", "101", "--weights"], "--html"),
        (["trace", "parity_relative", "101", "--html", "/proc/none/p.html"], "cannot be written"),
        (["regex", "0*", "0", "00", "--html", "p.html"], "one word"),
        (["regex", "0*", "--html", "p.html"], "one word"),
    ],
)
def test_what_no_page_can_be_made_of(capsys, arguments, said):
    code, _, error = kleene(capsys, *arguments)
    assert code == 2 and said in error and len(error.splitlines()) == 1


# --- the looks --------------------------------------------------------------------------------------------


def colours(css: str) -> list[dict[str, str]]:
    """The colours of the light and of the dark scheme."""
    parts = css.split("prefers-color-scheme: dark")[:2]
    return [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part)) for part in parts]


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, as WCAG defines it."""

    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_texts_can_be_read(scheme):
    found = colours(_asset("page.css"))[scheme]
    pairs = [(text, ground) for text in ("ink", "quiet", "accent", "head") for ground in ("bg", "panel")]
    pairs += [("faint", "panel"), ("changed-ink", "changed"), ("accent", "accent-soft"), ("head", "accent-soft")]
    pairs += [("ink", "soft"), ("quiet", "soft"), ("bg", "accent"), ("minus", "panel"), ("faint", "accent-soft")]
    poor = {pair: round(contrast(*(found[name] for name in pair)), 2) for pair in pairs}
    assert {pair: ratio for pair, ratio in poor.items() if ratio < 4.5} == {}


# --- screenshots ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PICTURES)
def test_screenshots_are_current(name):
    """The picture in docs/images shows the page as it is now: both have one version."""
    path = FOLDER / f"{name}.png"
    assert path.stat().st_size < 150_000
    with Image.open(path) as picture:
        assert picture.text[KEY] == page_version(PICTURES[name].kind), "make screenshots"


def test_a_page_says_its_version_and_another_style_is_another_version(monkeypatch):
    before = page_version("rnn")
    assert f'content="{before}"' in Page("rnn", "x", {}).html()
    page_version.cache_clear()
    read = page_module._asset
    monkeypatch.setattr(page_module, "_asset", lambda name: read(name) + (" " if name == "page.css" else ""))
    assert page_version("rnn") != before
    page_version.cache_clear()


def test_every_screenshot_is_shown_somewhere():
    texts = "".join(path.read_text(encoding="utf-8") for path in (FOLDER.parent).glob("*.md"))
    texts += (FOLDER.parent.parent / "README.md").read_text(encoding="utf-8")
    assert {path.stem for path in FOLDER.glob("*.png")} == set(PICTURES)
    assert all(f"images/{name}.png" in texts for name in PICTURES)
