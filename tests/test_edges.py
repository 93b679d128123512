"""Corners that several rooms share: numbers of layers, empty checks, words of long symbols, files that are edited."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import kleene as kl
from kleene.errors import FileError, InputError, NotSupported
from kleene.evidence.decomposition import masks_of
from kleene.lowering.machine import RuleMachine
from kleene.lowering.updates import guarded_updates
from kleene.machines.subleq import DIALECTS, Dialect, Machine
from kleene.papers.tasks import Plan, run_tasks
from kleene.training.loop import shuffled, train

PARITY = kl.library.parity_relative
EVEN = kl.DFA.build("even", (q for q in ["even"]), {"even": {"a": "odd"}, "odd": {"a": "even"}})


def test_a_generator_of_accepting_states_is_read_once():
    assert EVEN.accepts("aa") and not EVEN.accepts("a")


@pytest.mark.parametrize(
    "run",
    [
        lambda n: PARITY.run([2, 1], layers=n),
        lambda n: RuleMachine(guarded_updates(PARITY)).run([2, 1], layers=n),
        lambda n: kl.compile(PARITY).run([2, 1], layers=n),
        lambda n: kl.compile(PARITY)(torch.tensor([[2, 1]]), layers=n),
        lambda n: kl.compile(PARITY, shape="encoder", layers=n),
        lambda n: kl.learn(PARITY, [[2, 1]], steps=1).run([2, 1], layers=n),
    ],
)
def test_a_number_of_layers_is_never_negative(run):
    with pytest.raises(InputError, match="layers=-1; it must be a whole number of 0 or more"):
        run(-1)


def test_no_layers_are_no_layers():
    net = kl.compile(PARITY)
    assert PARITY.run([2, 1, 1], layers=0) == net.run([2, 1, 1], layers=0) == [0, 1, 1]
    assert net(torch.tensor([[2, 1, 1]]), layers=0).argmax(dim=-1).tolist() == [[0, 1, 1]]
    decoder = kl.library.parity_scratchpad(4)
    for machine in (decoder, kl.compile(decoder)):
        with pytest.raises(InputError, match="of 1 or more"):
            machine.run([1, 0, 2], layers=0)


def test_the_rule_machine_takes_no_inputs():
    assert RuleMachine(guarded_updates(PARITY)).run_batch([]) == []


def test_what_fails_is_false_and_nothing_checked_is_not_a_success():
    other = kl.compile(~EVEN)
    assert not kl.verify(EVEN, other) and not kl.certify(other, machine=EVEN)
    assert kl.verify(EVEN, kl.compile(EVEN)) and kl.certify(kl.compile(EVEN))
    assert not kl.verify(EVEN, kl.compile(EVEN), inputs=[]).holds
    broken = kl.compile(PARITY)
    with torch.no_grad():
        broken.block(0).out2.zero_()
    assert not kl.certify(broken)


def test_words_of_long_symbols_are_checked_too():
    dfa = kl.DFA(np.array([[1, 0], [0, 1]]), np.array([1]), ("ab", "c"))
    report = kl.verify(dfa, kl.compile(dfa), lengths=range(4))
    assert report.holds and report.checked == 15


def test_too_many_words_are_refused_before_memory_is_taken():
    with pytest.raises(InputError, match="all words of up to 40 symbols are more than"):
        kl.verify(kl.regex("(a|b)*"), kl.compile(kl.regex("(a|b)*")), lengths=range(41))


def test_verify_keeps_to_what_a_network_takes():
    program = kl.library.parity_sum(16)
    net = kl.compile(program, length=6)
    assert kl.verify(program, net, random=50).holds
    with pytest.raises(InputError, match="length 8 is more than the 6 that the network takes"):
        kl.verify(program, net, lengths=[8])


def test_a_focus_may_be_a_list_of_bools_or_numpy_numbers():
    assert masks_of([True, False, False], 3).tolist() == [True, False, False]
    assert masks_of(np.array([2]), 3).tolist() == [False, False, True]
    with pytest.raises(InputError, match="a mask of 2 positions for a sentence of 3"):
        masks_of([True, False], 3)


def test_extract_says_that_a_module_cannot_read_the_empty_word():
    class Classifier(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.lstm, self.out = torch.nn.Embedding(2, 3), torch.nn.LSTM(3, 4), torch.nn.Linear(4, 1)

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            return self.out(self.lstm(self.embedding(words.T))[0][-1])

    model = Classifier().train()
    with pytest.raises(InputError, match=r"cannot read the empty word .* start symbol"):
        kl.extract(model, "ab")
    assert model.training


@pytest.mark.parametrize("base", [2, 129, 200, 2.5])
def test_stacks_have_a_base_that_fits_a_byte(base):
    machine = kl.library.turing_machines.POWERS_OF_TWO
    with pytest.raises(InputError, match="from 3 to 128"):
        kl.compile(machine, base=base)
    with pytest.raises(InputError, match="from 3 to 128"):
        kl.compile(kl.OracleLanguage("ab", lambda word: True), base=base)


def test_a_large_base_runs():
    machine = kl.library.turing_machines.POWERS_OF_TWO
    net = kl.compile(machine, base=128)
    for n in range(5):
        assert net.decide("1" * n).answer == machine.run("1" * n).answer


def test_kernels_of_subleq_are_the_definition_at_the_edges():
    def run(code, dialect, given=b"", adds=False):
        found = []
        for evaluator in ("numba", "plain"):
            machine = Machine(code, dialect, evaluator=evaluator, input_adds=adds)
            machine.feed(given)
            try:
                found.append((machine.run(1).why, machine.memory[:4]))
            except kl.errors.KleeneError as error:
                found.append(str(error))
        assert found[0] == found[1]
        return found[0]

    most = 2**63 - 1
    assert run([-1, 3, -1, most], DIALECTS["esolang"], b"a", adds=True)[1][3] == most + ord("a")
    assert run([-1, 3, -1, 0], Dialect("narrow", low=-16, high=16, io=True), b"\xc8")[1][3] == 2


def test_a_run_goes_on_to_a_higher_target(tmp_path):
    def learn(until):
        torch.manual_seed(0)
        model = torch.nn.Linear(1, 1)
        data, order = torch.linspace(-1, 1, 64)[:, None], shuffled(0, 64, 16)
        return train(
            model, torch.optim.SGD(model.parameters(), lr=0.1), lambda m, x: ((m(x) - 3 * x) ** 2).mean(),
            lambda step: data[order(step)], steps=200, every=10, until=until, folder=tmp_path, progress=False,
        )  # fmt: skip

    first = learn(lambda metrics: metrics["loss"] < 1)
    second = learn(lambda metrics: metrics["loss"] < 0.01)
    assert first.reached and second.reached and first.step < second.step
    assert learn(None).step == 200
    (next(tmp_path.glob("checkpoint-*")) / "optimiser.safetensors").write_bytes(b"short")
    with pytest.raises(FileError, match="does not fit this model"):
        learn(None)


def test_a_task_with_other_arguments_begins_again(tmp_path):
    def work(rate, steps, folder, deadline):
        folder.mkdir(exist_ok=True)
        seen = len(list(folder.iterdir()))
        (folder / f"{time.monotonic_ns()}").touch()
        return {"seen": seen}

    def run(**arguments):
        return run_tasks(work, {"t": arguments}, tmp_path, plan=Plan(workers=1), progress=False)["t"]["seen"]

    assert run(rate=1, steps=5) == 0
    assert run(rate=1, steps=9) == 1  # more of the same
    assert run(rate=1, steps=3) == 0 and run(rate=2, steps=3) == 0


def test_parity_takes_the_tasks_of_one_part(tmp_path):
    from kleene.papers.alta_parity import parity

    result = parity("tiny", folder=tmp_path, progress=False, plan=Plan(only=("relative-seed-0",), workers=1))
    assert list(result.runs) == ["parity-trace: relative-seed-0"]
    with pytest.raises(InputError, match="no task is so called"):
        parity("tiny", folder=tmp_path / "none", progress=False, plan=Plan(only=("x*",)))
    assert not (tmp_path / "none").exists()


def test_the_size_report_is_the_networks_size():
    class Signed(kl.Program):
        tokens = 3
        on = kl.cat(2, default=1)
        sign = kl.num([-1, 0, 1], token=lambda t: t - 1)
        mean = kl.attend(on, on, sign)
        low = kl.cat(2)
        output = low
        layers = 1

        def step(z):
            z.low = 1 if z.mean < 0 else 0

    assert kl.explain_size(Signed).hidden == kl.compile(Signed).sizes.hidden


def test_a_number_of_too_many_digits_is_a_clear_error(tmp_path):
    path = tmp_path / "even.json"
    path.write_text('{"start": ' + "1" * 5000 + "}")
    with pytest.raises(FileError, match="not JSON"):
        kl.DFA.load(path)


def test_a_saved_network_cannot_ask_for_any_number_of_blocks(tmp_path):
    from kleene.networks.saving import _digest

    kl.compile(PARITY).save(tmp_path / "net")
    path = tmp_path / "net" / "kleene.json"
    content = json.loads(path.read_text())
    content["config"]["blocks"] = 10**9
    content["digest"] = _digest({key: value for key, value in content.items() if key != "digest"})
    path.write_text(json.dumps(content))
    with pytest.raises(FileError, match="1,000,000,000 blocks"):
        kl.load(tmp_path / "net")


def test_only_standard_transformers_are_saved(tmp_path):
    from kleene.networks.standard import StandardConfig, StandardTransformer

    class Other(StandardTransformer):
        pass

    config = StandardConfig(tokens=2, classes=2, width=4, hidden=4, heads=1, head_size=4, layers=1)
    with pytest.raises(NotSupported, match="a Other is not saved"):
        Other(config).save(tmp_path / "x")


def test_tables_of_instructions_check_their_numbers():
    with pytest.raises(InputError, match="no list of whole-number instructions"):
        kl.InstructionTable([[(2**70, 0, 0)]])
    with pytest.raises(InputError, match="2 sizes for the 3"):
        kl.InstructionTable([[(1, 1, 1)]], sizes=(4, 4))


def test_jflap_keeps_rejecting_states(tmp_path: Path):
    machine = kl.TuringMachine(
        {
            "odd": {"□": ("no", "□", 1), "1": ("even", "1", 1)},
            "even": {"□": ("yes", "□", 1), "1": ("odd", "1", 1)},
        },
        start="even", accept=frozenset({"yes"}), reject=frozenset({"no"}), blank="□", input_alphabet=("1",),
    )  # fmt: skip
    machine.save(tmp_path / "m.jff")
    again = kl.TuringMachine.load(tmp_path / "m.jff")
    for n in range(5):
        wanted, found = machine.run("1" * n), again.run("1" * n)
        assert (found.answer, found.steps, found.state) == (wanted.answer, wanted.steps, wanted.state)


def test_a_sum_may_have_thousands_of_digits():
    assert kl.library.addition.decode([0, *[9] * 5000, 0]) == "9" * 5000
