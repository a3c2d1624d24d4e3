"""pyGMs: weighted mini-buckets, upper and lower, with tables of 2⁸, 2¹¹, 2¹⁴ … states, 20 sweeps each."""

from math import inf, isfinite, log

import numpy as np
from pygms import VarSet, eliminationOrder
from pygms.wmb import WMB

from common import peer
from peers import arrays, pygms

SIZES = [2**power for power in range(8, 64, 3)]
SWEEPS = 20


def sweeps(graph, order, states, side):
    """The mini-buckets and their bound after each sweep, while it is finite."""
    buckets = WMB(graph, elimOrder=order, sBound=states, weights=side)
    for sweep in range(SWEEPS):
        # The first sweep has no optimisation steps: if factors contain zeros, the steps give NaN.
        steps = {"stepTheta": 0.5, "stepWeights": 0.1} if sweep else {"stepTheta": 0, "stepWeights": 0}
        bound = buckets.msgForward(**steps)
        if not isfinite(bound):
            return
        yield buckets, bound
        buckets.msgBackward()


def is_exact(buckets):
    """Whether no bucket is split, so that the bound is exact."""
    return all(len(bucket) <= 1 for bucket in buckets.buckets)


def log10_partition(graph, constant, _rest):
    """The middle of the best bounds so far, or the upper bound if there is no lower one."""
    order = eliminationOrder(graph, "wtminfill")[0]
    low, high = -inf, inf
    for states in SIZES:
        for side in ("sum+", "sum-"):
            for buckets, bound in sweeps(graph, order, states, side):
                value, exact = (bound + constant) / log(10), is_exact(buckets)
                high = min(high, value) if side == "sum+" or exact else high
                low = max(low, value) if side == "sum-" or exact else low
                yield {"value": (low + high) / 2 if isfinite(low) else high, "low": low, "high": high}
                if exact:
                    return


def marginals(graph, _constant, rest):
    """The beliefs from the mini-buckets of the upper bound."""
    order = eliminationOrder(graph, "wtminfill")[0]
    wanted = [VarSet([variable]) for variable in graph.X]
    answered = False
    for states in SIZES:
        for buckets, _ in sweeps(graph, order, states, "sum+"):
            beliefs = buckets.msgBackward(beliefs=wanted)
            tables = [np.atleast_1d(beliefs[v].table) for v in wanted]
            if not answered or np.isfinite(np.concatenate(tables)).all():
                answered = True
                yield {"value": arrays.expand([table.tolist() for table in tables], rest)}
            if is_exact(buckets):
                return


if __name__ == "__main__":
    np.seterr(all="ignore")
    peer.main(pygms.load, {"logz": log10_partition, "marginals": marginals})
