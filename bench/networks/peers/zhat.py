"""zhat: `FactorGraph.condition` and `marginals`, with nothing kept from one call to the next."""

import timing


def load(problem):
    """The model, which is given its evidence in each call, as the other libraries are."""

    def solve():
        graph = problem.graph.condition(problem.evidence)
        graph.clear_cache()
        return list(graph.marginals(threads=problem.threads).value)

    return solve


if __name__ == "__main__":
    timing.main({"zhat": load})
