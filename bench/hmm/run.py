"""Compares zhat with other libraries on training hidden Markov models. Run by `cargo xtask bench hmm`."""

from common.libraries import Comparison, Peer, memory, milliseconds
from common.tools import Run
from problem import parsed

PEERS = (
    Peer("hmmlearn-scaling", "hmmlearn", "hmmlearn"),
    Peer("hmmlearn-log", "hmmlearn", "hmmlearn"),
    Peer("dynamax", "dynamax", "dynamax"),
    Peer("pomegranate", "pomegranate", "pomegranate"),
)
CASES = "categorical:64:1000:8,categorical:256:1000:8,gaussian:16:200:100"
HEADER = ("case", "library", "CPU ms", "× zhat", "peak MiB", "own MiB", "Δ log-likelihood")  # noqa: RUF001


def figures(run: Run, zhat: Run) -> list[str]:
    """Times, memory and differences of a library."""
    answer, reference = run.answer, zhat.answer
    difference = abs(answer["value"] - reference["value"]) / abs(reference["value"])
    return [
        milliseconds(answer["cpu_min"]),
        f"{answer['cpu_min'] / reference['cpu_min']:.3g}",
        *memory(run),
        f"{difference:.0e}",
    ]


if __name__ == "__main__":
    Comparison(
        name="hmm",
        title="Hidden Markov models: 20 steps of EM compared with other libraries",
        cases=CASES,
        metavar="FAMILY:N:T:B",
        cases_help="categorical or gaussian, numbers of states, positions and sequences, separated by commas",
        seconds=300.0,
        peers=PEERS,
        header=HEADER,
        key="cpu_min",
        figures=figures,
        check=parsed,
    ).main()
