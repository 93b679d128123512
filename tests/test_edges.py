"""Corners that several rooms share: numbers of layers, empty checks, words of long symbols, files that are edited."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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


@pytest.mark.parametrize("program", [kl.library.histogram(), kl.library.most_frequent()])
def test_the_rule_machine_runs_sets_on_short_inputs(program):
    """A set as a query, and a key with many more values than there are positions."""
    machine = RuleMachine(guarded_updates(program))
    for tokens in ([1], [1, 2, 1], [0, 0]):
        assert machine.run(tokens) == program.run(tokens)


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


def test_learned_networks_are_verified_in_their_outputs():
    net = kl.learn(PARITY, [[2, 1, 1, 0], [2, 0, 0, 1], [2, 1, 0, 1]], steps=1_000)
    report = kl.verify(PARITY, net, inputs=[[2, 0, 1, 1, 1], [2, 1], [0]])
    assert report.holds and report.checked == 2  # on [0] the program raises
    assert "agree in outputs\n" in f"{report}\n"
    standard = kl.learn(PARITY, [[2, 1]], steps=1, supervision="end-to-end", max_length=4)
    assert kl.verify(PARITY, standard, lengths=[2]).checked == 3
    assert kl.verify(PARITY, standard, random=5, lengths=[9]).checked == 5  # relative positions: any length
    with pytest.raises(NotSupported, match="a learned network runs dense"):
        kl.verify(PARITY, net, lengths=[2], layers=3)


def test_an_encoder_is_verified_at_all_its_layers():
    assert kl.verify(PARITY, kl.compile(PARITY, shape="encoder", layers=9), lengths=range(1, 5)).holds


@pytest.mark.parametrize(
    "machine, network",
    [(PARITY, EVEN), (EVEN, PARITY), (kl.library.turing_machines.POWERS_OF_TWO, EVEN)],
)
def test_what_does_not_fit_is_said(machine, network):
    with pytest.raises(NotSupported, match="verify: cannot compare"):
        kl.verify(machine, kl.compile(network), lengths=[2])


def test_a_decider_of_another_machine_is_not_certified():
    machine = kl.library.turing_machines.POWERS_OF_TWO
    rows = {q: dict(row) for q, row in machine.transitions.items()}
    rows["q3"][" "] = ("q5", " ", 1)  # accepts three ones, which few words show
    other = kl.TuringMachine(
        rows, start="q0", accept=machine.accept, reject=machine.reject, blank=" ", input_alphabet=("1",),
        two_way=False, name="other",
    )  # fmt: skip
    found = kl.certify(kl.compile(other), machine=machine, inputs=["", "1", "11"])
    assert not found.holds and "weights are not those" in str(found)
    with pytest.raises(InputError, match="no words to run"):
        kl.certify(kl.compile(machine), inputs=[])


def test_random_words_of_some_lengths():
    report = kl.verify(EVEN, kl.compile(EVEN), lengths=[40], random=7)
    assert report.holds and report.checked == 7
    with pytest.raises(InputError, match="neither can be negative"):
        kl.verify(EVEN, kl.compile(EVEN), random=-1)


def test_what_is_not_a_number_is_not_independent():
    lstm, decoder = torch.nn.LSTM(2, 3, batch_first=True), torch.nn.Linear(3, 4)
    with torch.no_grad():
        lstm.weight_hh_l0[0, 0] = torch.nan
    found = kl.interdependence(lstm, decoder, [torch.randn(4, 2)])
    assert torch.isnan(found[0]).any()


def test_tokens_may_be_a_tensor():
    assert kl.compile(PARITY).run(torch.tensor([2, 1, 1])) == [0, 1, 0]
    with pytest.raises(InputError, match="outside 0 … 2"):
        kl.compile(PARITY).run([2.0, 1])


def cli(*arguments: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-m", "kleene", *arguments], env=environment, capture_output=True, timeout=100, **options
    )


def test_the_command_line_at_its_edges(tmp_path):
    assert cli("--version").stdout.startswith(b"kleene ")
    assert json.loads(cli("regex", "a*", "--dot", "--json").stdout)["dot"].startswith("digraph")
    made = cli("regex", "a*", "-o", str(tmp_path / "net"))
    assert made.returncode == 0, made.stderr
    found = cli("certify", str(tmp_path / "net"), "--dtype", "bfloat16")
    assert found.returncode == 2 and b"only for transformers" in found.stderr
    assert cli("decompile", str(tmp_path / "net"), "-o", str(tmp_path / "a.jff")).returncode == 0
    assert kl.DFA.load(tmp_path / "a.jff").accepts("aa")
    (tmp_path / "turing.json").write_text(
        json.dumps(
            {
                "kind": "dfa", "version": 1, "alphabet": ["a"], "start": "turing", "accepting": [],
                "transitions": {"turing": {"a": ["turing"]}},
            }
        )
    )  # fmt: skip
    found = cli("export", str(tmp_path / "turing.json"), "--to", "graphviz")
    assert found.returncode == 2 and b"unknown state" in found.stderr


def test_a_transformers_updates_are_saved_as_json_alone(tmp_path):
    found = cli("decompile", "parity_relative", "-o", str(tmp_path / "largest.py"))
    assert found.returncode == 2 and b"ends in .json" in found.stderr and not (tmp_path / "largest.py").exists()


def test_input_that_is_not_text_reaches_the_program(tmp_path):
    echo = tmp_path / "echo.dec"
    echo.write_text("-1 9 3 9 -1 6 10 10 -1 0 0")  # one sign, and no more
    found = cli("subleq", str(echo), "--on", "reference", input=b"\xff\n")
    assert found.returncode == 0 and found.stdout.startswith(b"\xff"), found.stderr
