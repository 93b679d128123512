"""A network says so where it would run in a number format for which nothing is proved."""

from __future__ import annotations

import pytest
import torch

import kleene as kl
from kleene.networks import formats
from kleene.networks.formats import not_in_tf32

PARITY = kl.library.parity_relative


def test_half_is_refused_in_every_way_to_run():
    net = kl.compile(PARITY).half()
    for run in (
        lambda: net.run([2, 1]),
        lambda: net.run_batch([[2, 1]]),
        lambda: net(torch.tensor([[2, 1]]), layers=2),
        lambda: net.run([2, 1], check=True),
    ):
        with pytest.raises(kl.NotExact, match=r"made for float32 and has no certificate in float16; kl\.certify"):
            run()
    assert kl.certify(net).dtype == "float16"
    wide = kl.compile(kl.library.addition).half()
    assert not kl.certify(wide).holds
    with pytest.raises(kl.NotExact, match="no certificate in float16"):
        wide.run(kl.library.addition.encode("12+34"))


def test_autocast_needs_a_certificate_in_its_format():
    net = kl.compile(PARITY)
    with torch.autocast("cpu", torch.bfloat16):
        with pytest.raises(kl.NotExact, match=r"no certificate in bfloat16; kl.certify\(net, dtype='bfloat16'\)"):
            net.run([2, 1, 1])
        assert kl.certify(net, dtype="bfloat16").holds
        assert net.run([2, 1, 1]) == PARITY.run([2, 1, 1])
        with torch.no_grad():
            net.unembedding[0, 0] += 0  # a weight was written: nothing is known any more
        with pytest.raises(kl.NotExact):
            net.run([2, 1, 1])
    with torch.autocast("cpu", torch.float16), pytest.raises(kl.NotExact, match="float16"):
        net.run([2, 1, 1])
    wide = kl.compile(kl.library.addition)
    assert not kl.certify(wide, dtype="float16").holds
    assert net.run([2, 1, 1]) == [0, 1, 0]


def test_a_conversion_needs_a_certificate_and_a_wider_format_none():
    net = kl.compile(PARITY).bfloat16()
    with pytest.raises(kl.NotExact, match="bfloat16"):
        net.run([2, 1])
    assert kl.certify(net).holds and net.run([2, 1]) == [0, 1]
    assert kl.compile(PARITY).double().run([2, 1]) == [0, 1]
    assert kl.compile(PARITY, dtype="bfloat16").run([2, 1]) == [0, 1]
    assert kl.compile(PARITY, dtype="bfloat16").float().run([2, 1]) == [0, 1]
    narrow = kl.compile(kl.library.parity_sum(400))
    assert not kl.certify(narrow, dtype="bfloat16").holds
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(kl.NotExact):
        narrow.run([1, 0, 1])


def test_a_saved_network_keeps_the_format_that_it_was_made_for(tmp_path):
    kl.compile(PARITY).bfloat16().save(tmp_path / "narrow")
    net = kl.load(tmp_path / "narrow")
    with pytest.raises(kl.NotExact, match="made for float32 and has no certificate in bfloat16"):
        net.run([2, 1])
    assert kl.certify(net).holds and net.run([2, 1]) == [0, 1]
    kl.compile(PARITY, dtype="bfloat16").save(tmp_path / "made")
    assert kl.load(tmp_path / "made").run([2, 1]) == [0, 1]
    kl.compile(kl.library.parity_sum(400)).bfloat16().save(tmp_path / "wide")
    assert not kl.certify(kl.load(tmp_path / "wide")).holds


def test_an_rnn_in_another_format_says_so():
    module = kl.compile(kl.regex("(0|10*1)*", alphabet="01")).torch()
    assert module.accepts("11") and module.double().accepts("11")
    with pytest.raises(kl.NotExact, match="made for float32 and would run in float16"):
        module.half().accepts("11")


def test_tf32_is_exact_where_every_factor_has_eleven_bits(monkeypatch):
    assert not_in_tf32(kl.compile(PARITY)) is None  # None: no reason against it
    assert not_in_tf32(kl.compile(kl.library.addition)) is None
    assert "averages" in str(not_in_tf32(kl.compile(kl.library.parity_sum(8))))
    net = kl.compile(PARITY)
    with torch.no_grad():
        net.blocks[0].bias2[0] = 4097
    assert "bias2 has an entry that needs more" in str(not_in_tf32(net))
    monkeypatch.setattr(formats, "running_format", lambda parameter: "tf32")
    with pytest.raises(kl.NotExact, match="TF32 products keep 11 bits"):
        net.run([2, 1])
    assert kl.compile(PARITY).run([2, 1]) == [0, 1]
