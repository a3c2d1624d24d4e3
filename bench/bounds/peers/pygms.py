"""What the two methods of pyGMs share: the model, from arrays."""

import pygms

from peers import arrays


def load(model, evidence):
    """Its own conditioning would leave a factor with zeros for every observed variable."""
    card, factors, constant, rest = arrays.read(model, evidence)
    variables = [pygms.Var(v, states) for v, states in enumerate(card)]
    graph = pygms.GraphModel([pygms.Factor([variables[v] for v in s], table) for s, table in factors])
    return graph, constant, rest
