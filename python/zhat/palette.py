"""The colours of tables and pictures; crates/zhat-cli/src/chart.rs has the same values."""

from __future__ import annotations

CATEGORIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
"""The palette of Okabe and Ito, which colour-blind readers can tell apart, without its yellow."""

SEQUENTIAL = (
    "#00224e",
    "#1a386f",
    "#434e6c",
    "#61656f",
    "#7d7c78",
    "#9b9476",
    "#bcae6c",
    "#dec958",
    "#fee838",
)
"""The perceptually uniform map cividis, from 0 (dark) to 1 (light) at equal distances."""


def category(i: int) -> str:
    """The colour of category `i`.

    >>> category(1), category(8)
    ('#d55e00', '#d55e00')
    """
    return CATEGORIES[i % len(CATEGORIES)]


def shade(value: float) -> str:
    """The colour of a value between 0 (dark) and 1 (light).

    >>> shade(0.0), shade(0.5), shade(1.0)
    ('#00224e', '#7d7c78', '#fee838')
    """
    place = min(max(value, 0.0), 1.0) * (len(SEQUENTIAL) - 1)
    first = min(int(place), len(SEQUENTIAL) - 2)
    part = place - first
    ends = [_channels(SEQUENTIAL[first]), _channels(SEQUENTIAL[first + 1])]
    return "#" + "".join(f"{round(low + part * (high - low)):02x}" for low, high in zip(*ends, strict=True))


def ink_on(value: float) -> str:
    """The colour of text on the shade of a value: white on dark, black on light."""
    return "#ffffff" if value < 0.55 else "#000000"


def _channels(colour: str) -> list[int]:
    return [int(colour[start : start + 2], 16) for start in (1, 3, 5)]
