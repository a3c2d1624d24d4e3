"""zhat: builds the model and computes the result in each call. Arrays are used in place."""

import numpy as np
import zhat

import timing


def gradients(make):
    """A loader for a kind of model: log Z and the gradient with respect to all arrays."""

    def load(problem):
        def solve():
            log_z, gradient = make(problem).log_partition_and_gradient(threads=problem.threads)
            return log_z, {name: getattr(gradient, name) for name in problem.arrays}

        return solve

    return load


def dependencies(projective):
    """Dependency trees with any number of roots."""
    return gradients(lambda problem: zhat.DependencyTree(**problem.arrays, projective=projective))


def best_tree(problem):
    """The grammar is read once, the sentence in each call."""
    grammar = zhat.Grammar.from_text(problem.text)

    def solve():
        best = grammar.map(input=[problem.sentence], threads=problem.threads).value[0]
        return np.array([best.score]), {}

    return solve


if __name__ == "__main__":
    timing.main(
        {
            "zhat": {
                "dependency": dependencies(True),
                "nonprojective": dependencies(False),
                "span": gradients(lambda problem: zhat.Hypertree(**problem.arrays)),
                "cfg": gradients(lambda problem: zhat.Hypertree(**problem.arrays)),
                "rank": gradients(lambda problem: zhat.Hypertree(**problem.arrays)),
                "embedded": gradients(lambda problem: zhat.Hypertree(**problem.arrays)),
                "grammar": best_tree,
            }
        }
    )
