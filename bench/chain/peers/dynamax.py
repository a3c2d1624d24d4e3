"""dynamax: the gradient of a filter's marginal log-likelihood, compiled by JAX; sequential or parallel.

The filters take a table of transition probabilities. Those of low rank are multiplied out as a part of the
operation, and sparse ones are scattered into a table of zeros.
"""

import jax
import jax.numpy as jnp
import numpy as np
from dynamax.hidden_markov_model import hmm_filter, parallel_hmm_filter

import timing


def dense(problem):
    """The table as it is."""
    return lambda tables: jnp.exp(tables["transitions"])


def low_rank(problem):
    """The product of the two factors."""
    return lambda tables: jnp.exp(tables["log_left"]) @ jnp.exp(tables["log_right"]).T


def sparse(problem):
    """A table with the entries."""
    states = problem.shape[2]
    rows = np.repeat(np.arange(states), np.diff(problem.pattern["indptr"]))
    place = (jnp.array(rows), jnp.array(problem.pattern["indices"]))
    return lambda tables: jnp.zeros((states, states)).at[place].set(jnp.exp(tables["transitions"]))


def with_filter(hmm_filter, form):
    """A loader for one of the filters and a form of transitions."""

    def load(problem):
        start = jnp.exp(jnp.array(problem.start))
        probabilities_of = form(problem)
        scores = (
            {name: jnp.array(table) for name, table in problem.tables.items()},
            jnp.array(problem.emissions),
        )

        def total(tables, emissions):
            probabilities = probabilities_of(tables)
            log_z = jax.vmap(lambda e: hmm_filter(start, probabilities, e).marginal_loglik)(emissions)
            return log_z.sum(), log_z

        gradient = jax.jit(jax.value_and_grad(total, argnums=(0, 1), has_aux=True))

        def solve():
            (_, log_z), (tables, emissions) = jax.block_until_ready(gradient(*scores))
            return (
                np.asarray(log_z),
                {name: np.asarray(g) for name, g in tables.items()},
                np.asarray(emissions),
            )

        return solve

    return load


if __name__ == "__main__":
    forms = {"dense": dense, "low-rank": low_rank, "sparse": sparse}
    timing.main(
        {
            name: {form: with_filter(own, make) for form, make in forms.items()}
            for name, own in (("dynamax", hmm_filter), ("dynamax-par", parallel_hmm_filter))
        }
    )
