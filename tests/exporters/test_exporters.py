"""Every export is read back by the other side and compared with the network on inputs."""

from __future__ import annotations

import contextlib
import json
import random

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from safetensors.torch import load_file

import kleene as kl
from kleene.checks.agreement import choose_inputs
from kleene.cli.names import find_program, library_programs
from rich_programs import Numbered

START = 2


class Shift(kl.Program):
    """Everything moves right; at the left end the null key's value comes in, into the variable itself."""

    tokens = 3
    x = kl.cat(3, token=lambda t: t)
    left = kl.relative(x, -1, default=2, into=x)
    output = x
    layers = 3

    def step(z):
        z.x = (z.x + 1) % 3


PROGRAMS = {
    "parity": kl.library.parity_relative,  # relative heads, no keys, any length
    "addition": kl.library.addition,
    "histogram": kl.library.histogram(5, 3),  # averages
    "sort": kl.library.sort(5, 4),
    "shift": Shift,  # a null value that stays
    "computer": kl.library.computer(4),  # three blocks that take turns, bits
}
DECODERS = (
    "addition_scratchpad",
    "parity_scratchpad",
    *(name for name in library_programs() if name.endswith("_decoder")),
)
LENGTHS = {"parity": 7, "addition": 9, "histogram": 5, "sort": 5, "shift": 5, "computer": 12}


@pytest.fixture(scope="module")
def nets():
    return {name: kl.compile(program) for name, program in PROGRAMS.items()}


def inputs(name, count=12, seed=0):
    """Random inputs on which the program halts."""
    chance, program, longest = random.Random(seed), PROGRAMS[name], LENGTHS[name]
    if name == "computer":
        return [program.sample(chance, chance.choice([8, 10, 12])) for _ in range(count)]
    if name == "addition":
        return [program.encode(f"{chance.randrange(100)}+{chance.randrange(1000)}") for _ in range(count)]
    if name == "parity":
        return [[START, *(chance.randrange(2) for _ in range(chance.randrange(longest)))] for _ in range(count)]
    size = program.spec.tokens
    return [[chance.randrange(size) for _ in range(chance.randint(1, longest))] for _ in range(count)]


def padded(rows):
    longest = max(map(len, rows))
    tokens = np.array([[*row, *[0] * (longest - len(row))] for row in rows])
    return tokens, np.arange(longest) < np.array([[len(row)] for row in rows])


def stream(net, tokens, layers):
    """The residual stream after this many layers, by the network's own blocks."""
    x, mask = net.embed(torch.tensor([tokens])), torch.ones(1, len(tokens), dtype=torch.bool)
    for layer in range(layers):
        x = net.block(layer)(x, mask)
    return x[0]


# --- TransformerLens ----------------------------------------------------------------------------------------------


def lens_has(name):
    """Whether TransformerLens has a class; HookedTransformer is in 2 and 3 alone."""
    import transformer_lens

    try:
        return hasattr(transformer_lens, name)
    except ImportError:
        return False


BRIDGE = [pytest.param(False, marks=pytest.mark.skipif(not lens_has("HookedTransformer"), reason="4.x")), True]


def hooked(folder):
    """What someone with TransformerLens alone does with the folder."""
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    config = json.loads((folder / "config.json").read_text())
    model = HookedTransformer(HookedTransformerConfig(**{**config, "dtype": getattr(torch, config["dtype"])}))
    weights = load_file(folder / "model.safetensors")
    assert set(weights) == {name for name, _ in model.named_parameters()}
    model.load_state_dict(weights, strict=False)
    return model, json.loads((folder / "names.json").read_text())


