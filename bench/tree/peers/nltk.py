"""NLTK: the most probable tree of a sentence, by its Viterbi parser or its probabilistic chart parser."""

import math

import numpy as np
from nltk import PCFG
from nltk.parse import InsideChartParser, ViterbiParser

import timing


def with_parser(make):
    """A loader for one of the parsers."""

    def load(problem):
        parser = make(PCFG.fromstring(problem.text))

        def solve():
            best = next(iter(parser.parse(problem.sentence)))
            return np.array([math.log(best.prob())]), {}

        return solve

    return load


if __name__ == "__main__":
    timing.main(
        {
            # Its own limit of 5 s is lifted; the benchmark has one.
            "nltk-viterbi": {"grammar": with_parser(lambda grammar: ViterbiParser(grammar, max_time=None))},
            "nltk-inside-chart": {"grammar": with_parser(InsideChartParser)},
        }
    )
