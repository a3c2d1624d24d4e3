"""dynamax: the EM step of `CategoricalHMM` and `DiagonalGaussianHMM.fit_em`, compiled once by JAX."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from dynamax.hidden_markov_model import CategoricalHMM, DiagonalGaussianHMM

import timing
from problem import COLUMNS, STEPS, SYMBOLS

jax.config.update("jax_enable_x64", True)


def load(problem):
    """The step of `fit_em`, which compiles it again in every call, as one compiled function."""
    states, sequences = len(problem.start), len(problem.lengths)
    shape = (sequences, problem.lengths[0], problem.observations.shape[1])
    emissions = jnp.array(problem.observations.reshape(shape))
    priors = {"initial_probs_concentration": 1.0, "transition_matrix_concentration": 1.0}
    given = {
        "initial_probs": jnp.array(problem.start),
        "transition_matrix": jnp.array(problem.transitions),
    }
    if problem.family == "categorical":
        hmm = CategoricalHMM(states, 1, SYMBOLS, emission_prior_concentration=1.0, **priors)
        given["emission_probs"] = jnp.array(problem.emissions)[:, None, :]
    else:
        # With its default priors: without them, its M-step divides by zero here.
        hmm = DiagonalGaussianHMM(states, COLUMNS)
        given["emission_means"] = jnp.array(problem.emissions)
        given["emission_scale_diags"] = jnp.ones_like(given["emission_means"])
    start, properties = hmm.initialize(jax.random.PRNGKey(0), **given)

    @jax.jit
    def step(parameters, state):
        statistics, logs = jax.vmap(partial(hmm.e_step, parameters))(emissions)
        parameters, state = hmm.m_step(parameters, properties, statistics, state)
        return parameters, state, logs.sum()

    def solve():
        parameters, state = start, hmm.initialize_m_step_state(start, properties)
        for _ in range(STEPS):
            parameters, state, log = step(parameters, state)
        return float(np.asarray(jax.block_until_ready(log)))

    return solve


if __name__ == "__main__":
    timing.main({"dynamax": load})