@pytest.mark.parametrize("bridge", BRIDGE, ids=lambda bridge: "bridge" if bridge else "hooked")
@pytest.mark.parametrize("name", PROGRAMS)
def test_transformer_lens(name, bridge, nets, tmp_path):
    net, layers = nets[name], {"parity": 7, "addition": 6, "computer": 9}.get(name)
    if bridge:
        model = kl.export(net, "transformer-lens", layers=layers, length=LENGTHS[name], bridge=True)
        names = model.kleene
    else:
        kl.export(net, "transformer-lens", tmp_path / "lens", layers=layers, length=LENGTHS[name])
        model, names = hooked(tmp_path / "lens")
    layers = names["layers"]
    assert model.cfg.normalization_type is None and model.cfg.n_layers in (layers, 2 * layers)
    assert names["residual"][: net.config.dim] == list(net.layout.names) and len(names["residual"]) == model.cfg.d_model
    for tokens in inputs(name):
        with torch.no_grad():
            logits, cache = model.run_with_cache(torch.tensor([[names["sink_token"], *tokens]]))
        expected = stream(net, tokens, layers)
        found = cache["resid_post", model.cfg.n_layers - 1][0]
        assert torch.equal(found[1:, : net.config.dim], expected)  # every dimension, exactly
        assert torch.nonzero(found[0]).tolist() == [[net.config.dim]]  # the sink holds itself alone
        assert torch.equal(logits[0, 1:], net.logits(expected))
        assert net.read(expected[None])[0].tolist() == net.run(tokens, layers=layers)


@pytest.mark.parametrize("bridge", BRIDGE, ids=lambda bridge: "bridge" if bridge else "hooked")
def test_transformer_lens_names(nets, bridge):
    """Heads and units are where their names say: switched off there, they do nothing here."""
    net = nets["parity"]
    model = kl.export(net, "transformer-lens", layers=5, length=5, bridge=bridge)
    names = model.kleene
    assert names["outputs"] == ["parity=0", "parity=1"] and names["blocks"][0]["heads"] == ["parity_left", "done_left"]
    tokens = torch.tensor([[names["sink_token"], START, 1, 1, 0, 1]])
    assert model(tokens)[0, 1:].argmax(-1).tolist() == [0, 1, 0, 0, 1]
    head = names["blocks"][0]["heads"].index("done_left")

    def off(z, hook):
        z[:, :, head] = 0
        return z

    hooks = [(f"blocks.{k}.attn.hook_z", off) for k in range(5)]
    left = model.run_with_hooks(tokens, fwd_hooks=hooks)
    assert left[0, 1:].argmax(-1).tolist() == [0, 1, 1, 0, 1]  # nobody is told that the left is done
    pattern = model.run_with_cache(tokens)[1]["pattern", 0][0]
    assert pattern[0, 2:].argmax(-1).tolist() == [1, 2, 3, 4] and pattern[0, 1, 0] == 1  # left, or the sink


def test_transformer_lens_decoder(tmp_path):
    """A decoder's model gives the next token; appended, it gives the whole answer."""
    program = kl.library.addition_scratchpad(2)
    net = kl.compile(program)
    model = kl.export(net, "transformer-lens")
    for a, b in ((12, 34), (99, 9), (5, 5)):
        tokens = program.encode(f"{a}+{b}")
        answer, made = net.run(tokens), []
        while len(made) < len(answer):
            row = torch.tensor([[model.kleene["sink_token"], *tokens, *made]])
            made.append(int(model(row)[0, -1].argmax()))
        assert made == answer


def test_transformer_lens_limits(nets, tmp_path):
    with pytest.raises(kl.InputError, match="give layers="):
        kl.export(nets["parity"], "transformer-lens", tmp_path / "x", length=5)
    with pytest.raises(kl.InputError, match="give length="):
        kl.export(nets["parity"], "transformer-lens", tmp_path / "x", layers=5)
    with pytest.raises(kl.InputError, match="length=6; it should be 1 … 5"):
        kl.export(nets["sort"], "transformer-lens", tmp_path / "x", length=6)
    with pytest.raises(kl.InputError, match="weights, more than"):
        kl.export(nets["addition"], "transformer-lens", tmp_path / "x", layers=50_000, length=100)
    assert not (tmp_path / "x").exists()


