"""The rows of the table."""

from math import inf, isfinite

from common.models import Model
from common.tools import Run

HEADER = ("model", "query", "tool", "CPU s", "solving s", "peak MB", "error", "× zhat")  # noqa: RUF001


def seconds(value: float | None) -> str:
    """Seconds, with three decimals below 1 s."""
    if value is None:
        return ""
    return f"{value:.3f}" if value < 1 else f"{value:.1f}"


def error_of(model: Model, query: str, answer: dict) -> str:
    """|Δ log10 Z| or the largest difference between two marginals; bold if rounding does not explain it."""
    reference, value = model.reference(query), answer["value"]
    if reference is None:
        return "no reference"
    expected, rounding = reference
    if query == "logz":
        error = abs(value - expected)
    elif [len(p) for p in value] != [len(p) for p in expected]:
        return "**wrong shape**"
    else:
        pairs = (pair for p, q in zip(value, expected, strict=True) for pair in zip(p, q, strict=True))
        differences = [abs(a - b) for a, b in pairs]
        error = max(differences) if all(map(isfinite, differences)) else inf
    allowed = 1.01 * rounding + answer.get("resolution", 0.0)
    shown = f"{error:.0e}" if isfinite(error) else "not finite"
    return shown if error <= allowed else f"**{shown}**"


def group(model: Model, query: str, runs: dict[str, Run]) -> list[list[str]]:
    """The rows of one model and query: results ordered by CPU time, then tools without a result."""
    base = runs["zhat"].cpu if "zhat" in runs and "value" in runs["zhat"].answer else None
    answered = {name: run for name, run in runs.items() if "value" in run.answer}
    rows = []
    for name, run in sorted(runs.items(), key=lambda item: item[1].cpu if item[0] in answered else inf):
        row = [model.label, query, name]
        if name in answered:
            ratio = f"{run.cpu / base:.3g}" if base else ""
            error = error_of(model, query, run.answer)
            took = [seconds(run.cpu), seconds(run.answer.get("seconds")), f"{run.peak / 1e6:.0f}"]
            rows.append([*row, *took, error, ratio])
        else:
            rows.append([*row, seconds(run.cpu), "", f"{run.peak / 1e6:.0f}", run.answer["status"], ""])
    return rows
