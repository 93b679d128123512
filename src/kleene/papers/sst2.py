"""SST-2 in GLUE's format, as BERT's tokens."""

from __future__ import annotations

from pathlib import Path

from kleene.errors import FileError
from kleene.files import read_text
from kleene.papers.wikitext import data_folder


def read_sst2(data: Path | None, part: str) -> tuple[list[str], list[int]]:
    """Texts and labels (1 is positive) of `train` or `dev`."""
    folder = data_folder(data, "sst2", f"{part}.tsv", "SST-2 of GLUE")
    texts, labels = [], []
    for number, line in enumerate(read_text(folder / f"{part}.tsv").splitlines(), 1):
        if number == 1 and line.startswith("sentence"):
            continue
        text, _, label = line.rpartition("\t")
        if label not in ("0", "1"):
            raise FileError(f"{folder / part}.tsv, line {number}: ends with {label[:20]!r}; a label is 0 or 1")
        texts.append(text.strip())
        labels.append(int(label))
    return texts, labels


def vocabulary_file(data: Path | None) -> Path:
    """BERT's vocab.txt."""
    return data_folder(data, "bert-base-uncased", "vocab.txt", "the vocabulary of bert-base-uncased") / "vocab.txt"
