"""pyAgrum: `LazyPropagation`, a new engine for each call."""

import pyagrum

import timing
from common import peer


def load(problem):
    """The same network, converted by zhat."""
    network = problem.graph.to_pyagrum()
    names, states = problem.graph.names, problem.graph.state_names

    def solve():
        engine = pyagrum.LazyPropagation(network)
        engine.setNumberOfThreads(problem.threads)
        engine.setEvidence(problem.evidence)
        engine.makeInference()
        return [
            peer.point_mass(len(own), own.index(problem.evidence[name]))
            if name in problem.evidence
            else engine.posterior(name).toarray()
            for name, own in zip(names, states, strict=True)
        ]

    return solve


if __name__ == "__main__":
    timing.main({"pyAgrum": load})
