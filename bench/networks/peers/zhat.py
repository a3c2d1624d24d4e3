"""zhat: `FactorGraph.marginals`, with nothing kept from one call to the next."""

import timing


def load(problem):
    """The model with its evidence."""
    graph = problem.graph.condition(problem.evidence)

    def solve():
        graph.clear_cache()
        return list(graph.marginals(threads=problem.threads).value)

    return solve


if __name__ == "__main__":
    timing.main({"zhat": load})
