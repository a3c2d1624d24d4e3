"""hmmlearn: its compiled forward-backward algorithm, scaled or in the log domain.

It has double precision only and takes one sequence at a time. The public classes normalise emissions, so the
functions of the extension module are called directly, as `hmmlearn.base` does.
"""

import numpy as np
from hmmlearn import _hmmc

import timing


def scaling(start, transitions, emissions):
    """With probabilities divided by their sum at each position."""
    probabilities = np.exp(emissions)
    log_z, forward, scales = _hmmc.forward_scaling(start, transitions, probabilities)
    backward = _hmmc.backward_scaling(start, transitions, probabilities, scales)
    posterior = forward * backward
    pairs = _hmmc.compute_scaling_xi_sum(forward, transitions, backward, probabilities)
    return log_z, pairs, posterior / posterior.sum(1, keepdims=True)


def log_domain(start, transitions, emissions):
    """With logarithms throughout."""
    log_z, forward = _hmmc.forward_log(start, transitions, emissions)
    backward = _hmmc.backward_log(start, transitions, emissions)
    pairs = np.exp(_hmmc.compute_log_xi_sum(forward, transitions, backward, emissions))
    return log_z, pairs, np.exp(forward + backward - log_z)


def with_algorithm(algorithm):
    """A loader for one of the algorithms."""

    def load(problem):
        start = np.exp(problem.start.astype(np.float64))
        transitions = np.exp(problem.transitions.astype(np.float64))
        emissions = problem.emissions.astype(np.float64)

        def solve():
            log_z = np.empty(len(emissions))
            transition_gradient = np.zeros_like(transitions)
            emission_gradient = np.empty_like(emissions)
            for b, sequence in enumerate(emissions):
                log_z[b], pairs, emission_gradient[b] = algorithm(start, transitions, sequence)
                transition_gradient += pairs
            return log_z, {"transitions": transition_gradient}, emission_gradient

        return solve

    return load


if __name__ == "__main__":
    timing.main(
        {
            "hmmlearn-scaling": {"dense": with_algorithm(scaling)},
            "hmmlearn-log": {"dense": with_algorithm(log_domain)},
        }
    )
