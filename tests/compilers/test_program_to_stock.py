"""Programs inside unmodified classes of transformers: what they generate is what the interpreter appends."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import torch

import kleene as kl
from stock_programs import FAMILIES, PROGRAMS, Line, Recall, Sums, random_program


def prompts(program: Any, count: int, longest: int, seed: int = 0) -> list[list[int]]:
    chance = Random(seed)
    return [[chance.randrange(program.spec.tokens) for _ in range(chance.randrange(1, longest))] for _ in range(count)]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_generates_what_the_program_appends(program: Any, family: Any) -> None:
    net = kl.compile(program, to=family, length=60)
    assert type(net.model()).__name__ == {"gpt2": "GPT2LMHeadModel"}.get(family, f"{family.capitalize()}ForCausalLM")
    given = prompts(program, 40, 40)
    assert net.run_batch(given) == [program.run(tokens) for tokens in given]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_is_certified_up_to_its_length(program: Any, family: Any) -> None:
    certificate = kl.certify(kl.compile(program, to=family, length=300), program=program)
    assert certificate.holds, certificate
    assert certificate.max_length == 300


def right_and_certified(seeds: range) -> None:
    """Random heads at all kinds of lengths: each model is certified, and generates what the program appends."""
    for seed in seeds:
        chance = Random(seed)
        program, family = random_program(chance), FAMILIES[seed % 4]
        length = chance.choice([5, 17, 40, 60, 100, 200, 333, 500] if family == "gpt2" else [5, 40, 60, 200, 777, 1500])
        net = kl.compile(program, to=family, length=length)  # type: ignore[call-overload]
        certificate = kl.certify(net)
        assert certificate.holds, (seed, family, length, certificate.reasons)
        given = prompts(program, 3, min(length, 60) - 2, seed)
        assert net.run_batch(given) == [program.run(tokens) for tokens in given], (seed, family, length)


def test_random_programs() -> None:
    right_and_certified(range(8))


@pytest.mark.slow
def test_many_random_programs() -> None:
    right_and_certified(range(8, 400))


def test_offsets_over_many_positions() -> None:
    """The first token stays between what is selected and what is not, however far away it is."""

    class Far(kl.Program):
        tokens, max_tokens, layers = 3, 2, 1
        token = kl.cat(3, token=lambda t: t)
        left = kl.relative(token, -4, default=0)
        never = kl.relative(token, -100, default=1)
        result = kl.cat(3)
        output = result

        def step(z: Any) -> None:
            z.result = (z.left + z.never) % 3

    for family in ("llama", "qwen3"):
        for length in (5, 60, 2000):
            assert kl.certify(kl.compile(Far, to=family, length=length)).holds  # type: ignore[call-overload]


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_take_three_values_in_eager_and_sdpa(family: Any) -> None:
    net = kl.compile(Recall, to=family, length=200)
    ids = torch.tensor([[net.first, *prompts(Recall, 1, 200, seed=3)[0]]])
    for attention in ("eager", "sdpa"):
        logits = net.model(attention=attention)(ids).logits[:, 1:]
        assert {*logits.unique().tolist()} == {-3.0, -1.0, 1.0}


def test_a_length_of_thousands() -> None:
    net = kl.compile(Recall, to="llama", length=8000)
    assert kl.certify(net).holds
    (tokens,) = prompts(Recall, 1, 9, seed=1)
    far = [4, 2, *[0, 1] * 3500, 4]  # 4 was followed by 2, 7,000 tokens before
    assert net.run_batch([tokens, far])[1][0] == 2


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_scores_stay_small_enough_for_float32(family: Any) -> None:
    """Earliest matches of words of 8 bits: some ratios of frequencies make scores of millions."""
    assert kl.certify(kl.compile(Line, to=family, length=3000)).holds


def test_bfloat16_where_the_certificate_allows() -> None:
    net = kl.compile(Sums, to="gpt2", length=60, dtype="bfloat16")
    assert kl.certify(net).holds
    given = prompts(Sums, 40, 40)
    assert net.run_batch(given) == [Sums.run(tokens) for tokens in given]
    assert not kl.certify(kl.compile(Recall, to="llama", length=200, dtype="bfloat16")).holds


@pytest.mark.parametrize("family", FAMILIES)
def test_verify_and_files(family: Any, tmp_path: Any) -> None:
    net = kl.compile(Sums, to=family, length=40)
    net.save(tmp_path / "sums")
    loaded = kl.load(tmp_path / "sums", kl.StockModel)
    assert kl.verify(Sums, loaded, random=50).holds
    assert all(torch.equal(loaded.tensors[name], tensor) for name, tensor in net.tensors.items())
    exported = kl.export(kl.compile(Sums), family, tmp_path / "again", length=40, symbols="012;")
    assert exported.config == net.config
    assert all(torch.equal(exported.tensors[name], tensor) for name, tensor in net.tensors.items())


def test_inputs_on_which_the_program_raises_are_counted() -> None:
    class Late(kl.Program):
        tokens, max_tokens, layers = 3, 1, 1
        here = kl.cat(3, token=lambda t: t)
        left = kl.relative(here, -1)
        result = kl.cat(3)
        output = result

        def step(z: Any) -> None:
            z.result = z.left if z.here == 2 else z.here

    report = kl.verify(Late, kl.compile(Late, to="llama", length=8), inputs=[[0, 1], [2, 1], [0]])
    assert report.holds and report.checked == 2
    assert "1 more left out: the program raises an error there" in str(report)


# --- what it refuses ---


def declared(**body: Any) -> Any:
    bit, one, result = kl.cat(2, token=lambda t: t), kl.cat(2, default=1), kl.cat(2)
    body = {name: thing(bit, one) if callable(thing) else thing for name, thing in body.items()}
    names = {"tokens": 2, "max_tokens": 3, "layers": 1, "bit": bit, "one": one, "result": result, "output": result}

    def step(z: Any) -> None:
        z.result = z.bit

    return type(kl.Program)("Refused", (kl.Program,), {**names, "step": step, **body})


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"share": lambda bit, one: kl.attend(one, one, bit, output=kl.num([0, 1]))}, "'share' averages"),
        ({"near": lambda bit, one: kl.attend(one, bit, bit, offsets=[-2, -1])}, "'near' has 2 offsets"),
        ({"moved": lambda bit, one: kl.relative(bit, -1, 0, into=one)}, "'moved' writes into a variable"),
        ({"max_tokens": None, "right": lambda bit, one: kl.relative(bit, 1, 0)}, "'right' may look to the right"),
    ],
)
def test_refuses_by_name_what_a_stock_model_cannot_hold(body: Any, why: str) -> None:
    with pytest.raises(kl.NotSupported, match=why):
        kl.compile(declared(**body), to="llama")


def test_rotary_models_have_no_absolute_positions() -> None:
    placed = declared(place=lambda bit, one: kl.cat(8, position=lambda p: p))
    with pytest.raises(kl.NotSupported, match="'place' is initialised from the position"):
        kl.compile(placed, to="llama")
    assert kl.certify(kl.compile(placed, to="gpt2")).holds


def test_sums_that_float32_cannot_hold_are_refused() -> None:
    class Wide(kl.Program):
        tokens, max_tokens, layers = 200, 2, 1
        here = kl.cat(200, token=lambda t: t)
        there = kl.relative(here, -1, default=0)
        result = kl.cat(2)
        output = result

        def step(z: Any) -> None:
            z.result = 1 if z.here + z.there >= 200 else 0

    with pytest.raises(kl.NotExact, match="more than float32 adds exactly; the rotary classes"):
        kl.compile(Wide, to="gpt2", length=20)  # a wide LayerNorm has a large bias
    assert kl.certify(kl.compile(Wide, to="llama", length=20)).holds


def test_lengths_and_inputs_are_checked() -> None:
    with pytest.raises(kl.InputError, match="length=0"):
        kl.compile(Sums, to="llama", length=0)
    net = kl.compile(Sums, to="llama", length=20)
    with pytest.raises(kl.InputError, match="token 4 at position 1"):
        net.run([1, 4])
    with pytest.raises(kl.InputError, match="exceed the 20 of this model"):
        net.run([1] * 15)
    with pytest.raises(kl.InputError, match="token 9 is outside 0 … 3"):
        net.decode([9])
    with pytest.raises(kl.InputError, match="a decoder says itself how many layers"):
        kl.compile(Sums, to="llama", layers=3)
    assert net.run("12").text == net.decode(net.run([1, 2])) == net.decode(Sums.run([1, 2]))


# --- encoders that look left ---


@pytest.mark.parametrize("family", FAMILIES)
def test_an_encoder_that_looks_left_is_recast_causally(family: Any) -> None:
    program = kl.library.parity_relative
    net = kl.compile(program, to=family, length=12, layers=8)
    assert kl.certify(net).holds
    for tokens in ([2, 1], [2, 1, 0, 1, 1], [2, 0, 0, 1, 0, 1, 1]):
        assert net.run(tokens) == program.run(tokens)
    with pytest.raises(kl.NotSupported, match="it halts by itself; give layers="):
        kl.compile(program, to=family)


def test_an_alphabet_becomes_the_tokenizer_s_symbols() -> None:
    class Next(kl.Program):
        tokens, stop, max_tokens, layers = "abc.", ".", 3, 1
        here = kl.cat(4, token=lambda t: t)
        result = kl.cat(4)
        output = result

        def step(z: Any) -> None:
            z.result = min(z.here + 1, 3)

    net = kl.compile(Next, to="llama", length=8)
    assert net.symbols == [*"abc."] and net.run("a").text == "bc"
    assert kl.export(kl.compile(Next), "gpt2", length=8).symbols == net.symbols


# --- larger shapes ---


@pytest.mark.parametrize("family", FAMILIES)
def test_a_program_planted_in_a_larger_shape_does_the_same(family: Any) -> None:
    asked = {"width": 256, "layers": 4, "heads": 4, "head_size": 64, "hidden": 80}
    net = kl.compile(Recall, to=family, length=30, size=asked, spare="random")
    sizes = net.sizes
    assert (sizes.residual, sizes.layers, sizes.heads, sizes.head_size, sizes.hidden) == (256, 4, 4, 64, 80)
    assert sizes.nonzero > 30_000  # random heads and neurons, which write nothing
    assert kl.certify(net, program=Recall).holds
    given = prompts(Recall, 20, 20)
    assert net.run_batch(given) == [Recall.run(tokens) for tokens in given]
    last = "transformer.h.3.mlp.c_proj.weight" if family == "gpt2" else "model.layers.3.mlp.down_proj.weight"
    net.tensors[last][0, 0] = 1.0
    assert "claimed to add nothing" in kl.certify(net).reasons[0]


def test_sizes_are_checked() -> None:
    with pytest.raises(kl.NotSupported, match="needs width"):
        kl.compile(Recall, to="llama", size={"width": 16})
    with pytest.raises(kl.InputError, match="not known; known: gpt2"):
        kl.compile(Recall, to="llama", size="gpt5")
    with pytest.raises(kl.InputError, match="size=3: a mapping"):
        kl.compile(Recall, to="llama", size=3)  # type: ignore[call-overload]
    with pytest.raises(kl.InputError, match="spare='noise'"):
        kl.compile(Recall, to="llama", spare="noise")  # type: ignore[call-overload]
    with pytest.raises(kl.InputError, match="every size must be at least 1"):
        kl.compile(Recall, to="llama", size={"heads": 0})
    for family in ("gpt2", "qwen3"):
        with pytest.raises(kl.NotSupported, match="parameters; there are at most"):
            kl.compile(Recall, to=family, length=20, size={"width": 1 << 40})  # type: ignore[call-overload]


def test_the_heads_of_a_gpt2_share_its_width() -> None:
    for asked in ({"heads": 3}, {"head_size": 28}, {"heads": 3, "head_size": 40}, {"width": 192, "heads": 6}):
        net = kl.compile(Recall, to="gpt2", length=20, size=asked)
        assert {key: getattr(net.sizes, {"width": "residual"}.get(key, key)) for key in asked} == asked
        assert kl.certify(net).holds and net.run([1, 2, 3, 1]) == Recall.run([1, 2, 3, 1])
    for asked, why in (
        ({"heads": 3, "head_size": 40, "width": 96}, "a width of 120 together, not 96"),
        ({"width": 101}, "must be even"),
        ({"head_size": 3}, "a head needs"),
        ({"width": 112, "heads": 5}, "5 heads of any size in width 112"),
    ):
        with pytest.raises(kl.NotSupported, match=why):
            kl.compile(Recall, to="gpt2", length=20, size=asked)


# --- automata and Turing machines ---


@pytest.mark.parametrize("family", FAMILIES)
def test_an_automaton_becomes_a_language_model(family: Any, tmp_path: Any) -> None:
    dfa = kl.regex("(ab|ba)*c", alphabet="abc")
    net = kl.compile(dfa, to=family, length=9)
    assert net.accepts_batch(["", "c", "abc", "abbac", "ab", "abcc"]) == [False, True, True, True, False, False]
    assert net.run("abb").text == "ac"
    certificate = kl.certify(net)
    assert certificate.holds and "the machine's 5 states, for words of up to 8 symbols" in str(certificate)
    net.save(tmp_path / "words")
    loaded = kl.load(tmp_path / "words", kl.StockModel)
    assert kl.verify(dfa, loaded, lengths=range(5)).holds and kl.verify(loaded, dfa).holds and kl.verify(loaded).holds
    assert kl.decompile(loaded, to="dfa").equivalent(dfa)
    assert not kl.verify(kl.regex("(ab|ba)*c?", alphabet="abc"), loaded).holds


@pytest.mark.parametrize("accepting", [[0], []], ids=["all", "none"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_machine_of_one_state(family: Any, accepting: list[int]) -> None:
    dfa = kl.DFA([[0, 0]], accepting, "ab")
    net = kl.compile(dfa, to=family, length=9)
    assert kl.certify(net).holds and kl.verify(dfa, net, lengths=range(5)).holds
    assert net.accepts_batch(["", "a", "ba"]) == [bool(accepting)] * 3
    assert kl.decompile(net, to="dfa") == dfa


def test_allowed_tokens_keep_a_match_possible() -> None:
    dfa = kl.regex("a(;|b){2}", alphabet="ab;")  # `;` is a symbol here, so another one ends a word
    net = kl.compile(dfa.to_nfa() if hasattr(dfa, "to_nfa") else dfa, to="llama", length=6)
    assert net.symbols[3] == "␄"
    for word in ("a", "a;", "a;b", "b"):
        logits = net.model()(torch.tensor([[net.first, *net.encode(word)]])).logits[0, -1]
        allowed = {symbol for symbol, logit in zip(net.symbols, logits) if logit > 0}
        after = {s for s in "ab;" if any(dfa.accepts(word + s + rest) for rest in ("", "a", "b", ";", "bb", ";;"))}
        assert allowed == after | ({"␄"} if dfa.accepts(word) else set())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_turing_machine_becomes_a_chain_of_thought(family: Any) -> None:
    machine = kl.TuringMachine.parse("1RB1LB_1LA1RZ")
    net = kl.compile(machine, to=family, length=20)
    assert net.run(":").text.split()[-1] == "accept"
    assert (net.decide("").answer, net.decide("").steps) == (machine.run("").answer, machine.run("").steps)
    certificate = kl.certify(net)
    assert certificate.holds and "each token is one step of 1RB1LB_1LA1RZ" in str(certificate)
    assert kl.verify(machine, net).holds and kl.verify(net).holds
    found = kl.decompile(net, to="turing")
    assert found.run("").steps == machine.run("").steps
    assert kl.compile(machine, to=family, length=4).decide("").answer is None  # there is no room for its steps


def test_planted_changes_of_a_machine_are_seen() -> None:
    net = kl.compile(kl.regex("(0|10*1)*", alphabet="01"), to="llama", length=9)
    net.description["words"]["machine"] = kl.regex("(0|10*1)*1", alphabet="01").to_json()
    assert not kl.certify(net).holds  # the tensors are proved; the words are other ones
    net = kl.compile(kl.regex("(0|10*1)*", alphabet="01"), to="llama", length=9)
    net.tensors["model.layers.1.mlp.down_proj.weight"][:, 0] *= -1
    with pytest.raises(kl.NotExact, match="not proved to compute"):
        kl.decompile(net)


def test_machines_have_no_layers_to_choose() -> None:
    with pytest.raises(kl.InputError, match="layers=3; it is for programs"):
        kl.compile(kl.regex("a*", alphabet="ab"), to="llama", layers=3)
    with pytest.raises(kl.NotSupported, match="not compiled from a Turing machine"):
        kl.compile(Sums, to="llama", length=8).decide("0")


def test_a_long_prompt_does_not_cut_the_answers_of_short_ones() -> None:
    net = kl.compile(kl.library.turing_decoder("1RB1LB_1LA1RZ", 20), to="llama", length=20)
    prompts = [net.encode(":"), net.encode(": B,1,R A,1,L B,1,L A,1,L B,1,R")]
    for given in (prompts, [[0], [*prompts[1], *prompts[1][1:]]]):
        assert net.run_batch(given) == [net.run(tokens) for tokens in given]
    assert kl.verify(kl.library.turing_decoder("1RB1LB_1LA1RZ", 20), net, random=40).holds
