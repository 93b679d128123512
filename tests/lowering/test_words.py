"""Words: binary-coded integers. Interpreter, rule machine and network agree; sizes are linear in the bits."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

import kleene as kl
from kleene.lowering.rule_machine import RuleMachine
from kleene.lowering.words import WordAssignment, normalised


def busy(bits: int):
    """A program that compares, adds, subtracts, copies and matches words."""
    size = 1 << bits

    class Busy(kl.Program):
        tokens = size
        positions = 8
        a = kl.word(bits, token=lambda t: t)
        b = kl.word(bits, position=lambda p: (p * 7) % size)
        stage = kl.cat(3)
        left = kl.relative(a, -1, default=3 % size)
        same = kl.attend(b, a, b, default=0)
        output = a
        layers = 3

        def step(z):
            if z.stage == 0:
                if z.a >= z.left:
                    z.a = z.a - z.left
                    z.stage = 1
                elif z.a == z.b:
                    z.a = (z.left + z.left + 5) % size
                else:
                    z.a = (z.a - z.b - z.left) % size
                    z.b = (3 - z.b) % size
            elif z.stage == 1:
                z.a = z.b
                z.stage = 2
            else:
                z.a = (z.a + 1) % size

    return Busy


@pytest.mark.parametrize("bits", [2, 3, 5, 9])
def test_every_side_agrees_on_words(bits):
    program = busy(bits)
    net = kl.compile(program)
    chance = random.Random(bits)
    inputs = [[chance.randrange(1 << bits) for _ in range(chance.randrange(1, 9))] for _ in range(40)]
    expected = [program.run(tokens) for tokens in inputs]
    assert RuleMachine(kl.guarded_updates(program)).run_batch(inputs) == expected
    assert net.run_batch(inputs, evaluator="dense") == expected
    assert net.run_batch(inputs, evaluator="sparse") == expected
    assert kl.compile(program, dtype="float64").run_batch(inputs, evaluator="dense") == expected


def test_all_short_inputs_of_two_bit_words():
    program = busy(2)
    assert kl.verify(program, kl.compile(program), lengths=range(1, 6)).holds


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_words_are_certified_saved_and_decompiled(bits, tmp_path):
    program = busy(bits)
    net = kl.compile(program)
    net.save(tmp_path / "net")
    loaded = kl.load(tmp_path / "net")
    assert kl.certify(loaded).holds
    assert kl.decompile(loaded) == kl.guarded_updates(program)


def test_wide_words_are_refused_in_bfloat16():
    certificate = kl.certify(kl.compile(busy(9)), dtype="bfloat16")
    assert not certificate.holds and "bfloat16" in certificate.reasons[0]


def test_hidden_units_are_linear_in_the_bits():
    hidden = [kl.compile(busy(bits)).sizes.hidden for bits in (3, 5, 7, 9)]
    assert len({b - a for a, b in pairwise(hidden)}) == 1


def subleq_reference(memory, size):
    """Fetch, subtract, branch: plain Python on numbers modulo `size`."""
    memory, pc, count, half = list(memory), 0, 0, size // 2
    while True:
        a, b, c = memory[pc : pc + 3]
        count += 1
        if a >= half or b >= half:
            return memory, 3 * (count - 1) + 1
        memory[b] = (memory[b] - memory[a]) % size
        if 0 < memory[b] < half:
            pc += 3
        elif c >= half:
            return memory, 3 * count
        else:
            pc = c


@pytest.mark.parametrize("bits", [5, 8])
def test_subleq_on_words_runs_a_loop(bits):
    program = kl.library.subleq_words(bits, 16)
    # mem[13] −= mem[12] until it is 0 or less, counting in mem[14]
    image = [15, 14, 3, 12, 13, 9, 11, 11, 0, -1, -1, 0, 3, 10, 0, -1]
    tokens = program.encode(image)
    expected, layers = subleq_reference(tokens, 1 << bits)
    net = kl.compile(program)
    for outputs in (program.run(tokens), net.run(tokens, evaluator="sparse"), net.run(tokens, evaluator="dense")):
        assert outputs == expected and outputs.layers == layers
    assert program.decode(expected)[14] == 4


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("z.w = z.w * 2", "% 16"),
        ("z.w = z.w * z.w", "words take"),
        ("z.w = z.w + 0.5", "words take"),
        ("z.w = 1.5", "outside 0 … 15"),
        ("z.w = z.w & -1", "combines -1"),
        ("z.w = (z.w + 1)[0:2]", "later layer"),
        ("z.w = z.w[4]", "takes bit 4 of 4"),
        ("z.w = z.w // 3", "divides by 3"),
        ("z.w = z.w * 3 % 16 & 5", "later layer"),
        ("z.w = z.w + z.c", "% 16"),
        ("z.w = z.w % 3", "not a power of two"),
        ("z.w = z.w + 1", "% 16"),
        ("z.w = z.w % 32", "which holds 0 … 15"),
        ("z.c = z.w", "outside 0 … 1"),
        ("z.w = 16", "outside 0 … 15"),
        ("z.w = (z.w + 1) % 16 + 1", "% 16"),
    ],
)
def test_anything_else_is_refused_by_name(line, said):
    namespace = {"kl": kl}
    exec(
        "class W(kl.Program):\n"
        "    tokens = 2\n    w = kl.word(4)\n    c = kl.cat(2, token=lambda t: t)\n    output = c\n    layers = 1\n"
        f"    def step(z):\n        {line}\n",
        namespace,
    )
    with pytest.raises(kl.ProgramError, match=said.replace("%", r"\%")):
        kl.compile(namespace["W"])


def test_a_guard_keeps_a_difference_in_range():
    class Gap(kl.Program):
        tokens = 8
        a = kl.word(3, token=lambda t: t)
        left = kl.relative(a, -1, default=5)
        output = a
        layers = 1

        def step(z):
            if z.a > z.left:
                z.a = z.a - z.left
            elif z.left > z.a:
                z.a = z.left - z.a
            else:
                z.a = 0

    assert kl.verify(Gap, kl.compile(Gap), lengths=range(1, 5)).holds


def test_words_have_no_transition_rules():
    with pytest.raises(kl.NotSupported, match="thresholds"):
        kl.rules(busy(3))


def test_one_way_to_write_an_assignment():
    spec = busy(2).spec
    assert normalised(spec, "a", WordAssignment((("a", 3), ("b", -2)), 5, 4)) == WordAssignment(
        (("a", -1), ("b", 2)), 1, 4
    )


def adds(*cases):
    """A word that grows by one of some numbers, by the values of two variables."""

    class Adds(kl.Program):
        tokens = 9
        a = kl.word(3)
        c = kl.cat(3, token=lambda t: t % 3)
        d = kl.cat(3, token=lambda t: t // 3)
        output = a
        layers = 1

        def step(z):
            for test, added in cases:
                if test(z):
                    z.a = (z.a + added) % 8

    return kl.guarded_updates(Adds)


def test_updates_of_words_are_compared_by_what_they_do():
    cover = adds((lambda z: z.d == 0, 1), (lambda z: z.d == 2 and z.c == 1, 1))
    other = adds((lambda z: z.c == 1 and z.d != 1, 1), (lambda z: z.c != 1 and z.d == 0, 1))
    assert cover == other and cover != adds((lambda z: z.d == 0, 1), (lambda z: z.d == 2 and z.c == 2, 1))
    assert cover != adds((lambda z: z.d == 0, 1), (lambda z: z.d == 2 and z.c == 1, 2))
    assert adds((lambda z: z.c >= 0, 1)) == adds((lambda z: z.c >= 0, 1)) != adds((lambda z: z.c >= 0, 2)) != adds()


def test_a_word_that_begins_as_zero_everywhere_is_certified():
    class Zero(kl.Program):
        tokens = 2
        a = kl.word(2, token=lambda t: t)
        b = kl.word(2, token=lambda t: 0, default=3)
        output = b
        layers = 1

        def step(z):
            z.b = (z.a + z.b) % 4

    net = kl.compile(Zero)
    assert Zero.run([1, 0]) == net.run([1, 0]) == [1, 0]
    assert kl.certify(net).holds and kl.decompile(net) == kl.guarded_updates(Zero)


def agrees(program, lengths=range(1, 4)):
    net = kl.compile(program)
    assert kl.verify(program, net, lengths=lengths).holds
    assert kl.certify(net).holds and kl.decompile(net) == kl.guarded_updates(program)
    return str(kl.decompile(net))


@pytest.mark.parametrize("bits", [2, 3, 5])
def test_one_less_where_a_guard_keeps_it_in_range(bits):
    class Less(kl.Program):
        tokens = 4
        layers = 2
        w, v = kl.word(bits, token=lambda t: t), kl.word(bits, token=lambda t: 3 - t)
        output = w

        def step(z):
            if z.w > 0:
                z.w = z.w - 1
            else:
                z.w = z.v - 2 if z.v >= 2 else 0

    assert "w := w − 1" in agrees(Less)


def test_a_word_modulo_less_than_its_size():
    class Low(kl.Program):
        tokens = 8
        layers = 1
        w, v = kl.word(3, token=lambda t: t), kl.word(3, token=lambda t: (3 * t) % 8)
        output = w

        def step(z):
            z.v = (z.v - z.w) % 2
            z.w = z.w % 4

    assert "w := (w) % 4" in agrees(Low)


def test_a_word_plus_its_modulus_is_the_word():
    class Same(kl.Program):
        tokens = 8
        layers = 1
        w = kl.word(3, token=lambda t: t)
        output = w

        def step(z):
            z.w = (z.w + 8) % 8

    assert "0 guarded updates" in agrees(Same)


@pytest.mark.parametrize("condition", ["z.mean == z.x", "z.mean < z.x", "z.mean == 1", "z.mean == 0 and z.mean == z.x"])
def test_a_word_under_a_condition_on_an_average(condition):
    space = {"kl": kl}
    exec(
        f"""class Averaged(kl.Program):
    tokens, layers = 3, 1
    x, w = kl.cat(3, token=lambda t: t), kl.word(2)
    left = kl.relative(x, -1, default=0)
    mean = kl.attend(None, None, x, output=kl.num([0, 1, 2]))
    output = w
    def step(z):
        if {condition}:
            z.w = 1
