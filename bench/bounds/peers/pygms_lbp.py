"""pyGMs: loopy belief propagation with a parallel schedule, linear domain, fixed number of iterations."""

from math import log

import numpy as np
from pygms.messagepass import LBP

from common import peer
from peers import arrays, pygms


def log10_partition(graph, constant, _rest):
    """The Bethe approximation."""

    def answer(iterations):
        value = (float(LBP(graph, maxIter=iterations)[0]) + constant) / log(10)
        return value, [value]

    return arrays.until_equal(answer)


def marginals(graph, _constant, rest):
    """The beliefs of single variables."""

    def answer(iterations):
        beliefs = [belief.table.tolist() for belief in LBP(graph, maxIter=iterations)[1]]
        return arrays.expand(beliefs, rest), np.concatenate(beliefs)

    return arrays.until_equal(answer)


if __name__ == "__main__":
    np.seterr(all="ignore")
    peer.main(pygms.load, {"logz": log10_partition, "marginals": marginals})
