"""The factory: networks whose mechanism is known, with the truth about them in a file.

Each model is a random automaton, minimal and of a requested size, or a random attention program. Levels, from
artificial to real:

- compiled: the automaton compiled to an LSTM or a GRU, the program to a transformer; certified;
- superposed (programs): rotated, in fewer dimensions than there are features, outputs the same within a bound;
- interchange (programs): a small transformer trained so that its circuit is the program's;
- softened: the same with all weights of the cell divided, so that gates are open to five digits only and gradients
  pass; its answers are compared with the automaton's on 2,000 random words;
- trained: an LSTM trained end to end on the language, or a small transformer on the program's outputs. Many train at
  once, in one batch.

`truth.json` holds the automaton, the units of each state, and words with their exact Shapley values and interactions;
for a program the heads and variables of each layer that are in its circuit, with their effects.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kleene.checks.certificates import certify_transformer
from kleene.checks.languages import certify_gated
from kleene.compilers.dfa_to_gated import compile_to_gru, compile_to_lstm, plan
from kleene.compilers.program_to_transformer import compile_program
from kleene.errors import FileError, InputError
from kleene.evidence.circuit_graph import CompiledParts
from kleene.files import read_json, write_json
from kleene.machines.automata.dfa import DFA
from kleene.networks.rnn.gated import GatedRNN
from kleene.networks.rnn.gated import load as load_gated
from kleene.networks.trained.stacked_transformer import load_stacked
from kleene.networks.transformer.files import load_transformer
from kleene.truth.directions import given_directions, write_directions
from kleene.truth.interchange import effects_of, pairs_of
from kleene.truth.program_models import (
    VERSION,
    drawn_program,
    exact_effects,
    locate,
    tasks_of,
    train_models,
    truth_about,
    write_lists,
)
from kleene.truth.program_tables import Tables
from kleene.truth.random_programs import Size, superposed

LEVELS = {
    "automaton": ("compiled", "softened", "trained"),
    "program": ("compiled", "superposed", "interchange", "trained"),
}
ORDER = "order.json"
CELLS = ("lstm", "gru")
BRIEFLY = ("index", "cell", "states", "certified", "agreement")
CHECKED = 7  # the longest inputs on which a superposed network is compared with the compiled one
PROBES = 2000  # inputs or words on which a network is compared with its machine
SOFT = 64.0  # the factor between saturated gates and soft ones: a gate's input is then about 12 or −12


@dataclass(frozen=True)
class Order:
    """What to make: how many models, at which level, of which sizes, with how many words each."""

    count: int
    level: str = "compiled"
    states: tuple[int, int] = (2, 10)
    symbols: tuple[int, int] = (2, 3)
    length: tuple[int, int] = (6, 10)
    words: int = 8
    seed: int = 0
    units: int = 16  # of trained models
    steps: int = 3000  # of training
    kind: str = "automaton"  # or "program"
    depth: int = 3  # layers of a program
    variables: int = 4
    heads: int = 3
    values: int = 3  # of a variable
    batch: int = 256  # pairs of inputs a step, where transformers train
    together: int = 32  # transformers in one stack

    @property
    def size(self) -> Size:
        """The size of its programs."""
        return Size(self.variables, self.heads, self.depth, self.values, self.values)

    @property
    def stacks(self) -> bool:
        """Whether the models are transformers that train in stacks."""
        return self.kind == "program" and self.level in ("interchange", "trained")

    def check(self) -> None:
        """Reject an order that cannot be made."""
        if self.kind not in LEVELS:
            raise InputError(f"kind {self.kind!r}: unknown; choose one of {', '.join(LEVELS)}")
        if self.level not in LEVELS[self.kind]:
            known = ", ".join(LEVELS[self.kind])
            raise InputError(f"level {self.level!r}: unknown for kind {self.kind!r}; choose one of {known}")
        for name, number, least, most in (
            ("depth", self.depth, 1, 20),
            ("variables", self.variables, 2, 12),
            ("heads", self.heads, 1, 12),
            ("values", self.values, 2, 10),
        ):
            if not least <= number <= most:
                raise InputError(f"{name} {number}: must be from {least} to {most}")
        if self.count < 1:
            raise InputError(f"count {self.count}: make at least one model")
        for name, (low, high), least, most in (
            ("states", self.states, 2, 200),
            ("symbols", self.symbols, 2, 26),
            ("length", self.length, 2, 100),
        ):
            if not least <= low <= high <= most:
                raise InputError(f"{name} {low}-{high}: must be from {least} to {most}, the smaller first")


def random_automaton(rng: np.random.Generator, states: int, symbols: int) -> DFA:
    """A random automaton that is minimal, has exactly this many states, and accepts some words and not others."""
    alphabet = "abcdefghijklmnopqrstuvwxyz"[:symbols]
    while True:
        table = rng.integers(states, size=(states, symbols))
        accepting = np.flatnonzero(rng.random(states) < 0.5)
        if 0 < len(accepting) < states:
            found = DFA(table, accepting, alphabet).minimise()
            if len(found) == states:
                return found


def random_words(rng: np.random.Generator, dfa: DFA, order: Order) -> list[str]:
    """Random words, as many accepted as rejected where the first thousand allow it."""
    lengths = rng.integers(order.length[0], order.length[1] + 1, size=1000)
    drawn = ["".join(dfa.alphabet[c] for c in rng.integers(len(dfa.alphabet), size=n)) for n in lengths]
    answers = dfa.accepts_batch(drawn)
    sides = [[w for w, yes in zip(drawn, answers) if yes == side] for side in (True, False)]
    half = [side[: order.words // 2] for side in sides]
    rest = [w for side, taken in zip(sides, half) for w in side[len(taken) :]]
    return [*half[0], *half[1], *rest][: order.words]


def truth_of(dfa: DFA, words: list[str]) -> list[dict[str, Any]]:
    """The exact effects of the symbols of each word."""
    return [{"word": word, "accepted": bool(dfa.accepts(word)), **exact_effects(dfa, word)} for word in words]


def circuit_of(dfa: DFA) -> dict[str, Any]:
    """Nodes and edges by name, as circuit benchmarks list them: hidden units with their state, and transitions."""
    units = plan(dfa)
    edges = [
        [f"hidden.{j}", f"hidden.{k}"]
        for k, unit in enumerate(units)
        for j, other in enumerate(units)
        if any(unit.state == dfa.table[other.state, a] for a in range(len(dfa.alphabet)))
    ]
    nodes = [{"name": f"hidden.{k}", "state": unit.state} for k, unit in enumerate(units)]
    return {"nodes": nodes, "edges": [["input", node["name"]] for node in nodes] + edges}


# --- compiled and softened --------------------------------------------------------------------------------


def _program(order: Order, index: int, folder: Path) -> dict[str, Any]:
    """Make one transformer of a random program, certify it, and save it with its truth."""
    program, rng = drawn_program(order.seed, index, order.size, order.length[0])
    inputs = rng.integers(program.spec.tokens, size=(order.words, order.length[0])).tolist()
    tables = Tables.of([program], order.length[0])
    net, error, basis = compile_program(program), 0.0, None
    certified = bool(certify_transformer(net).holds)
    directions = given_directions(net)
    if order.level == "superposed":
        net, error, basis = superposed(net, rng, min(order.length[0], CHECKED))
        directions = given_directions(net, basis)
    about = truth_about(order.level, order.seed, index, program, tables, effects_of(tables)[0], inputs)
    about |= {
        "cell": "transformer",
        "certified": certified and order.level == "compiled",
        "residual": net.config.dim,
        "error": error,
    }
    every = tables.every_input() if tables.tokens**tables.length <= PROBES else pairs_of(tables, PROBES)[0]
    about["agreement"] = float((net(every).argmax(-1) == tables.run(every[None])[1][0]).all(-1).float().mean())
    locate(about, CompiledParts(net), {})
    net.save(folder)
    write_directions(folder, directions)
    write_lists(folder, about)
    write_json(folder / "truth.json", about)
    return {key: about[key] for key in BRIEFLY}


def _compiled(order: Order, index: int, folder: Path) -> dict[str, Any]:
    """Make one compiled model, certify it, and save it with its truth."""
    if order.kind == "program":
        return _program(order, index, folder)
    rng = np.random.default_rng([order.seed, index])
    states = int(rng.integers(order.states[0], order.states[1] + 1))
    dfa = random_automaton(rng, states, int(rng.integers(order.symbols[0], order.symbols[1] + 1)))
    cell = CELLS[index % 2]
    make = compile_to_lstm if cell == "lstm" else compile_to_gru
    net, words = make(dfa, dtype="float64"), random_words(rng, dfa, order)
    certified = bool(certify_gated(net).holds)
    if order.level == "softened":
        with torch.no_grad():
            for parameter in net.recurrent.parameters():
                parameter.div_(SOFT)
    return _save(order, index, folder, net, dfa, words, cell, certified)


def _save(
    order: Order, index: int, folder: Path, net: GatedRNN, dfa: DFA, words: list[str], cell: str, certified: bool
) -> dict[str, Any]:
    rng = np.random.default_rng([order.seed, index, 1])
    probe = [
        "".join(dfa.alphabet[c] for c in rng.integers(len(dfa.alphabet), size=n))
        for n in rng.integers(0, order.length[1] + 1, size=PROBES)
    ]
    agreement = float((net.accepts_batch(probe) == dfa.accepts_batch(probe)).mean())
    about: dict[str, Any] = {
        "version": VERSION,
        "kind": "automaton",
        "level": order.level,
        "seed": order.seed,
        "index": index,
        "cell": cell,
        "states": len(dfa),
        "certified": certified and order.level == "compiled",
        "agreement": agreement,
        "machine": dfa.to_json(),
        "circuit": None if order.level == "trained" else circuit_of(dfa),
        "words": truth_of(dfa, words),
    }
    net.save(folder)
    write_json(folder / "truth.json", about)
    return {key: about[key] for key in BRIEFLY}


# --- trained ----------------------------------------------------------------------------------------------


def _stacked(tensors: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack(tensors).requires_grad_()


def _train(order: Order, machines: list[DFA], progress: Callable[[int], None]) -> list[GatedRNN]:
    """Train one LSTM for each automaton on every prefix of random words, all at once."""
    torch.manual_seed(order.seed)
    rng = np.random.default_rng([order.seed, 7])
    count, units, wide = len(machines), order.units, max(len(m.alphabet) for m in machines)
    bound = units**-0.5
    shapes = [(4 * units, wide + 1), (4 * units, units), (4 * units,)]
    w, v, b = (_stacked([torch.empty(s).uniform_(-bound, bound) for _ in machines]) for s in shapes)
    out, bias = (
        _stacked([torch.empty(units).uniform_(-bound, bound) for _ in machines]),
        _stacked([torch.zeros(()) for _ in machines]),
    )
    optimiser = torch.optim.Adam([w, v, b, out, bias], lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-2, total_steps=order.steps)
    tables = [torch.from_numpy(m.table.astype(np.int64)) for m in machines]
    accepting = [torch.from_numpy(m.accepting) for m in machines]
    length, batch = order.length[1] + 2, 64
    for step in range(order.steps):
        codes = torch.stack(
            [torch.from_numpy(rng.integers(len(m.alphabet), size=(batch, length))) for m in machines]
        )  # (model, word, time)
        labels = _labels(tables, accepting, machines, codes)
        read = torch.cat(
            [torch.tensor([len(m.alphabet) for m in machines])[:, None, None].expand(-1, batch, 1), codes], 2
        )
        h = c = torch.zeros(count, batch, units)
        logits = []
        columns = w.transpose(1, 2)  # (model, symbol, gates)
        for t in range(length + 1):
            x = columns.gather(1, read[:, :, t, None].expand(-1, -1, 4 * units))
            i, f, g, o = (x + torch.bmm(h, v.transpose(1, 2)) + b[:, None]).chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            logits.append((h * out[:, None]).sum(-1) + bias[:, None])
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            torch.stack(logits, -1), labels, reduction="none"
        ).mean((1, 2))
        optimiser.zero_grad()
        loss.sum().backward()
        torch.nn.utils.clip_grad_norm_([w, v, b, out, bias], float(count))
        optimiser.step()
        schedule.step()
        progress(step + 1)
    return [_as_network(m, units, *(p[k].detach() for p in (w, v, b, out, bias))) for k, m in enumerate(machines)]


def _labels(tables: Any, accepting: Any, machines: list[DFA], codes: torch.Tensor) -> torch.Tensor:
    """Whether each prefix is in the language: (model, word, time + 1)."""
    found = []
    for table, accept, machine, words in zip(tables, accepting, machines, codes):
        state = torch.full((len(words),), machine.start)
        answers = [accept[state]]
        for t in range(words.shape[1]):
            state = table[state, words[:, t]]
            answers.append(accept[state])
        found.append(torch.stack(answers, 1))
    return torch.stack(found).float()


def _as_network(machine: DFA, units: int, w: Any, v: Any, b: Any, out: Any, bias: Any) -> GatedRNN:
    net = GatedRNN(machine.alphabet, "lstm", units, "float64", {"machine": machine.to_json()})
    cell = dict(net.recurrent.named_parameters())
    with torch.no_grad():
        cell["weight_ih_l0"].copy_(w[:, : len(machine.alphabet) + 1])
        cell["weight_hh_l0"].copy_(v)
        cell["bias_ih_l0"].copy_(b)
        net.out.weight.copy_(out[None])
        net.out.bias.copy_(bias)
    return net


# --- the factory ------------------------------------------------------------------------------------------


Tasks = dict[str, dict[str, Any]]
Runner = Callable[[Callable[..., dict[str, Any]], Tasks, Path], dict[str, dict[str, Any]]]


def one_by_one(work: Callable[..., dict[str, Any]], tasks: Tasks, folder: Path) -> dict[str, dict[str, Any]]:
    """Run tasks in this process, each in a folder of its own."""
    return {name: work(**arguments, folder=folder / name) for name, arguments in tasks.items()}


def build(
    order: Order,
    folder: str | Path,
    *,
    workers: int = 1,
    progress: Callable[[int], None] = lambda done: None,
    runner: Runner = one_by_one,
) -> list[dict[str, Any]]:
    """Make the models of an order in a folder, one subfolder each. Return a summary of each.

    - `order`: what to make.
    - `folder`: where; new, empty, or with a part of the same order: then the rest is made. A model that is there is
      complete: its truth file is written last.
    - `workers`: processes for compiled models.
    - `progress`: called with how many are done; for trained models with the step.
    - `runner`: runs the tasks where transformers train in stacks.
    """
    order.check()
    target = Path(folder)
    if order.stacks:
        return _build_stacks(order, target, runner)
    begin(order, target)
    return _build(order, target, workers, progress)


def begin(order: Order, target: Path) -> None:
    """Note an order in a folder that is new or empty, or holds the same order."""
    asked = {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(order).items()}
    asked = {name: value for name, value in asked.items() if name not in ("batch", "together")}
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        if not (target / ORDER).is_file():
            raise FileError(f"{target}: not a new or empty folder, nor one that this command began")
        known = read_json(target / ORDER)
        same = known if isinstance(known, dict) else {}
        other = [name for name in asked if name != "count" and same.get(name) != asked[name]]
        if other:
            raise FileError(f"{target}: holds models of another order ({', '.join(other)}); give another folder")
    target.mkdir(parents=True, exist_ok=True)
    write_json(target / ORDER, asked)


def _build(order: Order, target: Path, workers: int, progress: Callable[[int], None]) -> list[dict[str, Any]]:
    places = [target / f"{index:05d}" for index in range(order.count)]
    there = [(place / "truth.json").is_file() for place in places]
    if order.level == "trained":
        return [_brief(place) for place in places] if all(there) else _build_trained(order, places, progress)
    missing = [index for index, known in enumerate(there) if not known]
    jobs = [order] * len(missing), missing, [places[index] for index in missing]
    if workers > 1:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=one_thread) as pool:
            for done, _ in enumerate(pool.map(_compiled, *jobs, chunksize=16), 1):
                progress(order.count - len(missing) + done)
    else:
        for done, job in enumerate(zip(*jobs), 1):
            _compiled(*job)
            progress(order.count - len(missing) + done)
    return [_brief(place) for place in places]


def _brief(place: Path) -> dict[str, Any]:
    """Return what a model is, from its truth file."""
    truth = read_json(place / "truth.json")
    return {key: truth[key] for key in BRIEFLY}


def _build_stacks(order: Order, target: Path, runner: Runner) -> list[dict[str, Any]]:
    """Train stacks, one task each, and put the models of those that are done in place."""
    others = [path for path in target.iterdir() if path.name != "training"] if target.is_dir() else []
    if (target.exists() and not target.is_dir()) or (others and not (target / "training").is_dir()):
        raise FileError(f"{target}: not a new or empty folder, nor one that this command began")
    asked = {name: getattr(order, name) for name in ("level", "seed", "steps", "batch", "words")}
    tasks = tasks_of({**asked, "size": asdict(order.size), "length": order.length[0]}, order.count, order.together)
    done, made = runner(train_models, tasks, target / "training"), []
    for name, result in done.items():
        for place in sorted((target / "training" / name / "models").glob("*")):
            shutil.rmtree(target / place.name, ignore_errors=True)
            os.replace(place, target / place.name)
        made += [{**one, "agreement": one["accuracy"], "certified": False} for one in result["models"]]
    return made


def one_thread() -> None:
    """Limit a worker process to one thread."""
    torch.set_num_threads(1)


def _build_trained(order: Order, places: list[Path], progress: Callable[[int], None]) -> list[dict[str, Any]]:
    machines, words = [], []
    for index in range(order.count):
        rng = np.random.default_rng([order.seed, index])
        states = int(rng.integers(order.states[0], order.states[1] + 1))
        dfa = random_automaton(rng, states, int(rng.integers(order.symbols[0], order.symbols[1] + 1)))
        machines.append(dfa)
        words.append(random_words(rng, dfa, order))
    nets = _train(order, machines, progress)
    jobs = zip(range(order.count), places, nets, machines, words)
    return [_save(order, i, place, net, dfa, given, "lstm", False) for i, place, net, dfa, given in jobs]


@dataclass(frozen=True)
class Model:
    """A network of the factory, in float64, and the truth about it."""

    name: str
    network: Any  # GatedRNN or Transformer
    truth: dict[str, Any]


def folders_in(root: Path) -> dict[Path, list[Path]]:
    """The folders of models below a folder, by the folder that they lie in, both in order."""
    if not root.is_dir():
        raise FileError(f"{root}: no such folder; kleene factory makes one")
    found: dict[Path, list[Path]] = {}
    for file in sorted(root.rglob("truth.json")):
        found.setdefault(file.parent.parent, []).append(file.parent)
    if not found:
        raise FileError(f"{root}: holds no models (no truth.json); kleene factory makes some")
    return found


def models_in(folder: str | Path) -> Iterator[Model]:
    """The models of a folder, in order."""
    root = Path(folder)
    for file in [place / "truth.json" for group in folders_in(root).values() for place in group]:
        truth = read_json(file)
        if not isinstance(truth, dict) or truth.get("version") != VERSION or truth.get("kind") not in LEVELS:
            raise FileError(f"{file}: not a truth file of version {VERSION}")
        load: Any = load_gated if truth["kind"] == "automaton" else load_transformer
        load = load_stacked if truth["cell"] == "small transformer" else load
        net: Any = load(file.parent).eval().double()
        for parameter in net.parameters():
            parameter.requires_grad_(False)
        yield Model(str(file.parent.relative_to(root)), net, truth)


def describe(made: list[dict[str, Any]]) -> str:
    """The number of models, and how many are certified or agree."""
    if not made:
        return "no stack of models is done yet; run the same command again to continue"
    certified = sum(one["certified"] for one in made)
    agreement = min(one["agreement"] for one in made)
    said = f"{len(made)} models, {certified} certified; the least agreement on random words is {agreement:.4f}"
    if "interchange" not in made[0]:
        return said
    good = [one for one in made if (one["interchange"] or 0) >= 0.99 and (one["off_circuit"] or 0) <= 0.01]
    means = [np.mean([one[name] or 0.0 for one in made]) for name in ("interchange", "off_circuit")]
    return (
        f"{len(made)} models; the least agreement with the program is {agreement:.4f}; mean interchange accuracy "
        f"{means[0]:.4f}, mean effect off the circuit {means[1]:.4f}; {len(good)} models reach 0.99 and 0.01"
    )