""",
        space,
    )
    assert "mean" in agrees(space["Averaged"])


def test_factors_and_values_of_other_variables():
    class Factors(kl.Program):
        tokens = 8
        layers = 2
        w, v = kl.word(3, token=lambda t: t), kl.word(3, token=lambda t: 7 - t)
        c = kl.cat(4, token=lambda t: t % 4)
        output = w

        def step(z):
            v = z.v
            z.v = (z.c * z.w) % 4
            if z.c < 2:
                z.w = (z.c - v * 5 + 3 * z.w) % 8  # forks for each value of c
            else:
                z.w = z.c

    agrees(Factors)


def test_difference_of_wide_words_into_a_narrow_one():
    """The carry out of the last bit is not constant then: 8 − 7 is 1, though the low bits of 8 are below those of 7."""

    class Distance(kl.Program):
        tokens = 16
        a = kl.word(4, token=lambda t: t)
        b = kl.word(4, default=7)
        near = kl.word(2)
        output = near
        layers = 1

        def step(z):
            if z.a >= z.b and z.a - z.b < 4:
                z.near = z.a - z.b

    net = kl.compile(Distance)
    assert [list(net.run([t])) for t in range(16)] == [list(Distance.run([t])) for t in range(16)]
    assert list(net.run([8])) == [1]
    assert kl.certify(net).holds
    assert kl.verify(Distance, net, lengths=[1]).holds
    assert len(kl.decompile(net).words) == len(kl.guarded_updates(Distance).words)


def wide_steps(z):
    """Every way to use wide words: inequalities, sums used further, bits of sums, words as indices."""
    total = (z.a + z.b) % 2**40
    if z.stage == 0:
        z.less = 1 if z.a < z.b else 0
        z.b = (total - z.n + 1) % 2**40
        z.stage = 1
    elif z.stage == 1:
        z.less = 1 if total >= z.a else 2 if z.a == z.b else 0
        z.a = (3 * z.a - z.b) % 2**40 if z.a <= 0x8000000001 else total // 4
        z.stage = 2
    else:
        z.less = z.n
        z.a = (z.n + total[17:31]) % 2**40
        z.n = total[38:40] + z.b[z.n]


def wide_program():
    class Wide(kl.Program):
        tokens, positions, layers = 64, 6, 4
        a = kl.word(40, token=lambda t: t**7 % 2**40)
        b = kl.word(40, position=lambda p: 7**13 * p % 2**40)
        n = kl.word(3, token=lambda t: t % 8)
        less = kl.cat(8)
        stage = kl.cat(3)
        output = less
        step = staticmethod(wide_steps)

    return Wide


def test_wide_words_are_compared_and_used_further():
    program, chance = wide_program(), random.Random(40)
    net = kl.compile(program)
    inputs = [[chance.randrange(64) for _ in range(6)] for _ in range(30)] + [[63] * 6, [0] * 6]
    expected = [program.run(tokens) for tokens in inputs]
    assert RuleMachine(kl.guarded_updates(program)).run_batch(inputs) == expected
    assert net.run_batch(inputs, evaluator="dense") == net.run_batch(inputs, evaluator="sparse") == expected
    assert kl.certify(net).holds and kl.certify(program).holds
    assert len({output for outputs in expected for output in outputs}) > 3


@pytest.mark.parametrize("bits", [24, 33, 62])
@pytest.mark.parametrize("relation", ["<", "<=", ">", ">=", "==", "!="])
def test_wide_comparisons_are_right_at_their_ends(bits, relation):
    size = 1 << bits
    near = [0, 1, 2**16 - 1, 2**16, 2**16 + 1, size // 2, size - 2**16, size - 2, size - 1]

    class Compare(kl.Program):
        tokens, layers = len(near) ** 2, 1
        a = kl.word(bits, token=lambda t: near[t // len(near)])
        b = kl.word(bits, token=lambda t: near[t % len(near)])
        yes = kl.cat(2)
        output = yes
        step = eval(f"lambda z: setattr(z, 'yes', 1 if z.a {relation} z.b else 0)")

    tokens = list(range(len(near) ** 2))
    wanted = [int(eval(f"{near[t // len(near)]} {relation} {near[t % len(near)]}")) for t in tokens]
    net = kl.compile(Compare)
    assert Compare.run(tokens) == net.run(tokens) == wanted
    assert kl.certify(net).holds


@pytest.mark.parametrize("bits", [40, 62])
@pytest.mark.parametrize(
    "line",
    [
        "z.w = (z.w + z.w) % SIZE",
        "z.w = (3 * z.v + 9) % SIZE",
        "z.w = (z.w - 2 * z.v) % SIZE",
    ],
)
def test_factors_in_limbs(line, bits):
    """Twice a word passes the end of a limb."""
    namespace = {"kl": kl}
    exec(
        "class Twice(kl.Program):\n"
        f"    tokens = 256\n    w = kl.word({bits}, token=lambda t: t**7 * 12345 % 2**{bits})\n"
        f"    v = kl.word({bits}, token=lambda t: t**4 * 54321 % 2**31)\n    output = w\n    layers = 3\n"
        f"    def step(z):\n        {line.replace('SIZE', str(2**bits))}\n",
        namespace,
    )
    net, tokens = kl.compile(namespace["Twice"]), list(range(256))
    assert net.run(tokens) == namespace["Twice"].run(tokens)
    assert kl.certify(net).holds


@pytest.mark.parametrize(
    "first",
    ["z.b", "z.b[0:2]", "z.b[1]", "5", "z.b + 3", "(z.b + 1) % 16", "(z.c + 5) % 4096", "z.b & 3"],
)
def test_a_word_that_step_has_written_has_all_its_bits(first):
    """What is written may be narrower; what is read again is as wide as the variable."""
    then = ["~z.c", "z.c[2:9]", "z.c[9]", "z.c >> 3", "z.c + 1"]
    if "+" not in first:  # nothing is carried
        then += ["kl.concat(z.c[1], z.c[8:12])", "kl.extend(z.c, 16)", "z.c[::-1]"]
    for line in (then[:4], then[4:]):
        namespace = {"kl": kl}
        exec(
            "class Narrow(kl.Program):\n"
            "    tokens, layers = 16, 2\n    b = kl.word(4, token=lambda t: t)\n    seen = kl.word(16)\n"
            "    c = kl.word(12, token=lambda t: 277 * t % 4096)\n    output = seen\n"
            "    d, e, f, g = kl.word(16), kl.word(16), kl.word(16), kl.word(16)\n"
            f"    def step(z):\n        z.seen = z.d ^ z.e ^ (z.f ^ z.g)\n        z.c = {first}\n"
            + "".join(f"        z.{name} = {value}\n" for name, value in zip("defg", line)),
            namespace,
        )
        tokens = list(range(16))
        assert kl.compile(namespace["Narrow"]).run(tokens) == namespace["Narrow"].run(tokens)


def test_a_word_and_its_own_bits_are_added():
    class Own(kl.Program):
        tokens, layers = 64, 2
        w = kl.word(13, token=lambda t: t * 131 % 2**13)
        v = kl.word(32, token=lambda t: t << 26)
        yes = kl.cat(2)
        output = yes

        def step(z):
            z.w = (z.w[0] + z.w + 4944) % 2**13
            z.yes = 1 if (z.v << 21) % 2**32 == 0 and z.w[3] else 0

    tokens = list(range(64))
    net = kl.compile(Own)
    assert net.run(tokens) == Own.run(tokens) and {0, 1} == {*Own.run(tokens)}
    assert kl.certify(net).holds


def test_sums_of_slices_and_multiples_are_certified():
    class Multiple(kl.Program):
        tokens, layers = 16, 1
        a = kl.word(23, token=lambda t: t)
        b = kl.word(48, token=lambda t: t**11)
        output = a

        def step(z):
            z.a = (2 * z.a + z.b[16:39] + 5) % 2**23

    assert kl.certify(kl.compile(Multiple)).holds


class Forgets(kl.Program):
    """Two comparisons of one sum; what the second decides still holds when a variable that the first wrote is read."""

    tokens = 16
    u = kl.word(2, token=lambda t: t % 4)
    v = kl.word(2, token=lambda t: t // 4)
    w = kl.word(2, position=lambda p: p % 4)
    output, layers, positions = v, 2, 4

    def step(z):
        if z.u + z.w < 6:
            if z.u + z.w >= 2:
                z.v = z.u
            else:
                z.u = z.v
        if z.v[1]:
            z.v = z.v & 3


def test_what_is_known_of_a_sum_is_not_forgotten_when_it_is_compared_again():
    net = kl.compile(Forgets)
    assert kl.verify(Forgets, net, lengths=range(1, 4)).holds and kl.certify(net).holds


class Mixed(kl.Program):
    """A word that a bitwise sum has changed is compared: one test on 15 bits."""

    tokens = 32
    u = kl.word(5, default=22)
    v = kl.word(5, token=lambda t: t)
    w = kl.word(5, default=7)
    output, layers, positions = v, 1, 2

    def step(z):
        if z.w[0:2] == 0:
            z.w = z.u ^ z.w
        if z.w > z.v:
            z.v = (z.v + 29) % 32


@pytest.mark.slow
def test_a_test_on_fifteen_bits_is_proved():
    assert kl.certify(kl.compile(Mixed)).holds
