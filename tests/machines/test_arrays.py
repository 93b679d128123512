"""Arrays of variables and heads: `z.x[k]` in the interpreter, the updates and the network."""

from __future__ import annotations

import pytest

import kleene as kl
from kleene.checks.steps import certify_step


class Cells(kl.Program):
    """A token is cell · 4 + digit, written into a cell. Each cell takes what its left neighbour holds, if more."""

    tokens, layers = 16, 2
    cell = kl.cat(4, token=lambda t: t // 4)
    digit = kl.cat(4, token=lambda t: t % 4)
    x = kl.array(4, kl.cat(4))
    left = kl.array(4, lambda k: kl.relative(x[k], -1, default=0))  # noqa: F821
    found = kl.cat(4)
    output = found

    def step(z) -> None:
        z.x[z.cell] = z.digit
        for k in range(len(z.x)):
            if z.left[k] > z.x[k]:
                z.x[k] = z.left[k]
        z.found = z.x[z.digit]


class Votes(kl.Program):
    """How many of 19 neighbours have a 1."""

    tokens, layers = 2, 1
    here = kl.cat(2, token=lambda t: t)
    nearby = [kl.relative(here, d, default=0) for d in range(-9, 10)]  # noqa: F821
    yes = kl.cat(20)
    output = yes

    def step(z) -> None:
        count = 0
        for vote in z.nearby:
            if vote == 1:
                count += 1
        z.yes = count


def test_elements_are_variables_and_heads():
    assert [name for name in Cells.spec.variables if name.startswith("x")] == ["x.0", "x.1", "x.2", "x.3"]
    assert list(Cells.spec.heads) == ["left.0", "left.1", "left.2", "left.3"]
    assert len(Cells.x) == 4 and Cells.x[0].kind.describe() == "0 … 3"


@pytest.mark.parametrize("program", [Cells, Votes])
def test_everything_agrees(program, tmp_path):
    net = kl.compile(program)
    assert kl.verify(program, net, random=60).holds
    assert certify_step(program, limit=2_000).holds and kl.certify(net).holds
    assert kl.decompile(net) == kl.guarded_updates(program)
    net.save(tmp_path / "net")
    word = [3, 6, 9, 1] if program is Cells else [1, 0, 1, 1]
    assert kl.load(tmp_path / "net").run(word) == program.run(word) == net.run(word)
    assert "x.2" in str(Cells.trace([3, 6]))


def test_declarations_are_no_global_names_afterwards():
    assert "here" not in globals() and "x" not in globals()


def test_a_body_that_raises_leaves_no_names_behind():
    with pytest.raises(ZeroDivisionError):

        class Fails(kl.Program):
            lost = kl.cat(2)
            value = 1 / 0

    assert Votes.run([1]) == [1]

    class Made(kl.Program):
        tokens, layers = 2, 1
        a = kl.cat(2)
        output = a

        def step(z) -> None:
            pass

    assert "lost" not in globals()


def whole(step):
    body = {"a": kl.cat(3, token=lambda t: t), "x": kl.array(3, kl.cat(3)), "tokens": 3, "layers": 1, "step": step}
    return type(kl.Program)("Whole", (kl.Program,), body | {"output": body["x"][2]})


def test_an_array_is_written_at_once_and_sliced():
    def step(z):
        z.x = [z.a, 1, 2]
        z.x[-1] = sum(z.x[:2]) % 3

    made = whole(step)
    assert made.run([0, 1, 2]) == kl.compile(made).run([0, 1, 2]) == [1, 2, 0]


def test_errors_name_the_array():
    def short(z):
        z.x = [1, 2]

    def far(z):
        z.x[3] = 1

    with pytest.raises(kl.ProgramError, match="writes 2 values to 'x', which has 3 elements"):
        whole(short).run([0])
    with pytest.raises(kl.StepError, match="'x' has 3 elements, and no element 3"):
        kl.compile(whole(far))
    with pytest.raises(kl.ProgramError, match="array: the size must be 1"):
        kl.array(0, kl.cat(2))
    with pytest.raises(kl.ProgramError, match="a function of k, not 5"):
        kl.array(2, 5)  # type: ignore[call-overload]
    with pytest.raises(kl.ProgramError, match="the elements must be declarations"):
        kl.array([1, 2])  # type: ignore[call-overload]
