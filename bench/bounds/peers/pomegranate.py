"""pomegranate: loopy belief propagation in single precision; marginals only, it does not return messages."""

import torch
from pomegranate.distributions import Categorical, JointCategorical
from pomegranate.factor_graph import FactorGraph

from common import peer
from peers import arrays


def load(model, evidence):
    """Factors are normalised, as pomegranate requires."""
    card, factors, _, rest = arrays.read(model, evidence)
    graph = FactorGraph()
    variables = [Categorical(torch.full((1, states), 1.0 / states)) for states in card]
    for variable in variables:
        graph.add_marginal(variable)
    for scope, table in factors:
        values = torch.tensor(table / table.sum(), dtype=torch.float32)
        factor = JointCategorical(values) if len(scope) > 1 else Categorical(values[None])
        graph.add_factor(factor)
        for v in scope:
            graph.add_edge(variables[v], factor)
    return graph, card, rest


def marginals(graph, card, rest):
    """Each call starts from the beginning, with more iterations."""
    nothing = torch.zeros((1, len(card)), dtype=torch.bool)
    unknown = torch.masked.MaskedTensor(torch.zeros((1, len(card)), dtype=torch.int64), mask=nothing)

    def answer(iterations):
        graph.max_iter = iterations
        beliefs = [belief[0].tolist() for belief in graph.predict_proba(unknown)]
        return arrays.expand(beliefs, rest), [p for belief in beliefs for p in belief]

    return arrays.until_equal(answer, tolerance=1e-6)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with torch.no_grad():
        peer.main(load, {"marginals": marginals})
