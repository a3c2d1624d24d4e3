"""Other predictors, made of scikit-learn's logistic regression and nearest neighbours.

The strength of the penalty and the number of neighbours are chosen by inner folds of the training rows.
"""

import warnings
from itertools import combinations, product

import numpy as np
from data import Rows
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0)
NEIGHBOURS = (3, 5, 10, 15, 20, 30)
LEAST = 1e-15

warnings.filterwarnings("ignore", category=ConvergenceWarning)
warnings.filterwarnings("ignore", category=FutureWarning)


class Constant:
    """A classifier for a column with one value only: Laplace's estimate."""

    def __init__(self, value: int, rows: int) -> None:
        """Remembers the value and the number of rows."""
        self.one = (rows * value + 1) / (rows + 2)

    def predict_proba(self, inputs: np.ndarray) -> np.ndarray:
        """The same probabilities for all rows."""
        return np.tile([1 - self.one, self.one], (len(inputs), 1))


def fitted(inputs: np.ndarray, column: np.ndarray, strength: float) -> LogisticRegression | Constant:
    """A logistic regression of a column of zeros and ones."""
    if column.min() == column.max():
        return Constant(int(column[0]), len(column))
    return LogisticRegression(C=strength, solver="newton-cholesky").fit(inputs, column)


def chosen(inputs: np.ndarray, column: np.ndarray, strengths: tuple[float, ...], folds: int) -> float:
    """The strength of smallest log-loss on inner folds."""
    losses = []
    for strength in strengths:
        loss = 0.0
        for rest, own in KFold(folds, shuffle=True, random_state=0).split(inputs):
            one = fitted(inputs[rest], column[rest], strength).predict_proba(inputs[own])[:, 1]
            p = np.where(column[own] == 1, one, 1 - one)
            loss -= np.log(np.maximum(p, LEAST)).sum()
        losses.append(loss)
    return strengths[int(np.argmin(losses))]


SETS = np.array(list(product((0, 1), repeat=6)))


def set_figures(probabilities: np.ndarray, targets: np.ndarray, strict: bool = True) -> dict[str, float]:
    """Measures of a distribution over all sets, one row per row of data; columns as in SETS."""
    places = (targets @ (1 << np.arange(5, -1, -1))).astype(int)
    own = probabilities[np.arange(len(targets)), places]
    best = SETS[probabilities.argmax(1)]
    single = (probabilities @ SETS > 0.5).astype(int)
    with np.errstate(divide="ignore"):
        log_loss = -np.log(own).mean() if strict else -np.log(own[own > 0]).mean()
    return {
        "log_loss": float(log_loss),
        "subset_accuracy": float((best == targets).all(1).mean()),
        "hamming_loss": float((single != targets).mean()),
    }


def label_sets(train: Rows, test: Rows) -> dict[str, dict[str, float]]:
    """Binary relevance, classifier chains of ten orders and label powerset."""
    scaler = StandardScaler().fit(train.inputs)
    x, new = scaler.transform(train.inputs), scaler.transform(test.inputs)
    y = train.targets
    labels = y.shape[1]
    strengths = [chosen(x, y[:, i], STRENGTHS, 3) for i in range(labels)]
    ones = np.stack(
        [fitted(x, y[:, i], strengths[i]).predict_proba(new)[:, 1] for i in range(labels)], axis=1
    )
    law = np.prod(np.where(SETS[None] == 1, ones[:, None], 1 - ones[:, None]), axis=2)
    found = {"binary relevance": set_figures(law, test.targets)}
    random = np.random.default_rng(0)
    laws = []
    for _ in range(10):
        order = random.permutation(labels)
        law = np.ones((len(new), len(SETS)))
        for place, label in enumerate(order):
            before = order[:place]
            model = fitted(np.hstack([x, y[:, before]]), y[:, label], strengths[label])
            for states in product((0, 1), repeat=place):
                one = model.predict_proba(np.hstack([new, np.tile(states, (len(new), 1))]))[:, 1]
                fits = (SETS[:, before] == states).all(1)
                law[:, fits & (SETS[:, label] == 1)] *= one[:, None]
                law[:, fits & (SETS[:, label] == 0)] *= (1 - one)[:, None]
        laws.append(law)
    each = [set_figures(law, test.targets) for law in laws]
    found["classifier chain, mean of ten orders"] = {
        name: float(np.mean([figures[name] for figures in each])) for name in each[0]
    }
    found["ensemble of the ten chains"] = set_figures(np.mean(laws, axis=0), test.targets)
    codes = (y @ (1 << np.arange(5, -1, -1))).astype(int)
    losses = []
    for strength in STRENGTHS:
        loss = 0.0
        for rest, own in KFold(3, shuffle=True, random_state=0).split(x):
            model = LogisticRegression(C=strength, max_iter=200).fit(x[rest], codes[rest])
            p = model.predict_proba(x[own])
            place = {code: i for i, code in enumerate(model.classes_)}
            loss -= sum(
                np.log(max(p[i, place[code]], LEAST)) for i, code in enumerate(codes[own]) if code in place
            )
        losses.append(loss)
    model = LogisticRegression(C=STRENGTHS[int(np.argmin(losses))], max_iter=200).fit(x, codes)
    law = np.zeros((len(new), len(SETS)))
    law[:, model.classes_] = model.predict_proba(new)
    found["label powerset"] = set_figures(law, test.targets)
    found["label powerset, sets seen in training"] = set_figures(law, test.targets, strict=False)
    return found


def kendall(a: np.ndarray, b: np.ndarray) -> float:
    """The mean of Kendall's τ over rows of ranks; ties count 0."""
    n = a.shape[1]
    sums = [np.sign(a[:, i] - a[:, j]) * np.sign(b[:, i] - b[:, j]) for i, j in combinations(range(n), 2)]
    return float(np.mean(sums))


def ranks(scores: np.ndarray) -> np.ndarray:
    """The ranks of the items, the largest score first."""
    return (-scores).argsort(1, kind="stable").argsort(1) + 1


def rankings(train: Rows, test: Rows) -> dict[str, float]:
    """Ranking by pairwise comparison, and nearest neighbours with Borda counts: τ on the test rows."""
    scaler = StandardScaler().fit(train.inputs)
    x, new = scaler.transform(train.inputs), scaler.transform(test.inputs)
    n = train.targets.shape[1]
    votes = np.zeros((len(new), n))
    for i, j in combinations(range(n), 2):
        first = (train.targets[:, i] < train.targets[:, j]).astype(int)
        p = fitted(x, first, chosen(x, first, STRENGTHS, 3)).predict_proba(new)[:, 1]
        votes[:, i] += p
        votes[:, j] += 1 - p
    found = {"pairwise comparison": kendall(ranks(votes), test.targets)}

    def borda(x: np.ndarray, y: np.ndarray, new: np.ndarray, count: int) -> np.ndarray:
        near = NearestNeighbors(n_neighbors=min(count, len(x))).fit(x).kneighbors(new, return_distance=False)
        return ranks(-y[near].mean(1))

    scores = []
    for count in NEIGHBOURS:
        parts = KFold(5, shuffle=True, random_state=0).split(x)
        scores.append(
            np.mean([kendall(borda(x[a], train.targets[a], x[b], count), train.targets[b]) for a, b in parts])
        )
    best = NEIGHBOURS[int(np.argmax(scores))]
    found["nearest neighbours, Borda"] = kendall(borda(x, train.targets, new, best), test.targets)
    return found
