"""Treebanks, statistics and the syntax probe: on examples whose answers are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kleene.errors import FileError
from kleene.evidence.statistics import (
    Pairs,
    pair_table,
    permutation_test,
    regression,
    spearman,
    stratified_means,
)
from kleene.evidence.syntax_probe import attachment, chain, less_proximity, maximum_spanning_tree
from kleene.evidence.treebank import Sentence, read_treebank, tree_distances

CHIMNEY = """# text = The chimney sweep has sick lungs
1\tThe\tthe\tDET\tDT\t_\t3\tdet\t_\t_
2\tchimney\tchimney\tNOUN\tNN\t_\t3\tnmod\t_\t_
3\tsweep\tsweep\tNOUN\tNN\t_\t4\tnsubj\t_\t_
4\thas\thave\tVERB\tVBZ\t_\t0\troot\t_\t_
5-6\tsicklungs\t_\t_\t_\t_\t_\t_\t_\t_
5\tsick\tsick\tADJ\tJJ\t_\t6\tamod\t_\t_
6\tlungs\tlung\tNOUN\tNNS\t_\t4\tobj\t_\t_
6.1\tare\tbe\tAUX\t_\t_\t_\t_\t_\t_

"""


def test_figure_7(tmp_path: Path) -> None:
    path = tmp_path / "figure7.conllu"
    path.write_text(CHIMNEY, encoding="utf-8")
    (sentence,) = read_treebank(path)
    assert sentence.words == ("The", "chimney", "sweep", "has", "sick", "lungs")
    words = {word: place for place, word in enumerate(sentence.words)}
    distance = sentence.distances()
    assert [distance[words["chimney"], words[w]] for w in ("sweep", "has", "sick")] == [1, 2, 4]
    assert sentence.edges() == {(0, 2), (1, 2), (2, 3), (4, 5), (3, 5)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no sentences"),
        ("1\ta\n", "not CoNLL-U"),
        (CHIMNEY.replace("\t4\tnsubj", "\t9\tnsubj"), "without a head"),
        (CHIMNEY.replace("\t0\troot", "\t6\troot"), "not one tree"),
    ],
)
def test_bad_treebanks_are_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.conllu"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FileError, match=message) as error:
        read_treebank(path)
    assert "\n" not in str(error.value)


def random_sentence(random: np.random.Generator, size: int) -> Sentence:
    heads = [-1, *[int(random.integers(word)) for word in range(1, size)]]
    tags = tuple(random.choice(["NOUN", "DET", "PUNCT"], size=size, p=[0.5, 0.4, 0.1]))
    return Sentence(tuple("x" * size), tags, tuple(heads))


def test_tree_distances_by_walking() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        sentence = random_sentence(random, 9)
        steps = np.full((9, 9), 99)
        np.fill_diagonal(steps, 0)
        for a, b in sentence.edges():
            steps[a, b] = steps[b, a] = 1
        for k in range(9):  # Floyd–Warshall
            steps = np.minimum(steps, steps[:, [k]] + steps[[k]])
        assert np.array_equal(steps, tree_distances(sentence.heads))


def corpus(effect: float, seed: int = 0, count: int = 150) -> tuple[list[Sentence], Pairs]:
    """Interdependence that falls with distance in sequence, and by `effect` with each edge."""
    random = np.random.default_rng(seed)
    sentences = [random_sentence(random, int(random.integers(5, 9))) for _ in range(count)]
    matrices = []
    for sentence in sentences:
        apart = np.abs(np.subtract.outer(np.arange(len(sentence)), np.arange(len(sentence))))
        noise = random.normal(size=apart.shape)
        matrices.append(1 / (1 + apart) + effect * sentence.distances() + 0.1 * (noise + noise.T))
    table = pair_table(sentences, matrices)
    return sentences, table.where(table.kind >= 0)


def test_regression_finds_the_effect_and_its_absence() -> None:
    for effect in (-0.05, 0.0):
        sentences, table = corpus(effect)
        found = regression(table, samples=200)
        assert found.low <= effect <= found.high and found.high - found.low < 0.05
        observed, p = permutation_test(sentences, table, permutations=60)
        assert abs(observed - found.slope) < 1e-12
        assert p < 0.05 if effect else p > 0.05


def test_regression_is_least_squares_with_dummies() -> None:
    _, table = corpus(-0.05, count=20)
    strata = table.apart * 10 + table.kind
    design = np.column_stack([table.tree, *[strata == s for s in np.unique(strata)]]).astype(float)
    assert abs(np.linalg.lstsq(design, table.value, rcond=None)[0][0] - regression(table, samples=5).slope) < 1e-10


def test_means_leave_out_what_is_rare_and_cover_the_truth() -> None:
    _, table = corpus(0.0, count=200)
    for mean in stratified_means(table, ["apart"], least=100):
        assert mean.count >= 100 and mean.low < mean.mean < mean.high
        assert abs(mean.mean - 1 / (1 + mean.key[0])) < 0.03
        assert mean.count == (table.apart == mean.key[0]).sum()


def test_shuffled_sentences_keep_their_trees() -> None:
    sentence = Sentence(("a", "b", "c"), ("NOUN", "DET", "NOUN"), (-1, 0, 0))
    order = np.array([2, 0, 1])  # a was read third, b first, c second
    matrix = np.array([[0, 1, 2], [1, 0, 3], [2, 3, 0]])
    table = pair_table([sentence], [matrix], [order])
    assert table.value.tolist() == [2, 3, 1]  # (a, b), (a, c), (b, c) at the places where they were read
    assert table.apart.tolist() == [2, 1, 1] and table.tree.tolist() == [1, 1, 2] and table.kind.tolist() == [1, 0, 1]


def test_spanning_tree_is_the_heaviest() -> None:
    import itertools

    random = np.random.default_rng(1)
    for _ in range(10):
        weights = random.random((5, 5))
        weights = weights + weights.T
        best = 0.0
        for edges in itertools.combinations(itertools.combinations(range(5), 2), 4):
            seen = {0}
            for _ in range(4):
                seen |= {x for edge in edges if seen & set(edge) for x in edge}
            if len(seen) == 5:
                best = max(best, sum(weights[e] for e in edges))
        assert abs(sum(weights[e] for e in maximum_spanning_tree(weights)) - best) < 1e-12


def test_attachment() -> None:
    sentences = [random_sentence(np.random.default_rng(s), 7) for s in range(30)]
    assert attachment(sentences, lambda n: sentences[n].edges()) == 1.0
    assert attachment(sentences, lambda n: maximum_spanning_tree(1.0 / (1 + sentences[n].distances()))) == 1.0
    near = [1.0 / (1 + np.abs(np.subtract.outer(np.arange(7), np.arange(7)))) for _ in sentences]
    score = attachment(sentences, lambda n: chain(7))
    assert attachment(sentences, lambda n: maximum_spanning_tree(near[n])) == score < 1
    assert all(np.allclose(matrix[~np.eye(7, dtype=bool)], 1) for matrix in less_proximity(sentences, near))


def test_spearman_with_ties() -> None:
    assert abs(spearman(np.array([1, 2, 2, 3]), np.array([1, 3, 3, 9])) - 1) < 1e-12
    assert abs(spearman(np.arange(5), -(np.arange(5) ** 3)) + 1) < 1e-12
