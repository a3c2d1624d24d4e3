"""pgmpy: a calibrated `BeliefPropagation`."""

import logging
import warnings

warnings.simplefilter("ignore")

from pgmpy.inference import BeliefPropagation  # noqa: E402

import timing  # noqa: E402
from common import peer  # noqa: E402

logging.disable(logging.WARNING)


def load(problem):
    """The same network, converted by zhat."""
    network = problem.graph.to_pgmpy()
    names, states = problem.graph.names, problem.graph.state_names

    def solve():
        engine = BeliefPropagation(network)
        engine.calibrate()
        return [
            peer.point_mass(len(own), own.index(problem.evidence[name]))
            if name in problem.evidence
            else engine.query([name], evidence=problem.evidence or None, show_progress=False).values
            for name, own in zip(names, states, strict=True)
        ]

    return solve


if __name__ == "__main__":
    timing.main({"pgmpy": load})