# --- Hugging Face -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_hugging_face(name, nets, tmp_path):
    from transformers import AutoConfig, AutoModel

    net = nets[name]
    kl.export(net, "hugging-face", tmp_path / "hf")
    assert {"config.json", "model.safetensors", "modeling_kleene.py"} <= {
        path.name for path in (tmp_path / "hf").iterdir()
    }
    assert AutoConfig.from_pretrained(tmp_path / "hf").model_type == "kleene"
    model = AutoModel.from_pretrained(tmp_path / "hf")
    assert not any(parameter.requires_grad for parameter in model.parameters())
    rows = inputs(name)
    tokens, mask = map(torch.tensor, padded(rows))
    made = model(input_ids=tokens, attention_mask=mask)
    for row, tokens_of in enumerate(rows):
        expected = net.run(tokens_of)
        found = model.network.read(made.last_hidden_state)[row, : len(tokens_of)].tolist()
        assert (found, int(made.layers[row])) == (expected, expected.layers)
        again = model.run(tokens_of)
        assert (again, again.layers) == (expected, expected.layers)
    assert bool(made.halted.all()) == net.config.halts
    assert kl.certify(model.network).holds  # nothing was lost, the description included


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_hugging_face_keeps_the_number_format(dtype, tmp_path):
    from transformers import AutoModel

    net = kl.compile(kl.library.parity_relative, dtype=dtype)
    model = kl.export(net, "hugging-face")
    model.save_pretrained(tmp_path / "hf")
    again = AutoModel.from_pretrained(tmp_path / "hf")
    assert str(again.dtype) == f"torch.{dtype}" == str(again.network.dtype)
    for name, tensor in net.state_dict().items():
        assert torch.equal(tensor, again.network.state_dict()[name])
    with pytest.raises(kl.DidNotHalt, match="within 2 layers"):
        again.run([START, 1, 1, 1, 1, 1], max_layers=2)


def test_hugging_face_decoder(tmp_path):
    from transformers import AutoModel

    program = kl.library.addition_scratchpad(2)
    kl.export(kl.compile(program), "hugging-face", tmp_path / "hf")
    again = AutoModel.from_pretrained(tmp_path / "hf")
    assert program.decode(again.run(program.encode("95+38"))) == "133"


def test_hugging_face_refuses_another_config(tmp_path):
    from kleene.networks.transformer.hugging_face import KleeneConfig, KleeneModel

    with pytest.raises(kl.FileError, match="are missing"):
        KleeneModel(KleeneConfig())
    shape = {**kl.export(kl.compile(Shift), "hugging-face").config.transformer, "dim": -3}
    with pytest.raises(kl.FileError, match="not a description of a transformer"):
        KleeneModel(KleeneConfig(shape, "{}"))
    with pytest.raises(kl.FileError, match="not a description of a transformer"):
        KleeneModel(KleeneConfig({**shape, "dim": 9}, "[1]"))


# --- ONNX ---------------------------------------------------------------------------------------------------------


