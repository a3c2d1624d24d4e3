"""Tables and small pictures for notebooks.

Everything is inline, so that a notebook needs no other resources. Text and lines have the colour of the page,
which may be light or dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from . import _zhat
from .palette import CATEGORIES, SEQUENTIAL, category, shade

if TYPE_CHECKING:
    from .answer import Guarantee

MOST_ROWS = 20
"""The rows of a table that are shown."""
MOST_COLUMNS = 12
"""The columns of a wide table that are shown."""
_MOST_CELLS = 2000
"""The cells of a heat map; a larger array is summarised."""

_MOST_NAMES = 64
"""The rows of a confusion matrix; a larger one is not shown."""

_LEFT = "text-align: left"
_RIGHT = "text-align: right; font-variant-numeric: tabular-nums"


class Markup(str):
    """Text that is HTML already."""


def _shown(text: str | Markup) -> str:
    return text if isinstance(text, Markup) else escape(text)


def table(rows: Mapping[str, str]) -> Markup:
    """A small table with one label and one text per row."""
    lines = (
        f'<tr><th style="{_LEFT}">{escape(label)}</th><td style="{_LEFT}">{_shown(text)}</td></tr>'
        for label, text in rows.items()
    )
    return Markup(f"<table>{''.join(lines)}</table>")


def columns(header: Sequence[str], rows: Iterable[Sequence[str]], more: str = "") -> Markup:
    """A table with a header; `more` is a last row that says what is not shown."""
    head = "".join(f'<th style="{_LEFT}">{_shown(name)}</th>' for name in header)
    body = "".join(f"<tr>{''.join(_cell(text) for text in row)}</tr>" for row in rows)
    if more:
        body += f'<tr><td colspan="{len(header)}" style="{_LEFT}">{escape(more)}</td></tr>'
    return Markup(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


class Cell(Markup):
    """A whole `td` element."""


def _cell(text: str) -> str:
    return text if isinstance(text, Cell) else f'<td style="{_LEFT}">{_shown(text)}</td>'


def number(value: float) -> Cell:
    """A cell with a number."""
    return Cell(f'<td style="{_RIGHT}">{escape(_zhat.format_number(float(value)))}</td>')


def probability(value: float) -> Cell:
    """A cell with a probability on a bar of that length."""
    red, green, blue = (int(CATEGORIES[0][start : start + 2], 16) for start in (1, 3, 5))
    colour = f"rgba({red}, {green}, {blue}, 0.5)"
    share = 100 * min(max(float(value), 0.0), 1.0)
    bar = f"background: linear-gradient({colour}, {colour}) left bottom / {share:.2f}% 4px no-repeat"
    return Cell(f'<td style="{_RIGHT}; min-width: 6em; {bar}">{float(value):.6f}</td>')


def block(*parts: str) -> Markup:
    """Parts below each other."""
    return Markup(f"<div>{''.join(_shown(part) for part in parts)}</div>")


def line(text: str) -> Markup:
    """A line of text."""
    return Markup(f"<div>{escape(text)}</div>")


def and_more(total: int, shown: int, noun: str) -> str:
    """Text for the last row of a table that shows only some rows; empty if it shows all."""
    return f"… and {total - shown:,} more {noun}" if total > shown else ""


def _svg(width: float, height: float, label: str, parts: Iterable[str]) -> Markup:
    return Markup(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}" '
        'font-family="sans-serif" font-size="11" fill="currentColor">'
        f"{''.join(parts)}</svg>"
    )


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def _stroke(points: str, width: float = 1.5) -> str:
    return f'<path d="{points}" stroke="currentColor" stroke-width="{width:g}" fill="none"/>'


def ends(low: float | None, high: float | None) -> tuple[str, str]:
    """The ends of an interval as text, rounded outward, with digits that tell them apart."""
    gap = high - low if low is not None and high is not None else 1.0
    places = min(max(2 - math.floor(math.log10(gap)), 2), 15) if gap > 0 else 15

    def above(value: float) -> str:
        text = _zhat.format_low(-value, places)
        return text[1:] if text.startswith("-") else f"-{text}" if float(text) else text

    return "" if low is None else _zhat.format_low(low, places), "" if high is None else above(high)


def interval(value: float, guarantee: Guarantee) -> Markup | None:
    """A picture of a value and its bounds; an arrow points to an end that is infinite."""
    low, high = guarantee.low, guarantee.high
    if low is None and high is None:
        return None
    left, right, y, width = 20.0, 320.0, 12.0, 340.0
    known = [end for end in (low, high, value) if end is not None and math.isfinite(end)]
    first, last = min(known), max(known)

    # A one-sided interval leaves room for its arrow.
    inner = (left if low is not None else left + 60, right if high is not None else right - 60)

    def across(x: float) -> float:
        if last == first:
            return inner[0] if low is not None else inner[1]
        return inner[0] + (x - first) / (last - first) * (inner[1] - inner[0])

    low_text, high_text = ends(low, high)
    parts = []
    start = left - 12 if low is None else across(low)
    end = right + 12 if high is None else across(high)
    parts.append(_stroke(f"M{start:.1f} {y:g}H{end:.1f}"))
    for bound, x, towards in ((low, start, 1), (high, end, -1)):
        shape = f"V{y + 6:g}M{x:.1f} {y:g}V{y - 6:g}" if bound is not None else ""
        arrow = f"L{x + 7 * towards:.1f} {y - 4:g}M{x:.1f} {y:g}L{x + 7 * towards:.1f} {y + 4:g}"
        parts.append(_stroke(f"M{x:.1f} {y:g}{shape or arrow}"))
    if math.isfinite(value):
        at = across(value)
        parts.append(f'<circle cx="{at:.1f}" cy="{y:g}" r="4" fill="{category(1)}"/>')
    if low is not None:
        parts.append(_text(left, y + 20, low_text, "start"))
    if high is not None:
        parts.append(_text(right, y + 20, high_text, "end"))
    return _svg(width, y + 26, str(guarantee), parts)


def fits(values: NDArray[np.generic]) -> bool:
    """Whether an array is small enough for a heat map."""
    return 0 < values.size <= _MOST_CELLS and max(values.shape) <= 200


def highest(values: NDArray[np.generic], axes: Sequence[str]) -> float:
    """The top of the scale of a heat map: 1 for states, otherwise the largest probability."""
    largest = float(np.max(values, initial=0.0))
    return 1.0 if axes[-1] == "state" or largest == 0 else largest


def heat_map(values: NDArray[np.generic], across: str, up: str) -> Markup:
    """A heat map of probabilities; the first axis of the array goes across, the second one up."""
    count, height = values.shape
    scale = highest(values, (across, up))
    width, tall = (float(min(18, max(4, room // size))) for room, size in ((640, count), (360, height)))
    left, top = 60.0, 6.0
    wide, high = left + width * count, top + tall * height
    parts = []
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            p = float(value)
            x, y = left + width * i, top + tall * (height - 1 - j)
            place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{tall:g}"'
            words = f"{across} {i}, {up} {j}: {p:.6f}"
            parts.append(f'<rect {place} fill="{shade(p / scale)}"><title>{escape(words)}</title></rect>')
    for i, anchor in ((0, "start"), (count - 1, "end")) if count > 1 else ((0, "start"),):
        x = left + (width * (i + 1) if i else 0)
        parts.append(_text(x, high + 13, str(i), anchor))
    for j in {0, height - 1}:
        parts.append(_text(left - 5, top + tall * (height - 1 - j) + tall / 2 + 4, str(j), "end"))
    middle = (top + high) / 2
    parts.append(_text((left + wide) / 2, high + 26, across, "middle"))
    turned = f'transform="rotate(-90 14 {middle:g})"'
    parts.append(f'<text x="14" y="{middle:g}" text-anchor="middle" {turned}>{escape(up)}</text>')
    step = 80 / len(SEQUENTIAL)
    bar = wide + 24
    for k, colour in enumerate(SEQUENTIAL):
        place = f'x="{bar + step * k:.2f}" y="{top:g}" width="{step + 0.5:.2f}" height="10"'
        parts.append(f'<rect {place} fill="{colour}"/>')
    parts += [_text(bar, top + 22, "0", "middle"), _text(bar + 80, top + 22, f"{scale:.3g}", "middle")]
    return _svg(bar + 100, max(high + 32, top + 30), f"probabilities by {across} and {up}", parts)


def confusion(counts: NDArray[np.int64], names: Sequence[str]) -> Markup:
    """A confusion matrix: observed names in rows, predicted ones in columns, shaded by share of the row."""
    size = len(names)
    if not 0 < size <= _MOST_NAMES:
        return line(f"The confusion matrix of {size:,} tags is too large to be shown here.")
    side, left = 14.0, 20.0 + 6.5 * min(20, max(len(name) for name in names))
    top, wide = 8.0, side * size
    frame = f'x="{left:g}" y="{top:g}" width="{wide:g}" height="{wide:g}"'
    parts = [f'<rect {frame} fill="{shade(0.0)}"/>']
    for i, (row, observed) in enumerate(zip(counts, names, strict=True)):
        total = int(row.sum())
        for j, (count, predicted) in enumerate(zip(row.tolist(), names, strict=True)):
            if count:
                at = f'x="{left + side * j:g}" y="{top + side * i:g}" width="{side:g}" height="{side:g}"'
                words = escape(f"{observed} as {predicted}: {count:,} of {total:,}")
                parts.append(f'<rect {at} fill="{shade(count / total)}"><title>{words}</title></rect>')
        middle = top + side * i + side / 2
        parts.append(_text(left - 4, middle + 4, _short(observed), "end"))
        x = left + side * i + side / 2
        turned = f'transform="translate({x + 4:g} {top + wide + 5:g}) rotate(-90)"'
        parts.append(f'<text {turned} text-anchor="end">{escape(_short(observed))}</text>')
    height = top + wide + left
    parts.append(_text(left, height + 10, "observed (rows), predicted (columns)", "start"))
    return _svg(max(left + wide + 8, left + 220), height + 18, "confusion matrix", parts)


def _short(name: str) -> str:
    return name if len(name) <= 20 else f"{name[:19]}…"


def summary(values: NDArray[np.generic], axes: Sequence[str]) -> Markup:
    """The sizes of an array that is too large to be shown, and how certain its states are."""
    sizes = ", ".join(f"{size:,} {axis}s" for size, axis in zip(values.shape, axes, strict=True))
    rows = {"sizes": sizes}
    if axes[-1] == "state" and values.size:
        largest = np.asarray(values, dtype=np.float64).max(axis=-1)
        largest = largest[largest > 0]  # positions after the end of a sequence have none
        rows["largest probability"] = f"mean {largest.mean():.6f}, least {largest.min():.6f}"
    return table(rows)
