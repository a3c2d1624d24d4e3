"""hmmlearn: `CategoricalHMM.fit` and `GaussianHMM.fit`, scaled or in the log domain."""

import logging
import warnings

import numpy as np
from hmmlearn import hmm

import timing
from problem import STEPS, SYMBOLS

warnings.simplefilter("ignore")
logging.getLogger("hmmlearn").setLevel(logging.ERROR)


def with_implementation(implementation):
    """A loader for one of the implementations."""

    def load(problem):
        def solve():
            options = {"n_iter": STEPS, "tol": -np.inf, "init_params": "", "implementation": implementation}
            if problem.family == "categorical":
                model = hmm.CategoricalHMM(len(problem.start), n_features=SYMBOLS, **options)
                model.emissionprob_ = problem.emissions.copy()
            else:
                # Without the prior of the covariances that hmmlearn has by default.
                priors = {"covars_prior": 0.0, "covars_weight": 1.0}
                model = hmm.GaussianHMM(len(problem.start), covariance_type="diag", **priors, **options)
                model.means_ = problem.emissions.copy()
                model.covars_ = np.ones_like(problem.emissions)
            model.startprob_, model.transmat_ = problem.start.copy(), problem.transitions.copy()
            model.fit(problem.observations, problem.lengths)
            return float(model.monitor_.history[-1])

        return solve

    return load


if __name__ == "__main__":
    timing.main(
        {"hmmlearn-scaling": with_implementation("scaling"), "hmmlearn-log": with_implementation("log")}
    )
