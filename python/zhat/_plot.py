"""Pictures of answers and factor graphs with matplotlib, which is imported only here and when needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._frames import library
from ._graph_layout import components, grid_places, stress_places
from ._html import highest
from .answer import Answer, Beliefs, Guarantee, Layout
from .palette import SEQUENTIAL, category
from .sequence_answer import Path, Segmentation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ._predictor import Bin
    from .model import FactorGraph

_MOST_BARS = 60
_MOST_GROUPS = 40
_MOST_STATES = 7
_MOST_NODES = 400
_MOST_LABELS = 40
_MOST_NAMES = 60
_LONG = 30
"""Time is logarithmic if the end of a run is this many times later than its first bound."""
_ROW, _TIMED = "zhat-row", "zhat-timed"
"""The marks of values that are drawn as rows, and of those that are drawn over time."""
_NAMES = {"log_partition": "log Z (nats)", "entropy": "entropy (nats)"}


def answer(answer: Answer[Any], ax: Axes | None, sequence: int | None) -> Axes:
    """Draws the value of an answer."""
    value: Any = answer.value
    if sequence is not None and answer.guarantee.each is None:
        raise ValueError("sequence: this is not an answer for a batch of sequences")
    if isinstance(value, float):
        # Another answer on the same axes has the form of the first one.
        if _marked(ax, _TIMED) or (answer.trace and not _marked(ax, _ROW)):
            return _over_time(answer, ax)
        return _intervals(answer, [value], [answer.guarantee], ax)
    if isinstance(value, Beliefs):
        return _beliefs(value, ax)
    if isinstance(value, (Path, Segmentation)):
        return _path(value, ax)
    if isinstance(value, np.ndarray) and answer.query != "marginals" and answer.guarantee.each is not None:
        return _intervals(answer, value.tolist(), answer.guarantee.each, ax)
    if isinstance(value, np.ndarray) and value.ndim == len(answer.layout.axes):
        return _array(value, answer.layout, ax, sequence)
    if isinstance(value, list) and value and answer.query == "map":
        return _path(value[_chosen(sequence, len(value))], ax)
    raise TypeError(
        f"an answer to {answer.query} with a {type(value).__name__} cannot be drawn; numbers, marginals and "
        "best paths of chains can"
    )


def _axes(ax: Axes | None, width: float = 6.4, height: float = 4.0) -> Axes:
    """The axes, or those of a new figure."""
    if ax is not None:
        return ax
    figure = library("matplotlib.pyplot", "plot").figure(figsize=(width, height), layout="constrained")
    made: Axes = figure.subplots()
    return made


def _chosen(sequence: int | None, count: int) -> int:
    if sequence is None and count > 1:
        raise ValueError(f"this batch has {count} sequences; choose one, such as plot(sequence=0)")
    chosen = 0 if sequence is None else sequence
    if not 0 <= chosen < count:
        raise ValueError(f"sequence: expected 0 to {count - 1}, found {chosen}")
    return chosen


def _sequential() -> Any:
    colors = library("matplotlib.colors", "plot")
    return colors.LinearSegmentedColormap.from_list("zhat", SEQUENTIAL)


def _marked(ax: Axes | None, mark: str) -> int:
    """The number of answers with this mark on the axes."""
    marks = set() if ax is None else {str(line.get_gid()) for line in ax.lines}
    return sum(own.startswith(mark) for own in marks)


def _over_time(answer: Answer[Any], ax: Axes | None) -> Axes:
    """Bounds as steps over time, from the first one to the end of the run; other numbers as dashed lines."""
    shown = _marked(ax, _TIMED)
    ax = _axes(ax)
    style: dict[str, Any] = {"color": category(shown), "gid": f"{_TIMED}-{shown}"}
    label: str | None = answer.method
    if answer.trace:
        steps = np.array(answer.trace)
        end = max(float(answer.diagnostics["seconds"]), float(steps[-1, 0]))
        seconds = np.append(steps[:, 0], end)
        low, high = (np.append(column, column[-1]) for column in (steps[:, 1], steps[:, 2]))
        low, high = (np.where(np.isfinite(column), column, np.nan) for column in (low, high))
        ax.fill_between(seconds, low, high, step="post", color=style["color"], alpha=0.15, linewidth=0)
        for bound in (low, high):
            if np.isfinite(bound).any():
                ax.step(seconds, bound, where="post", label=label, **style)
                label = None
        # The first bounds come fast, and later ones improve slowly.
        if end > _LONG * seconds[0]:
            ax.set_xscale("log")
    else:
        ax.axhline(float(answer), linestyle="--", label=label, **style)
    ax.set_xlabel("time (s)")
    ax.set_ylabel(_NAMES["log_partition"])
    ax.ticklabel_format(axis="y", useOffset=False)
    ax.set_title("bounds over time" if shown else f"bounds over time, {answer.method}")
    if shown:
        ax.legend()
    return ax


def _intervals(
    answer: Answer[Any], values: Sequence[float], guarantees: Sequence[Guarantee], ax: Axes | None
) -> Axes:
    """One row per number: a dot, and a line between its bounds, with an arrow to an infinite end."""
    first = _marked(ax, _ROW)
    ax = _axes(ax, 6.4, 1.6 + 0.3 * len(values))
    batch = answer.guarantee.each is not None
    labels = [text.get_text() for text in ax.get_yticklabels()] if first else []
    for i, (value, guarantee) in enumerate(zip(values, guarantees, strict=True)):
        row = first + i
        labels.append(f"sequence {i}" if batch else answer.method)
        low, high = guarantee.low, guarantee.high
        known = [end for end in (low, value, high) if end is not None and math.isfinite(end)]
        if not known:
            raise ValueError("the value is infinite and has no bounds")
        whole = [min(known), max(known)]
        ax.plot(whole, [row, row], color=category(0), linewidth=2, gid=f"{_ROW}-{row}")
        for end in (low, high):
            if end is not None:
                ax.plot([end], [row], marker="|", markersize=12, markeredgewidth=2, color=category(0))
        one_sided = (low is None) != (high is None)
        if one_sided:
            at, shift = (max(known), 28) if high is None else (min(known), -28)
            arrow = {"arrowstyle": "<-", "color": category(0), "linewidth": 1.5}
            ax.annotate("", (at, row), (shift, 0), textcoords="offset points", arrowprops=arrow)
            ax.margins(x=0.2)
        if math.isfinite(value):
            ax.plot([value], [row], marker="o", color=category(1), linestyle="none")
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.set_xlabel(_NAMES.get(answer.query, answer.query))
    ax.ticklabel_format(axis="x", useOffset=False)
    bounded = any(own.low is not None or own.high is not None for own in guarantees)
    ax.set_title("value and bounds" if bounded or ax.get_title() == "value and bounds" else "value")
    return ax


def _beliefs(beliefs: Beliefs, ax: Axes | None) -> Axes:
    """Bars in groups, or a heat map if there are many variables with equally many states."""
    names, common = beliefs._names(), beliefs.common_states()
    sizes = {len(vector) for vector in beliefs}
    if common is not None and len(common) <= _MOST_STATES and len(beliefs) <= _MOST_GROUPS:
        return _groups(np.array(beliefs), names.variables, common, ax)
    if len(sizes) == 1 and (len(beliefs) > _MOST_GROUPS or sizes > {_MOST_STATES}):
        return _heat(np.array(beliefs), ("variable", "state"), "marginals", ax)
    if beliefs.flat.size > _MOST_BARS:
        raise ValueError(
            f"{beliefs.flat.size} bars are too many, at most {_MOST_BARS} are drawn; "
            "choose variables, such as model.marginals([0, 1]).plot()"
        )
    return _rows(beliefs, ax)


def _groups(
    values: NDArray[np.float64], names: Sequence[str], states: Sequence[str], ax: Axes | None
) -> Axes:
    """One group of bars per variable, one colour per state."""
    ax = _axes(ax, max(6.4, min(14.0, 1.8 + 0.22 * values.size)))
    width = 0.8 / len(states)
    places = np.arange(len(names))
    for s, state in enumerate(states):
        shift = (s - (len(states) - 1) / 2) * width
        ax.bar(places + shift, values[:, s], width, color=category(s), label=state)
    # A letter is about 0.09 inches wide; names that are wider than their group are turned.
    room = 0.85 * ax.bbox.width / ax.figure.dpi / max(len(names), 1)
    turned = 0.09 * max(map(len, names), default=0) > room
    ax.set_xticks(places, names, rotation=45 if turned else 0, ha="right" if turned else "center")
    if turned:
        ax.tick_params(axis="x", pad=1)
    ax.set_ylim(0, 1)
    ax.set_ylabel("probability")
    ax.set_title("marginals")
    ax.legend(title="state", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax


def _rows(beliefs: Beliefs, ax: Axes | None) -> Axes:
    """One horizontal bar per variable and state, for variables with different states."""
    names = beliefs._names()
    ax = _axes(ax, 6.4, 1.2 + 0.22 * (beliefs.flat.size + len(beliefs)))
    places: list[float] = []
    labels: list[str] = []
    place = 0.0
    for v, vector in enumerate(beliefs):
        for s, p in enumerate(vector):
            ax.barh(place, float(p), 0.8, color=category(v))
            places.append(place)
            labels.append(f"{names.variables[v]} = {names.state(v, s)}")
            place += 1
        place += 0.6
    ax.set_yticks(places, labels)
    ax.invert_yaxis()
    ax.set_xlim(0, 1)
    ax.set_xlabel("probability")
    ax.set_title("marginals")
    return ax


def _array(values: NDArray[Any], layout: Layout, ax: Axes | None, sequence: int | None) -> Axes:
    title = layout.title or "marginals"
    if values.ndim == 1:
        ax = _axes(ax, max(4.0, min(14.0, 2 + 0.3 * len(values))))
        ax.bar(range(len(values)), values, color=category(0))
        if len(values) <= _MOST_GROUPS:
            ax.set_xticks(range(len(values)))
        ax.set_ylim(0, 1)
        ax.set_xlabel(layout.axes[0])
        ax.set_ylabel("probability")
        ax.set_title(title)
        return ax
    if layout.spans:
        chosen = 0 if values.ndim == 3 else _chosen(sequence, len(values))
        own = values if values.ndim == 3 else values[chosen]
        length = layout.lengths[chosen] if layout.lengths is not None else len(own)
        title = title if values.ndim == 3 else f"sentence {chosen}"
        return _heat(own[:length, :length].sum(axis=-1), ("first", "last"), title, ax)
    if values.ndim == 3:
        chosen = _chosen(sequence, len(values))
        length = layout.lengths[chosen] if layout.lengths is not None else values.shape[1]
        return _heat(values[chosen, :length], layout.axes[1:], f"sequence {chosen}", ax)
    return _heat(values, layout.axes, title, ax)


def _heat(values: NDArray[Any], axes: Sequence[str], title: str, ax: Axes | None) -> Axes:
    """A heat map: the first axis goes across, the second one up."""
    count, height = values.shape
    square = axes[-1] != "state"
    ax = _axes(ax, 5.2 if square else 7.0, 4.4 if square else max(2.4, min(5.0, 1.4 + 0.25 * height)))
    picture = ax.imshow(
        values.T,
        origin="lower",
        aspect="equal" if square else "auto",
        interpolation="nearest",
        cmap=_sequential(),
        vmin=0,
        vmax=highest(values, axes),
    )
    for axis, size in ((ax.xaxis, count), (ax.yaxis, height)):
        if size <= 12:
            axis.set_ticks(range(size))
        else:
            axis.set_major_locator(library("matplotlib.ticker", "plot").MaxNLocator(8, integer=True))
    ax.set_xlabel(axes[0])
    ax.set_ylabel(axes[1])
    ax.set_title(title, wrap=True)
    ax.figure.colorbar(picture, ax=ax, label="probability")
    return ax


def confusion(shares: NDArray[np.float64], names: Sequence[str], ax: Axes | None) -> Axes:
    """A confusion matrix: observed names in rows, predicted ones in columns."""
    side = max(3.6, min(14.0, 2.0 + 0.22 * len(names)))
    ax = _axes(ax, side + 0.8, side)
    picture = ax.imshow(shares, interpolation="nearest", cmap=_sequential(), vmin=0, vmax=1)
    # All names fit on axes of the largest size.
    step = max(1, math.ceil(len(names) / _MOST_NAMES))
    ax.set_xticks(range(0, len(names), step), names[::step], rotation=90)
    ax.set_yticks(range(0, len(names), step), names[::step])
    ax.set_xlabel("predicted")
    ax.set_ylabel("observed")
    ax.set_title("confusion matrix")
    ax.figure.colorbar(picture, ax=ax, label="share of the observed tag")
    return ax


def reliability(bins: Sequence[Bin], ax: Axes | None) -> Axes:
    """Observed shares over predicted probabilities, with the limits of the shares, and the diagonal."""
    ax = _axes(ax, 4.4, 4.4)
    known = [own for own in bins if own.events > 0]
    low = [max(0.0, own.observed - own.observed_low) for own in known]
    high = [max(0.0, own.observed_high - own.observed) for own in known]
    ax.plot([0, 1], [0, 1], color="#888888", linewidth=1, linestyle="--", label="calibrated")
    ax.errorbar(
        [own.predicted for own in known],
        [own.observed for own in known],
        yerr=[low, high],
        color=category(0),
        marker="o",
        linestyle="none",
        label="95% limits",
    )
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_aspect("equal")
    ax.set_xlabel("predicted probability")
    ax.set_ylabel("observed share")
    ax.set_title("reliability")
    return ax


def _path(path: Path | Segmentation, ax: Axes | None) -> Axes:
    """The state over the positions."""
    fresh = ax is None
    ax = _axes(ax, 7.0, 2.8)
    states = path.states
    edges = np.arange(len(states) + 1) - 0.5
    ax.step(
        edges, np.append(states, states[-1:]), where="post", color=category(1), linewidth=2, label="best path"
    )
    if fresh:
        ticker = library("matplotlib.ticker", "plot")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(ticker.MaxNLocator(8, integer=True))
        ax.set_xlabel("position")
        ax.set_ylabel("state")
        ax.set_title("best path")
    return ax


def graph(model: FactorGraph, marginals: Beliefs | None, ax: Axes | None) -> Axes:
    """Draws the variables and factors of a graph."""
    count = model.n_variables
    if count > _MOST_NODES:
        raise ValueError(f"the graph has {count} variables; at most {_MOST_NODES} are drawn")
    if marginals is not None and len(marginals) != count:
        raise ValueError(
            f"marginals: expected those of all {count} variables, found {len(marginals)}; "
            "use model.marginals() without a list of variables"
        )
    scopes = sorted({tuple(sorted(scope)) for scope in model._native.scopes if len(scope) > 1})
    lines = [scope for scope in scopes if len(scope) == 2]
    squares = [scope for scope in scopes if len(scope) > 2]
    places = _places(count, lines, squares)
    ax = _axes(ax, 6.0, 5.0)
    collections = library("matplotlib.collections", "plot")
    edges = [(places[i], places[j]) for i, j in lines]
    edges += [(places[count + f], places[v]) for f, scope in enumerate(squares) for v in scope]
    ax.add_collection(collections.LineCollection(edges, colors="#888888", linewidths=1.0, zorder=1))
    if squares:
        ax.scatter(places[count:, 0], places[count:, 1], s=24, marker="s", color="#444444", zorder=2)
    size = max(20.0, min(260.0, 9000.0 / max(count, 1)))
    style: dict[str, Any] = {"s": size, "edgecolors": "#444444", "linewidths": 0.8, "zorder": 3}
    if marginals is None:
        ax.scatter(places[:count, 0], places[:count, 1], color=category(4), **style)
    else:
        last = [float(vector[-1]) for vector in marginals]
        dots = ax.scatter(
            places[:count, 0], places[:count, 1], c=last, cmap=_sequential(), vmin=0, vmax=1, **style
        )
        common = marginals.common_states()
        named = common is not None and marginals.names is not None and any(marginals.names.states)
        label = f"P({common[-1]})" if named and common else "P(last state)"
        ax.figure.colorbar(dots, ax=ax, label=label, shrink=0.7)
    if count <= _MOST_LABELS:
        _labels(ax, model.names or [f"x{v}" for v in range(count)], places, edges, math.sqrt(size) / 2 + 3)
    ax.set_aspect("equal")
    ax.margins(0.12)
    ax.autoscale_view()
    ax.set_axis_off()
    return ax


def _labels(
    ax: Axes, names: Sequence[str], places: NDArray[np.float64], edges: Sequence[Any], radius: float
) -> None:
    """Writes the names next to the circles, on the side that has the fewest lines."""
    lines = np.array(edges).reshape(-1, 2, 2)
    for v, name in enumerate(names):
        ends = [b - a for a, b in lines if (a == places[v]).all()]
        ends += [a - b for a, b in lines if (b == places[v]).all()]
        away = -np.sum([end / np.linalg.norm(end) for end in ends], axis=0) if ends else np.array([0.0, 1.0])
        length = float(np.linalg.norm(away))
        x, y = away / length if length > 0.3 else np.array([0.7, 0.7])
        ax.annotate(
            name,
            (float(places[v, 0]), float(places[v, 1])),
            (radius * x, radius * y),
            textcoords="offset points",
            ha="left" if x > 0.4 else "right" if x < -0.4 else "center",
            va="bottom" if y > 0.4 else "top" if y < -0.4 else "center",
            fontsize=9 if len(names) <= 20 else 7,
            zorder=4,
        )


def _places(
    count: int, lines: Sequence[tuple[int, ...]], squares: Sequence[tuple[int, ...]]
) -> NDArray[np.float64]:
    """Places of the variables and, after them, of the factors that are squares."""
    if not squares:
        grid = grid_places(count, lines)
        if grid is not None:
            return grid
    edges = [(scope[0], scope[1]) for scope in lines]
    edges += [(count + f, v) for f, scope in enumerate(squares) for v in scope]
    total = count + len(squares)
    if total > 3 * _MOST_NODES:
        raise ValueError(f"the graph has {len(squares)} factors of three or more variables, too many to draw")
    return stress_places(total, edges, components(total, edges))
