"""zhat: `Hmm.fit` from given parameters."""

import warnings

import numpy as np
import zhat

import timing
from problem import STEPS

warnings.simplefilter("ignore")


def load(problem):
    """A model with the initial parameters."""
    emissions = {"emissionprob": problem.emissions}
    if problem.family == "gaussian":
        emissions = {"means": problem.emissions, "covars": np.ones_like(problem.emissions)}
    given = zhat.Hmm.from_parameters(problem.start, problem.transitions, **emissions)
    state = given.__getstate__()

    def solve():
        model = zhat.Hmm.__new__(zhat.Hmm)
        model.__setstate__(state)
        model.set_params(warm_start=True, max_iter=STEPS, tol=0.0, threads=problem.threads)
        model.fit(problem.observations, problem.lengths)
        return model.history_[STEPS - 1].objective

    return solve


if __name__ == "__main__":
    timing.main({"zhat": load})
