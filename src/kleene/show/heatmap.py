"""A heat map of the interdependence of words, in the terminal and as PNG."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kleene.files import written_atomically

if TYPE_CHECKING:
    from kleene.evidence.explanation import Explanation

SHADES = " ░▒▓█"


def shade(value: float, most: float) -> str:
    """Shade a block: the larger the value, the darker the block.

    >>> shade(0.0, 1.0), shade(1.0, 1.0)
    (' ', '█')
    """
    return SHADES[min(len(SHADES) - 1, int(value / most * len(SHADES)))] if most > 0 else SHADES[0]


def terminal(found: Explanation) -> str:
    """List each word with its contribution, and the lower triangle of interdependence as shaded cells."""
    width = max(map(len, found.words))
    most = float(found.interdependence.max())
    lines = [f"next: {', '.join(f'{word} {chance:.1%}' for word, chance in found.likeliest)}"]
    if found.unknown:
        lines.append(f"read as <unk>: {', '.join(found.unknown)}")
    lines += [
        "",
        f"what each word gave to '{found.target}' ({found.probability:.2%}), "
        f"and its interdependence with the words before it (█ = {most:.2f})",
    ]
    for r, word in enumerate(found.words):
        cells = "".join(shade(float(found.interdependence[r, l]), most) * 2 for l in range(r)) + "╲"
        lines.append(f"{word:>{width}} {found.contributions[r]:+8.3f}  {cells}")
    lines.append(f"{'bias':>{width}} {found.bias:+8.3f}")
    lines.append(f"{'interactions':>{width}} {found.interactions:+8.3f}")
    return "\n".join(lines)


def png(found: Explanation, path: Path) -> None:
    """Plot the heat map beside the contributions."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    count = len(found.words)
    size = max(3.5, 0.42 * count + 1.5)
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(1.7 * size, size), layout="constrained")
    image = left.imshow(found.interdependence.numpy(), cmap="viridis")
    left.set_xticks(range(count), found.words, rotation=60, ha="right")
    left.set_yticks(range(count), found.words)
    left.set_title("interdependence", fontsize=10)
    figure.colorbar(image, ax=left, shrink=0.8)
    labels = [*found.words, "bias", "interactions"]
    right.barh(
        range(len(labels)),
        [*found.contributions, found.bias, found.interactions],
        color=["C0"] * count + ["0.6", "C1"],
    )
    right.set_yticks(range(len(labels)), labels)
    right.invert_yaxis()
    right.set_title(f"contribution to '{found.target}' ({found.probability:.1%})", fontsize=10)
    try:
        with written_atomically(path) as made:
            figure.savefig(made, dpi=120, format="png")
    finally:
        pyplot.close(figure)
