"""Compares zhat with other libraries on trees. Run by `cargo xtask bench tree`."""

from common.libraries import Comparison, Peer, memory, milliseconds
from common.tools import Run
from problem import parsed

# One file each: `python -m peers.FILE PEER CASE THREADS CALLS SECONDS`; see `timing.main`.
PEERS = (
    Peer("torch-struct", "torch_struct", "torch-struct"),
    Peer("nltk-viterbi", "nltk", "nltk"),
    Peer("nltk-inside-chart", "nltk", "nltk"),
)
CASES = (
    "dependency:20:32,dependency:40:32,dependency:80:32,nonprojective:40:32,span:20:40:8,"
    "cfg:30:60:20:8,cfg:30:60:40:8,cfg:64:64:20:8,cfg:128:128:20:4,rank:8:30:60:20:8,"
    "rank:256:20000:40000:40:8,embedded:256:16:100000:1000:40:1,grammar:60:4,grammar:1200:25,grammar:50000:40"
)
HEADER = ("case", "library", "ms", "× zhat", "CPU ms", "peak MiB", "own MiB", "Δ log Z", "Δ gradient")  # noqa: RUF001


def difference(value: float, reference: float) -> str:
    """Relative to the reference, and in bold if it is more than rounding in single precision."""
    relative = abs(value - reference) / max(1.0, abs(reference))
    return f"{relative:.0e}" if relative <= 1e-4 else f"**{relative:.0e}**"


def figures(run: Run, zhat: Run) -> list[str]:
    """Times, memory and differences of a library."""
    answer, reference = run.answer, zhat.answer
    gradient = reference["gradient_norm"]
    return [
        milliseconds(answer["wall_min"]),
        f"{answer['wall_min'] / reference['wall_min']:.3g}",
        milliseconds(answer["cpu_min"]),
        *memory(run),
        difference(answer["value"], reference["value"]),
        difference(answer["gradient_norm"], gradient) if gradient else "",
    ]


if __name__ == "__main__":
    Comparison(
        name="tree",
        title="Trees: log Z, gradients and best trees compared with other libraries",
        cases=CASES,
        metavar="CASE",
        cases_help="kinds of problem with their sizes, separated by commas; README.md lists them",
        seconds=300.0,
        peers=PEERS,
        header=HEADER,
        key="wall_min",
        figures=figures,
        check=parsed,
    ).main()
