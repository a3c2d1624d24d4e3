"""NumPy: the scaled forward-backward algorithm, with one matrix product per position for all sequences."""

import numpy as np

import timing


def load(problem):
    """The exponentials are part of each call."""
    sequences, positions, states = problem.shape

    def solve():
        transitions = np.exp(problem.transitions)
        largest = problem.emissions.max(2, keepdims=True)
        emissions = np.exp(problem.emissions - largest)
        forward = np.empty((positions, sequences, states), np.float32)
        scales = np.empty((positions, sequences, 1), np.float32)
        message = np.exp(problem.start)[None] * emissions[:, 0]
        for t in range(positions):
            if t:
                message = (forward[t - 1] @ transitions) * emissions[:, t]
            scales[t] = message.sum(1, keepdims=True)
            forward[t] = message / scales[t]
        log_z = np.log(scales).sum((0, 2)) + largest.sum((1, 2))

        emission_gradient = np.empty((sequences, positions, states), np.float32)
        transition_gradient = np.zeros((states, states), np.float32)
        backward = np.ones((sequences, states), np.float32)
        for t in reversed(range(positions)):
            emission_gradient[:, t] = forward[t] * backward
            if t:
                weights = backward * emissions[:, t] / scales[t]
                transition_gradient += forward[t - 1].T @ weights
                backward = weights @ transitions.T
        return log_z, transition_gradient * transitions, emission_gradient

    return solve


if __name__ == "__main__":
    timing.main({"numpy-scaled": load})
