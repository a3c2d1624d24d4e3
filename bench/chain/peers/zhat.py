"""zhat: builds the chain and computes log Z and the gradient in each call."""

import zhat

import timing


def load(problem):
    """Arrays are used in place."""

    def solve():
        chain = zhat.Chain(problem.emissions, problem.transitions, start=problem.start)
        log_z, gradient = chain.log_partition_and_gradient(threads=problem.threads)
        return log_z, gradient.transitions, gradient.emissions

    return solve


if __name__ == "__main__":
    timing.main({"zhat": load})
