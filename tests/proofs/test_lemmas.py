"""The lemmas in Coq: nothing is admitted, no axiom is ours, each file says what it states and where it is used."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kleene import checker

PROOFS = Path(__file__).parents[2] / "proofs"
FILES = sorted(PROOFS.glob("*.v"))
LEMMAS = [path for path in FILES if path.name != "Assumptions.v"]

# What Coq's real numbers rest on. Nothing else may appear.
AXIOMS = {
    "ClassicalDedekindReals.sig_forall_dec",
    "ClassicalDedekindReals.sig_not_dec",
    "Classical_Prop.classic",
    "FunctionalExtensionality.functional_extensionality_dep",
}


def without_comments(text: str) -> str:
    """Coq text without its comments, which nest."""
    kept, depth = [], 0
    for part in re.split(r"(\(\*|\*\))", text):
        if part == "(*":
            depth += 1
        elif part == "*)":
            depth -= 1
        elif not depth:
            kept.append(part)
    assert depth == 0
    return "".join(kept)


def assumed(text: str) -> dict[str, set[str]]:
    """Axioms by theorem, from the output of Assumptions.v."""
    found: dict[str, set[str]] = {}
    theorem, listing = "", False
    for line in text.splitlines():
        if line == "Axioms:" or line == "Closed under the global context":
            found[theorem], listing = set(), line == "Axioms:"
        elif (name := re.match(r"([\w.]+)( :|$)", line)) and listing and "." in name[1]:
            found[theorem].add(name[1])
        elif name:
            theorem, listing = name[1], False
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nothing_is_admitted(path: Path) -> None:
    code = without_comments(path.read_text())
    for word in ("Admitted", "admit", "Axiom", "Axioms", "Parameter", "Parameters", "Conjecture", "Abort"):
        assert not re.search(rf"\b{word}\b", code), f"{path.name} has {word}"
    for word in ("bypass_check", "Unset Guard Checking", "Unset Positivity Checking", "Unset Universe Checking"):
        assert word not in code


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_hypotheses_stand_in_sections(path: Path) -> None:
    depth = 0
    for line in without_comments(path.read_text()).splitlines():
        depth += bool(re.match(r"\s*Section\b", line)) - bool(re.match(r"\s*End\b", line))
        if re.match(r"\s*(Variables?|Hypothes[ie]s|Context)\b", line):
            assert depth, f"{path.name}: an axiom outside a section: {line.strip()}"


@pytest.mark.parametrize("path", [p for p in LEMMAS if p.read_text().startswith("(** * Lemma")], ids=lambda p: p.stem)
def test_files_open_with_their_statement(path: Path) -> None:
    opening = path.read_text().partition("*)")[0]
    assert "Informal statement." in opening and "Where it is used." in opening
    used = opening.partition("Where it is used.")[2].partition("\n\n")[0]
    own = set(re.findall(r"^\s*(?:Theorem|Lemma|Corollary|Definition|Fixpoint|Record) (\w+)", path.read_text(), re.M))
    cited = set(re.findall(r"\[(\w+)\]", used)) - own
    assert cited, "no place in the checker is named"
    for name in cited:
        assert hasattr(checker, name), f"{path.name} names '{name}', which the checker does not have"


def test_only_axioms_of_the_real_numbers() -> None:
    listed = assumed((PROOFS / "assumptions.txt").read_text())
    asked = re.findall(r"^Print Assumptions (?:\w+\.)*(\w+)\.$", (PROOFS / "Assumptions.v").read_text(), re.M)
    assert list(listed) == asked and len(asked) > 10
    assert set().union(*listed.values()) <= AXIOMS
    for path in LEMMAS:  # every file that proves has a theorem in the list
        theorems = re.findall(r"^\s*(?:Theorem|Corollary) (\w+)", path.read_text(), re.M)
        assert not theorems or set(theorems) & set(asked), f"no theorem of {path.name} is listed"


def test_an_axiom_of_ours_would_be_seen() -> None:
    text = (PROOFS / "assumptions.txt").read_text().replace("Axioms:\n", "Axioms:\nSums.wishful : 0 = 1\n", 1)
    assert "Sums.wishful" in set().union(*assumed(text).values())


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("coqc"), reason="coqc is not installed")
def test_coq_accepts_the_proofs() -> None:
    made = subprocess.run(["make", "-C", str(PROOFS)], capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
