"""Variable elimination in NumPy: min-fill order, tables in the linear domain divided by their maximum."""

from itertools import combinations
from math import inf, log

import numpy as np

from common import peer, uai

LOG2_LARGEST_TABLE = 29


def min_fill_order(factors):
    """Eliminates the variable that adds the fewest edges; ties go to the one with the fewest neighbours."""
    neighbours = {}
    for scope, _ in factors:
        for v in scope:
            neighbours.setdefault(v, set()).update(u for u in scope if u != v)

    def fill(v):
        return sum(b not in neighbours[a] for a, b in combinations(neighbours[v], 2))

    fills, order = {v: fill(v) for v in neighbours}, []
    while neighbours:
        v = min(fills, key=lambda u: (fills[u], len(neighbours[u])))
        around = neighbours.pop(v)
        del fills[v]
        order.append(v)
        for u in around:
            neighbours[u] |= around
            neighbours[u] -= {u, v}
        for u in around.union(*(neighbours[u] for u in around)):
            fills[u] = fill(u)
    return order


def product(factors, scope, card):
    """The product of the factors over `scope`, divided by its maximum, and ln of what it was divided by."""
    shape = [card[v] for v in scope]
    if np.log2(shape).sum() > LOG2_LARGEST_TABLE:
        raise MemoryError(f"table of 2^{np.log2(shape).sum():.1f} values")
    table, log_scale = np.ones(shape), 0.0
    for factor_scope, values in factors:
        axes = [scope.index(v) for v in factor_scope]
        aligned = [card[v] if v in factor_scope else 1 for v in scope]
        table *= np.transpose(values, np.argsort(axes)).reshape(aligned)
        largest = table.max()
        if largest <= 0:
            return table, -inf
        table /= largest
        log_scale += log(largest)
    return table, log_scale


def log_partition(card, factors, order):
    """ln Z by bucket elimination: each factor waits in the bucket of its first variable in the order."""
    position = {v: i for i, v in enumerate(order)}
    buckets = [[] for _ in order]
    log_z = 0.0

    def place(scope, table):
        nonlocal log_z
        if scope:
            buckets[min(position[v] for v in scope)].append((scope, table))
        else:
            log_z += log(float(table)) if table > 0 else -inf

    for scope, table in factors:
        place(scope, table)
    for i in range(len(order)):
        scope = sorted({v for s, _ in buckets[i] for v in s}, key=position.get)
        table, log_scale = product(buckets[i], scope, card)
        log_z += log_scale
        if log_z == -inf:
            return log_z
        buckets[i] = None
        place(scope[1:], table.sum(axis=0))
    return log_z


def log10_partition(card, factors, observed):
    """Variables in no factor multiply Z by their number of states."""
    order = min_fill_order(factors)
    seen = set(order) | set(observed)
    log_free = sum(log(states) for v, states in enumerate(card) if v not in seen)
    return (log_partition(card, factors, order) + log_free) / log(10)


def load(model, evidence):
    """Reads the model and fixes the observed variables."""
    _, card, factors = uai.read_model(model)
    observed = uai.read_evidence(evidence)
    return card, uai.condition(factors, observed), observed


if __name__ == "__main__":
    peer.main(load, {"logz": log10_partition})
