"""The problem that every library solves: all marginals of a Bayesian network, with the same numbers.

The networks are those of the bnlearn repository that the wheel of pgmpy 1.0.0 contains; later versions of
pgmpy download them one by one. A case is the name of a network, or `NAME+FRACTION` with evidence: the given
fraction of the variables, drawn at random, in the states of one sample.
"""

import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import zhat

WHEEL = "pgmpy==1.0.0"
FOLDER = Path(__file__).resolve().parents[2] / "target" / "bench-networks"
NAMES = [
    "asia",
    "cancer",
    "earthquake",
    "survey",
    "sachs",
    "child",
    "alarm",
    "insurance",
    "water",
    "hailfinder",
    "hepar2",
    "win95pts",
    "pathfinder",
    "munin1",
    "andes",
    "mildew",
    "barley",
    "pigs",
    "diabetes",
    "munin2",
    "munin3",
    "munin4",
    "munin",
    "link",
]


@dataclass(frozen=True)
class Problem:
    """A network, the observed states by name of the variable, and the number of threads."""

    graph: zhat.FactorGraph
    evidence: dict[str, str]
    threads: int


def parsed(case: str) -> tuple[str, float]:
    """The name of the network and the fraction of observed variables."""
    name, _, fraction = case.partition("+")
    if name not in NAMES:
        raise ValueError(f"{case}: expected one of {', '.join(NAMES)}")
    try:
        share = float(fraction or 0)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise ValueError(f"{case}: expected a fraction of the variables below 1")
    return name, share


def network(name: str) -> Path:
    """The file of a network, from the wheel, which is downloaded once."""
    path = FOLDER / f"{name}.bif.gz"
    if not path.exists():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        subprocess.run([*pip, "--dest", FOLDER, WHEEL], check=True)
        (wheel,) = FOLDER.glob("pgmpy-1.0.0*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                if member.endswith(".bif.gz"):
                    (FOLDER / Path(member).name).write_bytes(archive.read(member))
    return path


def problem_of(case: str, threads: int) -> Problem:
    """The problem of a case; the seeds are always 0."""
    name, share = parsed(case)
    graph = zhat.FactorGraph.read(network(name))
    names, states = graph.names or (), graph.state_names or ()
    observed = np.random.default_rng(0).permutation(len(names))[: round(share * len(names))]
    evidence = {}
    if len(observed):
        sample = graph.sample(1, seed=0).value.states[0]
        evidence = {names[v]: states[v][sample[v]] for v in observed}
    return Problem(graph, evidence, threads)
