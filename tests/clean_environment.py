"""A Python with torch, transformers and what they require, and nothing else: neither Kleene nor the rest here.

It is a folder of links to the installed packages, made once and kept in .cache/. The interpreter runs isolated and
without `site`, so that this folder is all it can import from besides the standard library.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

CACHE = Path(__file__).parent.parent / ".cache" / "clean-environment"


def required(*names: str) -> dict[str, Distribution]:
    """The distributions of these names and of everything they require."""
    found: dict[str, Distribution] = {}
    todo = list(names)
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:  # required on other platforms, or left out by who installed
            continue
        for text in found[name].requires or []:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                todo.append(requirement.name)
    return found


def clean_environment() -> Path:
    """The folder of links; made where it is missing or where versions have changed."""
    packages = required("torch", "transformers")
    versions = sorted(f"{name}=={package.version}" for name, package in packages.items())
    folder = CACHE / hashlib.sha256("\n".join(versions).encode()).hexdigest()[:16]
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for package in packages.values():
            for top in {path.parts[0] for path in package.files or [] if path.parts[0] not in ("..", "__pycache__")}:
                link, target = folder / top, Path(str(package.locate_file(top)))
                if target.exists() and not link.exists() and not top.endswith(".pth"):
                    link.symlink_to(target.resolve())
        (folder / "complete").write_text("\n".join(versions), encoding="utf-8")
    return folder


def run_clean(script: str, *arguments: str, timeout: float = 600) -> str:
    """Run a script there; what it printed."""
    start = f"import sys; sys.path.append({str(clean_environment())!r})\n"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", start + script, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
