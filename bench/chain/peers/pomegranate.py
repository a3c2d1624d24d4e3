"""pomegranate: `DenseHMM.forward_backward`, given the emission scores."""

import torch
from pomegranate.distributions import Categorical
from pomegranate.hmm import DenseHMM

import timing


def parameter(values):
    """A parameter without a gradient, as `DenseHMM` stores them."""
    return torch.nn.Parameter(torch.as_tensor(values), requires_grad=False)


def load(problem):
    """The scores are set after construction, which would normalise them; every end has score 0."""
    torch.set_num_threads(problem.threads)
    states = problem.shape[2]
    uniform = torch.full((states,), 1.0 / states)
    unused = [Categorical([[1.0]]) for _ in range(states)]
    model = DenseHMM(unused, edges=uniform.expand(states, states).clone(), starts=uniform)
    model.starts = parameter(problem.start)
    model.edges = parameter(problem.transitions)
    model.ends = parameter(torch.zeros(states))
    emissions = torch.tensor(problem.emissions)

    def solve():
        transitions, posteriors, _, _, log_z = model.forward_backward(emissions=emissions)
        return log_z.numpy(), {"transitions": transitions.sum(0).numpy()}, torch.exp(posteriors).numpy()

    return solve


if __name__ == "__main__":
    timing.main({"pomegranate": {"dense": load}})
