"""Compares zhat's forecasts of memory and time with measurements."""

from collections.abc import Iterator

from common.models import Model
from common.tables import header, line
from common.tools import Limits, Tool, measure

HEADER = ("model", "query", "forecast MB", "peak MB", "ratio", "forecast s", "CPU s", "ratio")
FACTOR = 2.0
# Below these, the process itself and the resolution of the clock matter more than the model.
LEAST_BYTES = 4e6
LEAST_SECONDS = 0.05


def check(zhat: Tool, models: list[Model], queries: list[str], limits: Limits) -> Iterator[str]:
    """The lines of a table of forecasts and measurements, and how many are within a factor of two."""
    _, idle_cpu, idle_peak, _, _ = measure([zhat.program, "--version"], limits)
    memory, time = [], []
    yield from header(HEADER)
    for model in models:
        for query in queries:
            run = zhat.run(str(model.path), model.evidence, query, limits)
            if "value" not in run.answer:
                yield line([model.label, query, *[""] * 5, run.answer["status"]])
                continue
            plan = run.answer["plan"]
            taken = [max(run.peak - idle_peak, 1.0), max(run.cpu - idle_cpu, 1e-3)]
            memory.append((plan["bytes"], taken[0]))
            time.append((plan["seconds"], taken[1]))
            ratios = [taken[0] / plan["bytes"], taken[1] / plan["seconds"]]
            megabytes = [f"{plan['bytes'] / 1e6:.1f}", f"{taken[0] / 1e6:.1f}", f"{ratios[0]:.2f}"]
            times = [f"{plan['seconds']:.3f}", f"{taken[1]:.3f}", f"{ratios[1]:.2f}"]
            yield line([model.label, query, *megabytes, *times])
    yield f"\nMeasurements are without those of an idle process ({idle_peak / 1e6:.1f} MB, {idle_cpu:.3f} s)."
    yield "Ratios are measured divided by forecast.\n"
    yield share("Memory", memory, LEAST_BYTES, f"{LEAST_BYTES / 1e6:.0f} MB")
    yield share("Time", time, LEAST_SECONDS, f"{LEAST_SECONDS} s")


def share(what: str, pairs: list[tuple[float, float]], least: float, shown: str) -> str:
    """How many forecasts are within the factor: of all, and of those large enough to be meaningful."""

    def within(some: list[tuple[float, float]]) -> str:
        return f"{sum(max(f / m, m / f) <= FACTOR for f, m in some)} of {len(some)}"

    large = [pair for pair in pairs if max(pair) >= least]
    return (
        f"- {what} within a factor of {FACTOR:g}: {within(pairs)}; of those above {shown}: {within(large)}."
    )
