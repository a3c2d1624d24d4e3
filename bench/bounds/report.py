"""The results as Markdown: scores, bounds, and the error of each log Z."""

from collections import Counter
from collections.abc import Iterable, Iterator
from math import isfinite
from statistics import fmean, median

from common.models import Model
from common.tables import header, line, processor
from score import reference, score

NAMES = {"logz": "PR", "marginals": "MAR"}
# Added to half a unit of a reference's last digit: some references have more digits than are correct.
TOLERANCE = 1e-7


class Results:
    """The runs with one time limit, on models that every method was run on."""

    def __init__(self, models: list[Model], records: list[dict], limit: float) -> None:
        """Selects the records with this limit."""
        labels = {model.label for model in models}
        here = [r for r in records if r["limit"] == limit and r["model"] in labels]
        self.runs = {(r["query"], r["tool"], r["model"]): r for r in here}
        tools = dict.fromkeys(r["tool"] for r in here)
        self.tools = sorted(tools, key=lambda tool: not tool.startswith("zhat"))
        self.models = {query: [m for m in models if self.is_complete(query, m)] for query in NAMES}

    def is_complete(self, query: str, model: Model) -> bool:
        """Whether every method with runs for this query was run on this model."""
        asked = {tool for q, tool, _ in self.runs if q == query}
        return bool(asked) and all((query, tool, model.label) in self.runs for tool in asked)

    def of(self, query: str, tool: str, family: str = "") -> list[tuple[Model, dict]]:
        """The runs of a method, for one family or all."""
        chosen = [m for m in self.models[query] if family in ("", m.family)]
        return [(m, self.runs[query, tool, m.label]) for m in chosen if (query, tool, m.label) in self.runs]

    def score(self, query: str, tool: str, family: str = "") -> str:
        """The mean score; a run without a result scores 0."""
        runs = self.of(query, tool, family)
        scores = [score(m, query, r["error"]) if "error" in r else 0.0 for m, r in runs]
        return f"{fmean(scores):.1f}" if scores else ""


def outcome(record: dict) -> str:
    """`result`, or one or two words that say why there is none."""
    if "error" in record:
        return "result" if isfinite(record["error"]) else "no number"
    return record["status"].split(":")[0]


def summary(results: Results) -> Iterator[str]:
    """The scores of all methods."""
    columns = [("PR", "results", "median error"), ("MAR", "results", "median error")]
    yield from header(["method", *columns[0], *columns[1], "no result"])
    for tool in results.tools:
        cells, without = [], Counter()
        for query in NAMES:
            runs = [record for _, record in results.of(query, tool)]
            found = Counter(map(outcome, runs))
            errors = [r["error"] for r in runs if outcome(r) == "result"]
            cells += [results.score(query, tool), f"{found.pop('result', 0)} of {len(runs)}" if runs else ""]
            cells.append(f"{median(errors):.2g}" if errors else "")
            without += found
        yield line([tool, *cells, ", ".join(f"{n} {word}" for word, n in sorted(without.items()))])


def families(results: Results, query: str) -> Iterator[str]:
    """The mean score of each method on each family."""
    tools = [tool for tool in results.tools if results.of(query, tool)]
    yield from header([NAMES[query], "models", *tools])
    for family in dict.fromkeys(m.family for m in results.models[query]):
        count = sum(m.family == family for m in results.models[query])
        yield line([family, str(count), *(results.score(query, tool, family) for tool in tools)])


def gaps(results: Results, tool: str) -> tuple[dict[str, list[float]], list[str]]:
    """Distances of the finite bounds from the reference, and one line for each violated bound."""
    distances: dict[str, list[float]] = {"high": [], "low": []}
    violated = []
    for model, record in results.of("logz", tool):
        expected, rounding = reference(model, "logz")
        for end, sign in (("high", 1.0), ("low", -1.0)):
            if isfinite(record.get(end, float("nan"))):
                distance = sign * (record[end] - expected)
                distances[end].append(max(distance, 0.0))
                if distance < -rounding - TOLERANCE:
                    violated.append(f"{tool} on {model.label}: {end} {record[end]!r}, reference {expected}")
    return distances, violated


def bounds(results: Results) -> Iterator[str]:
    """For methods with bounds: the number of violated bounds, and mean gaps."""
    yield from header(
        ["method", "confidence", "violated", "upper", "mean gap above", "lower", "mean gap below"]
    )
    told = []
    for tool in results.tools:
        distances, violated = gaps(results, tool)
        if not any(distances.values()):
            continue
        least = min(r.get("confidence", 1.0) for _, r in results.of("logz", tool))
        sides = []
        for side in distances.values():
            sides += [str(len(side)), f"{fmean(side):.2g}" if side else ""]
        yield line([tool, f"{least:g}", str(len(violated)), *sides])
        told += violated
    yield ""
    yield from (f"- {line}" for line in told)


def errors(results: Results) -> Iterator[str]:
    """log10 Z minus the reference, for each model."""
    tools = [tool for tool in results.tools if results.of("logz", tool)]
    yield from header(["Δ log₁₀ Z", "reference", *tools])
    for model in results.models["logz"]:
        expected, rounding = reference(model, "logz")
        records = [results.runs["logz", tool, model.label] for tool in tools]
        cells = [difference(r, expected, rounding) for r in records]
        yield line([model.label, f"{expected:.6g}", *cells])


def difference(record: dict, expected: float, rounding: float) -> str:
    """With its sign; 0 if rounding explains it."""
    if outcome(record) != "result":
        return outcome(record)
    return "0" if record["error"] <= rounding + TOLERANCE else f"{record['value'] - expected:+.2g}"


def render(models: list[Model], records: list[dict], note: str) -> str:
    """The whole file."""
    versions = dict.fromkeys(f"{r['tool'].split()[0]} {r['version']}" for r in records)
    memory = " or ".join(sorted({f"{r['memory'] / 2**30:g} GiB" for r in records}))
    lines = [
        "# Approximate inference: results\n",
        f"{processor()}; one thread. {share(records)} {note}".strip() + "\n",
        f"A run stops at its limit of wall time or at {memory} of address space. "
        "[README.md](README.md) explains the columns.\n",
        f"Versions: {', '.join(versions)}.",
    ]
    for limit in sorted({r["limit"] for r in records}):
        results = Results(models, records, limit)
        counts = " and ".join(f"{len(results.models[q])} models for {NAMES[q]}" for q in NAMES)
        lines += section(f"{limit:g} seconds", [f"{counts}: those that every method was run on.", ""])
        lines += summary(results)
        lines += section("By family", [*families(results, "logz"), "", *families(results, "marginals")], 3)
        lines += section("Bounds on log₁₀ Z", bounds(results), 3)
        lines += section("Each log₁₀ Z", errors(results), 3)
    return "\n".join(lines).rstrip()


def share(records: list[dict]) -> str:
    """CPU time divided by wall time of long runs, which is below 1 on a busy machine."""
    long = [r for r in records if r["wall"] > 0.5 * r["limit"]]
    if not long:
        return ""
    had = sum(r["cpu"] for r in long) / sum(r["wall"] for r in long)
    return f"CPU time is {had:.0%} of wall time in runs longer than half their limit."


def section(title: str, body: Iterable[str], level: int = 2) -> list[str]:
    """A title and the lines below it."""
    return ["", f"{'#' * level} {title}", "", *body]
