"""Shared by the two methods of pyGMs: builds the model from arrays."""

import pygms

from peers import arrays


def load(model, evidence):
    """Evidence is applied before, because `condition` leaves a factor with zeros per observed variable."""
    card, factors, constant, rest = arrays.read(model, evidence)
    variables = [pygms.Var(v, states) for v, states in enumerate(card)]
    graph = pygms.GraphModel([pygms.Factor([variables[v] for v in s], table) for s, table in factors])
    return graph, constant, rest
