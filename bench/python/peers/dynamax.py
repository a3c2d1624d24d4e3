"""dynamax: log Z by `hmm_filter`, and the gradient of the log-likelihood, compiled by JAX.

dynamax has no conditional random field. Its filter takes any nonnegative start weights, table of transitions
and weights of states, so log Z comes from the filter and the score of the tags from indexing.
"""

import jax
import jax.numpy as jnp
from dynamax.hidden_markov_model import hmm_filter

import timing


def load(problem):
    """The gradient with respect to all scores; the end scores belong to the last position."""
    tags = jnp.array(problem.tags)
    scores = tuple(
        jnp.array(own) for own in (problem.start, problem.end, problem.emissions, problem.transitions)
    )

    def likelihood(start, end, emissions, transitions):
        initial, table = jnp.exp(start), jnp.exp(transitions)
        ended = emissions.at[:, -1].add(end)
        log_z = jax.vmap(lambda own: hmm_filter(initial, table, own).marginal_loglik)(ended)
        seen = jnp.take_along_axis(ended, tags[..., None], 2).sum()
        return start[tags[:, 0]].sum() + seen + transitions[tags[:, :-1], tags[:, 1:]].sum() - log_z.sum()

    step = jax.jit(jax.value_and_grad(likelihood, argnums=(0, 1, 2, 3)))

    def solve():
        value, gradients = jax.block_until_ready(step(*scores))
        return value, gradients[-1]

    return solve


if __name__ == "__main__":
    timing.main({"dynamax": load})
