"""zhat: builds the chain and computes log Z and the gradient in each call."""

import zhat

import timing


def load(problem):
    """Arrays are used in place; every form of transitions has the name of its arguments."""

    def solve():
        chain = zhat.Chain(problem.emissions, **problem.tables, **problem.pattern, start=problem.start)
        log_z, gradient = chain.log_partition_and_gradient(threads=problem.threads)
        return log_z, {name: getattr(gradient, name) for name in problem.tables}, gradient.emissions

    return solve


if __name__ == "__main__":
    timing.main({"zhat": dict.fromkeys(("dense", "low-rank", "sparse"), load)})
