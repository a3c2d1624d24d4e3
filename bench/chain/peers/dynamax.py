"""dynamax: the gradient of a filter's marginal log-likelihood, compiled by JAX; sequential or parallel."""

import jax
import jax.numpy as jnp
import numpy as np
from dynamax.hidden_markov_model import hmm_filter, parallel_hmm_filter

import timing


def with_filter(hmm_filter):
    """A loader for one of the filters."""

    def load(problem):
        start = jnp.exp(jnp.array(problem.start))
        scores = jnp.array(problem.transitions), jnp.array(problem.emissions)

        def total(transitions, emissions):
            probabilities = jnp.exp(transitions)
            log_z = jax.vmap(lambda e: hmm_filter(start, probabilities, e).marginal_loglik)(emissions)
            return log_z.sum(), log_z

        gradient = jax.jit(jax.value_and_grad(total, argnums=(0, 1), has_aux=True))

        def solve():
            (_, log_z), gradients = jax.block_until_ready(gradient(*scores))
            return np.asarray(log_z), *map(np.asarray, gradients)

        return solve

    return load


if __name__ == "__main__":
    timing.main({"dynamax": with_filter(hmm_filter), "dynamax-par": with_filter(parallel_hmm_filter)})
