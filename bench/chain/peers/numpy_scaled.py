"""NumPy: the scaled forward-backward algorithm, with one matrix product per position for all sequences.

With low-rank transitions a step is two products with a factor each, with sparse ones a sum over the entries.
"""

import numpy as np

import timing


class Dense:
    """A table of N × N probabilities."""

    def __init__(self, problem):
        """The exponentials of the scores."""
        self.table = np.exp(problem.transitions)
        self.gradient = np.zeros_like(self.table)

    def forward(self, message):
        """The message times the table."""
        return message @ self.table

    def backward(self, message):
        """The table times the message."""
        return message @ self.table.T

    def add(self, before, after):
        """Adds the expected transitions between two positions to the gradient."""
        self.gradient += before.T @ after

    def result(self):
        """The gradient by name."""
        return {"transitions": self.gradient * self.table}


class LowRank:
    """Two factors of N × R probabilities."""

    def __init__(self, problem):
        """The exponentials of the scores."""
        self.left, self.right = np.exp(problem.tables["log_left"]), np.exp(problem.tables["log_right"])
        self.to_left, self.to_right = np.zeros_like(self.left), np.zeros_like(self.right)

    def forward(self, message):
        """Through the R intermediate states."""
        return (message @ self.left) @ self.right.T

    def backward(self, message):
        """The same in the other direction."""
        return (message @ self.right) @ self.left.T

    def add(self, before, after):
        """Adds the expected transitions through each intermediate state."""
        self.to_left += before.T @ (after @ self.right)
        self.to_right += after.T @ (before @ self.left)

    def result(self):
        """The gradients by name."""
        return {"log_left": self.to_left * self.left, "log_right": self.to_right * self.right}


class Sparse:
    """The probabilities of the listed transitions, in CSR form."""

    def __init__(self, problem):
        """The exponentials of the scores."""
        self.values, self.targets = np.exp(problem.transitions), problem.pattern["indices"]
        indptr = problem.pattern["indptr"]
        self.first, self.states = indptr[:-1], problem.shape[2]
        self.sources = np.repeat(np.arange(self.states), np.diff(indptr))
        self.gradient = np.zeros_like(self.values)

    def forward(self, message):
        """Adds up the entries by target."""
        rows = [np.bincount(self.targets, row[self.sources] * self.values, self.states) for row in message]
        return np.array(rows, np.float32)

    def backward(self, message):
        """Adds up the entries by source."""
        return np.add.reduceat(message[:, self.targets] * self.values, self.first, axis=1)

    def add(self, before, after):
        """Adds the expected uses of every entry."""
        self.gradient += (before[:, self.sources] * after[:, self.targets]).sum(0)

    def result(self):
        """The gradient by name."""
        return {"transitions": self.gradient * self.values}


def with_form(form):
    """A loader for a form of transitions."""

    def load(problem):
        """The exponentials are part of each call."""
        sequences, positions, states = problem.shape

        def solve():
            transitions = form(problem)
            largest = problem.emissions.max(2, keepdims=True)
            emissions = np.exp(problem.emissions - largest)
            forward = np.empty((positions, sequences, states), np.float32)
            scales = np.empty((positions, sequences, 1), np.float32)
            message = np.exp(problem.start)[None] * emissions[:, 0]
            for t in range(positions):
                if t:
                    message = transitions.forward(forward[t - 1]) * emissions[:, t]
                scales[t] = message.sum(1, keepdims=True)
                forward[t] = message / scales[t]
            log_z = np.log(scales).sum((0, 2)) + largest.sum((1, 2))

            emission_gradient = np.empty((sequences, positions, states), np.float32)
            backward = np.ones((sequences, states), np.float32)
            for t in reversed(range(positions)):
                emission_gradient[:, t] = forward[t] * backward
                if t:
                    weights = backward * emissions[:, t] / scales[t]
                    transitions.add(forward[t - 1], weights)
                    backward = transitions.backward(weights)
            return log_z, transitions.result(), emission_gradient

        return solve

    return load


if __name__ == "__main__":
    forms = {"dense": Dense, "low-rank": LowRank, "sparse": Sparse}
    timing.main({"numpy-scaled": {name: with_form(form) for name, form in forms.items()}})