def session(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("name", PROGRAMS)
def test_onnx_looped(name, nets, tmp_path):
    net, rows = nets[name], inputs(name)
    kl.export(net, "onnx", tmp_path / "net.onnx")
    model = onnx.load(tmp_path / "net.onnx")
    assert [node.op_type for node in model.graph.node].count("Loop") == 1
    assert json.loads({p.key: p.value for p in model.metadata_props}["residual"]) == list(net.layout.names)
    tokens, mask = padded(rows)
    outputs, logits, layers, halted = session(tmp_path / "net.onnx").run(None, {"tokens": tokens, "mask": mask})
    assert logits.shape == (*tokens.shape, net.config.classes) and halted.all() == net.config.halts
    for row, tokens_of in enumerate(rows):
        expected = net.run(tokens_of)
        assert (outputs[row, : len(tokens_of)].tolist(), layers[row]) == (expected, expected.layers)


@pytest.mark.parametrize("name", PROGRAMS)
def test_onnx_unrolled(name, nets, tmp_path):
    net, rows = nets[name], inputs(name)
    model = kl.export(net, "onnx", tmp_path / "net.onnx", layers=4)
    assert not any(node.op_type == "Loop" for node in model.graph.node)
    tokens, mask = padded(rows)
    outputs, logits, layers, _ = session(tmp_path / "net.onnx").run(None, {"tokens": tokens, "mask": mask})
    for row, tokens_of in enumerate(rows):
        assert outputs[row, : len(tokens_of)].tolist() == net.run(tokens_of, layers=4)
        expected = net.logits(stream(net, tokens_of, 4))
        assert np.array_equal(logits[row, : len(tokens_of)], expected.numpy())
    assert set(layers.tolist()) == {4}


@pytest.mark.parametrize("dtype, numbers", [("bfloat16", np.float32), ("float64", np.float64)])
def test_onnx_number_formats(dtype, numbers, tmp_path):
    net = kl.compile(kl.library.parity_relative, dtype=dtype)
    kl.export(net, "onnx", tmp_path / "net.onnx")
    tokens = np.array([[START, 1, 1, 0, 1]])
    found = session(tmp_path / "net.onnx").run(None, {"tokens": tokens, "mask": np.ones_like(tokens, dtype=bool)})
    assert found[0][0].tolist() == net.run(tokens[0]) and found[1].dtype == numbers


def test_onnx_gives_up_after_max_layers(nets, tmp_path):
    kl.export(nets["parity"], "onnx", tmp_path / "net.onnx", max_layers=3)
    tokens, mask = padded([[START, 1, 1, 1, 1, 1], [START, 1]])
    _, _, layers, halted = session(tmp_path / "net.onnx").run(None, {"tokens": tokens, "mask": mask})
    assert layers.tolist() == [3, 1] and halted.tolist() == [False, True]


def test_onnx_decoder_gives_the_next_token(tmp_path):
    program = kl.library.addition_scratchpad(2)
    net = kl.compile(program)
    kl.export(net, "onnx", tmp_path / "net.onnx")
    tokens, run = program.encode("95+38"), session(tmp_path / "net.onnx").run
    answer, made = net.run(tokens), []
    while len(made) < len(answer):
        row = np.array([[*tokens, *made]])
        made.append(int(run(None, {"tokens": row, "mask": np.ones_like(row, dtype=bool)})[0][0, -1]))
    assert made == answer


@pytest.mark.parametrize("method, activation", [("smallest", "relu"), ("scalar", "relu"), ("minsky", "slu")])
def test_onnx_rnn(method, activation, tmp_path):
    """Words of all lengths in one batch, the empty one included."""
    dfa = kl.regex("(0|10*1)*|1+", alphabet="01")
    rnn = kl.compile(dfa, method=method, activation=activation)
    kl.export(rnn, "onnx", tmp_path / "rnn.onnx")
    words = [format(number, f"0{length}b") for length in range(1, 8) for number in range(2**length)] + [""]
    codes, mask = padded([[int(letter) for letter in word] for word in words])
    accepts, output = session(tmp_path / "rnn.onnx").run(None, {"codes": codes, "lengths": mask.sum(axis=1)})
    assert accepts.tolist() == [dfa.accepts(word) for word in words]
    assert output[:, 0].tolist() == [rnn.output(rnn.run(word))[0] for word in words]
    properties = {p.key: p.value for p in onnx.load(tmp_path / "rnn.onnx").metadata_props}
    assert json.loads(properties["alphabet"]) == ["0", "1"]


# --- the whole library --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in library_programs() if n not in ("computer", *DECODERS)])
def test_every_program_of_the_library(name, tmp_path):
    """Those above are chosen for their corners; this is all that halts by itself or runs a fixed number of layers."""
    program = find_program(name)
    net = kl.compile(program)
    longest = min(net.config.positions or 10, 10)
    chosen = choose_inputs(program.spec, None, range(1, longest + 1), 12, 0, getattr(program, "sample", None))[0]
    answers = {}
    for tokens in chosen:
        with contextlib.suppress(kl.DidNotHalt):  # random tokens need not make sense
            answers[tuple(tokens)] = net.run(tokens, max_layers=300)
    assert answers
    layers, length = min(12, max(a.layers for a in answers.values())), max(map(len, answers))
    lens = kl.export(net, "transformer-lens", layers=layers, length=length)
    model = kl.export(net, "hugging-face")
    kl.export(net, "onnx", tmp_path / "net.onnx")
    run = session(tmp_path / "net.onnx").run
    for tokens, answer in answers.items():
        row = np.array([tokens])
        outputs, _, counted, _ = run(None, {"tokens": row, "mask": np.ones_like(row, dtype=bool)})
        assert (outputs[0].tolist(), counted[0]) == (answer, answer.layers)
        assert model.run(tokens) == answer
        _, cache = lens.run_with_cache(torch.tensor([[lens.kleene["sink_token"], *tokens]]))
        found = cache["resid_post", lens.cfg.n_layers - 1][0, 1:, : net.config.dim]
        assert torch.equal(found, stream(net, list(tokens), layers))


# --- all of them --------------------------------------------------------------------------------------------------


def test_what_cannot_be_exported_is_said(nets, tmp_path):
    rnn = kl.compile(kl.regex("a*", "ab"))
    for to in ("transformer-lens", "hugging-face", "circuit"):
        with pytest.raises(kl.NotSupported, match=f"{to}: cannot take an ExactRNN; it takes: .*Transformer"):
            kl.export(rnn, to, tmp_path / "out")
    with pytest.raises(kl.NotSupported, match="graphviz: cannot take a Transformer; it takes: AFA, DFA, ExactRNN"):
        kl.export(nets["parity"], "graphviz", tmp_path / "out")
    with pytest.raises(kl.NotSupported, match="onnx: there is no option layers= for an ExactRNN"):
        kl.export(rnn, "onnx", tmp_path / "out", layers=3)
    with pytest.raises(kl.NotExact, match="some weights are not integers"):  # tapes are fractions
        kl.export(kl.compile(kl.TuringMachine.parse("1RB1LB_1LA1RZ")), "onnx", tmp_path / "out")
    with pytest.raises(kl.NotSupported, match="unknown format 'keras'; choose one of transformer-lens"):
        kl.export(nets["parity"], "keras")
    assert not (tmp_path / "out").exists()


def test_a_missing_package_is_said(nets, monkeypatch, tmp_path):
    for package, to in (("transformer_lens", "transformer-lens"), ("onnx", "onnx")):
        monkeypatch.setitem(__import__("sys").modules, package, None)
        with pytest.raises(kl.NotSupported, match=f"{to}: .*pip install"):
            kl.export(nets["parity"], to, **({"layers": 3, "length": 3} if to != "onnx" else {}))
    kl.export(nets["parity"], "transformer-lens", tmp_path / "lens", layers=3, length=3)  # writing needs none


@pytest.mark.parametrize(
    "arguments, made",
    [
        (["parity_relative", "--to", "transformer-lens", "--layers", "4", "--length", "5"], "model.safetensors"),
        (["sort:length=4,values=3", "--to", "hugging-face"], "config.json"),
        (["sort:length=4,values=3", "--to", "onnx"], None),
        (["sort:length=4,values=3", "--to", "circuit"], None),
    ],
)
def test_the_command(arguments, made, tmp_path, capsys):
    from kleene.cli import main

    out = tmp_path / "out"
    with pytest.raises(SystemExit) as end:
        main(["export", *arguments, "-o", str(out)])
    assert end.value.code == 0 and (out.is_file() if made is None else (out / made).is_file())
    assert f"in {out}" in capsys.readouterr().out


def test_the_command_on_saved_networks_and_files(tmp_path, capsys):
    from kleene.cli import main

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main([str(a) for a in arguments])
        return end.value.code, capsys.readouterr().out

    kl.compile(kl.library.parity_relative).save(tmp_path / "net")
    kl.compile(kl.regex("a*b", "ab")).save(tmp_path / "rnn")
    kl.regex("a*b", "ab").save(tmp_path / "dfa.json")
    code, text = run("export", tmp_path / "net", "--to", "circuit")
    assert code == 0 and json.loads(text)["program"] == "parity_relative"
    dots = [run("export", tmp_path / name, "--to", "graphviz") for name in ("rnn", "dfa.json")]
    dots.append(run("regex", "a*b", "--dot"))
    assert [code for code, _ in dots] == [0, 0, 0] and len({text for _, text in dots}) == 1
    assert dots[0][1].startswith("digraph {")


def test_counted_positions_are_exported(tmp_path):
    """Other tools have position embeddings alone."""
    net = kl.compile(Numbered)
    kl.export(net, "onnx", tmp_path / "net.onnx")
    lens = kl.export(net, "transformer-lens", length=3, bridge=True)
    said = kl.export(net, "circuit")
    assert {"positions"} <= {node["id"] for node in said["nodes"]}
    for tokens in ([1], [2, 2], [3, 3, 3], [1, 6, 3], [5, 2, 3]):
        given = {"tokens": np.array([tokens]), "mask": np.ones((1, len(tokens)), dtype=bool)}
        outputs = session(tmp_path / "net.onnx").run(["outputs"], given)[0]
        assert outputs[0].tolist() == Numbered.run(tokens)
        with torch.no_grad():
            logits = lens(torch.tensor([[lens.kleene["sink_token"], *tokens]]))
        assert torch.equal(logits[0, 1:], net.logits(stream(net, tokens, 1)))
