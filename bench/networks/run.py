"""Compares zhat with other libraries on Bayesian networks. Run by `cargo xtask bench networks`."""

from common.libraries import Comparison, Peer, memory, milliseconds
from common.tools import Run
from problem import NAMES, network, parsed

PEERS = (
    Peer("pyAgrum", "pyagrum", "pyagrum"),
    Peer("pgmpy", "pgmpy", "pgmpy"),
)
CASES = ",".join(f"{name}{evidence}" for name in NAMES for evidence in ("", "+0.1"))
HEADER = ("network", "library", "wall ms", "× zhat", "peak MiB", "own MiB", "Δ marginals")  # noqa: RUF001


def checked(case: str) -> None:
    """Checks a case, and fetches its network, so that no peer has to."""
    network(parsed(case)[0])


def figures(run: Run, zhat: Run) -> list[str]:
    """Times, memory and differences of a library."""
    answer, reference = run.answer, zhat.answer
    pairs = zip(answer["value"], reference["value"], strict=True)
    difference = max(abs(a - b) for one, two in pairs for a, b in zip(one, two, strict=True))
    return [
        milliseconds(answer["wall_min"]),
        f"{answer['wall_min'] / reference['wall_min']:.3g}",
        *memory(run),
        f"{difference:.0e}",
    ]


if __name__ == "__main__":
    Comparison(
        name="networks",
        title="Bayesian networks: all marginals compared with other libraries",
        cases=CASES,
        metavar="NAME[+FRACTION]",
        cases_help="networks, with the fraction of observed variables after a plus, separated by commas",
        seconds=60.0,
        peers=PEERS,
        header=HEADER,
        key="wall_min",
        figures=figures,
        check=checked,
    ).main()
