"""pomegranate: the step of `DenseHMM.fit`, `summarize` and `from_summaries`."""

import torch
from pomegranate.distributions import Categorical, Normal
from pomegranate.hmm import DenseHMM

import timing
from problem import STEPS


def load(problem):
    """A model with the initial parameters, in single precision: it does not accept doubles.

    It always has probabilities of the last state, which it trains too, so its log-likelihood differs.
    """
    torch.set_num_threads(problem.threads)
    states, sequences = len(problem.start), len(problem.lengths)
    shape = (sequences, problem.lengths[0], problem.observations.shape[1])
    kind = torch.int64 if problem.family == "categorical" else torch.float32
    data = torch.tensor(problem.observations.reshape(shape), dtype=kind)

    def single(values):
        return torch.tensor(values, dtype=torch.float32)

    def distribution(row):
        if problem.family == "categorical":
            return Categorical(single(row)[None])
        return Normal(single(row), torch.ones(len(row)), covariance_type="diag")

    def solve():
        model = DenseHMM(
            [distribution(row) for row in problem.emissions],
            edges=single(problem.transitions),
            starts=single(problem.start),
            ends=torch.full((states,), 1.0 / states),
        )
        with torch.no_grad():
            for _ in range(STEPS):
                log = model.summarize(data).sum()
                model.from_summaries()
        return float(log)

    return solve


if __name__ == "__main__":
    timing.main({"pomegranate": load})
