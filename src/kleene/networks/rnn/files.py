"""Exact networks as folders: kleene.json describes the network, weights.json holds every number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kleene.errors import FileError, InputError
from kleene.files import read_json, write_json, written_atomically
from kleene.networks.rnn.exact import ExactRNN, Readout
from kleene.networks.rnn.matrix import Matrix, Vector, matrix_from_json, vector_from_json, vector_to_json

VERSION = 1
MAX_UNITS = 10_000_000


def save(rnn: ExactRNN, folder: Path) -> None:
    """Write the folder, atomically."""
    with written_atomically(folder) as made:
        made.mkdir()
        write_json(made / "kleene.json", {"kind": rnn.kind, "version": VERSION, "about": rnn.about})
        write_json(made / "weights.json", weights_to_json(rnn))


def weights_to_json(rnn: ExactRNN) -> dict[str, Any]:
    """Every number, exactly."""
    data: dict[str, Any] = {
        "alphabet": list(rnn.alphabet),
        "units": rnn.units,
        "outputs": rnn.out_W.rows,
        "activation": rnn.activation,
        "criterion": rnn.criterion,
        "largest": rnn.largest,
        "V": rnn.V.to_json(),
        "W": rnn.W.to_json(),
        "b": vector_to_json(rnn.b),
        "s": vector_to_json(rnn.s),
        "out_W": rnn.out_W.to_json(),
        "out_b": vector_to_json(rnn.out_b),
    }
    if rnn.readout is not None:
        r = rnn.readout
        data["readout"] = {
            "names": list(r.names),
            "R": r.R.to_json(),
            "c": vector_to_json(r.c),
            "A": r.A.to_json(),
        }
    return data


def load(folder: Path, cls: type[ExactRNN] = ExactRNN) -> Any:
    """Read the network that `save` wrote; check every shape and number."""
    description = read_json(folder / "kleene.json")
    if description.get("version") != VERSION:
        raise FileError(f"{folder}/kleene.json: version {description.get('version')!r}; this Kleene reads {VERSION}")
    about = description.get("about")
    if not isinstance(about, dict):
        raise FileError(f"{folder}/kleene.json, 'about': must be an object")
    where = f"{folder}/weights.json"
    data = read_json(folder / "weights.json")
    if not isinstance(data, dict):
        raise FileError(f"{where}: must be an object")
    units, outputs, alphabet = data.get("units"), data.get("outputs"), data.get("alphabet")
    if type(units) is not int or not 0 <= units <= MAX_UNITS or type(outputs) is not int or not 0 < outputs <= 1000:
        raise FileError(f"{where}: 'units' is {units!r} and 'outputs' {outputs!r}; they must be counts")
    if not isinstance(alphabet, list) or not all(isinstance(s, str) for s in alphabet):
        raise FileError(f"{where}, 'alphabet': must be a list of symbols")
    largest = data.get("largest")
    if largest is not None and type(largest) is not int:
        raise FileError(f"{where}, 'largest': {largest!r} must be an integer or null")

    def matrix(key: str, rows: int, columns: int) -> Matrix:
        return matrix_from_json(data.get(key), rows, columns, f"{where}, {key!r}")

    def values(key: str, size: int) -> Vector:
        return vector_from_json(data.get(key), size, f"{where}, {key!r}")

    readout = _readout(data, units, where)
    if readout is not None and (readout.A @ readout.R).entries != matrix("V", units, units).entries:
        raise FileError(f"{where}, 'readout': V = A·R does not hold; the numbers have changed")
    try:
        return cls(
            tuple(alphabet),
            matrix("V", units, units),
            matrix("W", units, len(alphabet)),
            values("b", units),
            values("s", units),
            matrix("out_W", outputs, units),
            values("out_b", outputs),
            data.get("activation", ""),
            data.get("criterion", ""),
            largest,
            readout,
            about,
        )
    except InputError as error:
        raise FileError(f"{where}: {error}") from None


def _readout(data: dict[str, Any], units: int, where: str) -> Readout | None:
    part = data.get("readout")
    if part is None:
        return None
    if (
        not isinstance(part, dict)
        or not isinstance(part.get("names"), list)
        or not all(isinstance(n, str) for n in part["names"])
    ):
        raise FileError(f"{where}, 'readout': must be an object with 'names', 'R', 'c' and 'A'")
    size = len(part["names"])
    return Readout(
        tuple(part["names"]),
        matrix_from_json(part.get("R"), size, units, f"{where}, 'readout' → 'R'"),
        vector_from_json(part.get("c"), size, f"{where}, 'readout' → 'c'"),
        matrix_from_json(part.get("A"), units, size, f"{where}, 'readout' → 'A'"),
    )
