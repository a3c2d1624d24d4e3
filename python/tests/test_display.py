"""Answers as HTML, frames and pictures, for every kind of model and every shape of answer."""

from __future__ import annotations

import math
import pickle
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import zhat
from zhat import _graph_layout, palette
from zhat.answer import Step

NASTY = '<b>&"'

NETWORK = zhat.FactorGraph(
    [2, 3, 2],
    [
        ((0,), [0.7, 0.3]),
        ((0, 1), [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]),
        ((1, 2), [[0.9, 0.1], [0.4, 0.6], [0.0, 1.0]]),
    ],
    log=False,
    names=["rain", NASTY, "score"],
    state_names=[["no", "yes"], ["low", "<i>mid</i>", "high"], None],
)
UNNAMED = zhat.FactorGraph([2, 2], [((0, 1), [[0.0, 1.0], [2.0, 0.5]])])
RNG = np.random.default_rng(3)
EMISSIONS = RNG.normal(size=(2, 5, 3))
TRANSITIONS = RNG.normal(size=(3, 3))
SEGMENTS = RNG.normal(size=(2, 3))
CHAIN = zhat.Chain(EMISSIONS[0], TRANSITIONS)
BATCH = zhat.Chain(EMISSIONS, TRANSITIONS)
RAGGED = zhat.Chain(EMISSIONS, TRANSITIONS, lengths=[5, 2])
SEMI = zhat.SemiMarkov(EMISSIONS[0], TRANSITIONS, segments=SEGMENTS)
SEMI_RAGGED = zhat.SemiMarkov(EMISSIONS, TRANSITIONS, segments=SEGMENTS, lengths=[5, 2])
PAIRWISE = zhat.PairwiseGraph(EMISSIONS[0], [(0, 1), (1, 2), (2, 3), (3, 4)], TRANSITIONS)
LINKS = [[0, 1.0, -0.5, 0.2], [0.0, 0, 0.3, -1.0], [0.0, 0, 0, 0.7], [0.0, 0, 0, 0]]
SPACES = {
    "hypercube": zhat.SpaceModel.hypercube([0.5, -1.0, 2.0], [(0, 2, 0.7)]),
    "signs": zhat.SpaceModel.hypercube([0.5, -1.0, 2.0], signs=True),
    "subtrees": zhat.SpaceModel.subtrees([None, 0, 0, 1], [0.5, -1.0, 2.0, 0.1]),
    "permutations": zhat.SpaceModel.permutations(position=RNG.normal(size=(4, 4))),
    "restricted": zhat.SpaceModel.permutations(position=RNG.normal(size=(4, 4))).restrict("before 0 3"),
    "cycles": zhat.SpaceModel.cycles(LINKS),
    "partitions": zhat.SpaceModel.partitions(LINKS),
}
MIXED = zhat.MixedModel([(0.0, 1.0)], [(-2.0, [(0, "power", 1)])])
CYCLE = zhat.SequenceMrf(7, [0.1, -0.4], [[[0.5, -1.0], [0.0, 2.0]]])
GRID = zhat.generate.ising(rows=4, columns=4, seed=1)

GRAPH_QUERIES = ("log_partition", "entropy", "marginals", "factor_marginals", "map", "k_best", "sample")
MODELS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "named graph": (NETWORK, GRAPH_QUERIES),
    "unnamed graph": (UNNAMED, GRAPH_QUERIES),
    "grid": (GRID, GRAPH_QUERIES),
    "chain": (CHAIN, GRAPH_QUERIES),
    "batch": (BATCH, GRAPH_QUERIES),
    "ragged batch": (RAGGED, GRAPH_QUERIES),
    "semi-Markov": (SEMI, GRAPH_QUERIES),
    "ragged semi-Markov": (SEMI_RAGGED, GRAPH_QUERIES),
    "pairwise": (PAIRWISE, GRAPH_QUERIES[:4]),
    "mixed": (MIXED, GRAPH_QUERIES[:1]),
    "cycle": (CYCLE, GRAPH_QUERIES[:1]),
    **{name: (model, ("log_partition", "marginals", "map", "sample")) for name, model in SPACES.items()},
}
CASES = [(name, query) for name, (_, queries) in MODELS.items() for query in queries]


def ask(name: str, query: str) -> Any:
    count = {"k_best": [3], "sample": [4]}.get(query, [])
    return getattr(MODELS[name][0], query)(*count)


class Strict(HTMLParser):
    """Checks that every element is closed in order and collects the text of each kind of element."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.texts.setdefault(tag, []).append("")
        for name, value in attrs:
            assert name not in ("src", "href", "onclick"), f"{tag} refers to {value}"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts[self.open[-1]][-1] += data


def parsed(html: str) -> Strict:
    """Parses HTML: balanced, valid XML, without fixed page colours, scripts or other resources."""
    parser = Strict()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    assert "script" not in parser.texts
    assert not re.search(r"background: *(white|#fff)|color: *(black|#000)|@import|url\(", html)
    ElementTree.fromstring(html)
    return parser


def pictures(html: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(html).iter("{http://www.w3.org/2000/svg}svg"))


def column(html: str, name: str) -> list[str]:
    """The texts of a column of the first table with such a header."""
    for table in ElementTree.fromstring(html).iter("table"):
        head = ["".join(cell.itertext()) for cell in table.iter("th")]
        if name in head:
            place = head.index(name)
            rows = [list(row.iter("td")) for row in table.iter("tr")]
            return ["".join(row[place].itertext()) for row in rows if len(row) == len(head)]
    raise AssertionError(f"no column {name}")


@pytest.mark.parametrize(("name", "query"), CASES)
def test_every_answer_has_html(name: str, query: str) -> None:
    answer = ask(name, query)
    html = answer._repr_html_()
    text = " ".join(parsed(html).texts["td"])
    assert answer.method in text
    assert str(answer.guarantee) in text
    assert query in html


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_html(name: str) -> None:
    model = MODELS[name][0]
    texts = parsed(model._repr_html_()).texts
    assert type(model).__name__ in texts["td"]
    if isinstance(model, (zhat.Chain, zhat.PairwiseGraph)):
        assert texts["td"][texts["th"].index("states")] == "3"


def test_html_shows_probabilities_by_name() -> None:
    html = NETWORK.marginals()._repr_html_()
    assert NASTY not in html
    beliefs = NETWORK.marginals().value
    assert column(html, "variable") == ["rain", "", NASTY, "", "", "score", ""]
    assert column(html, "state") == ["no", "yes", "low", "<i>mid</i>", "high", "0", "1"]
    assert column(html, "probability") == [f"{p:.6f}" for p in beliefs.flat]
    wide = UNNAMED.marginals()._repr_html_()
    assert column(wide, "variable") == ["x0", "x1"]
    assert column(wide, "1") == [f"{vector[1]:.6f}" for vector in UNNAMED.marginals().value]
    assert re.findall(r"/ ([\d.]+)% 4px", wide) == [f"{100 * p:.2f}" for p in UNNAMED.marginals().value.flat]


def test_large_answers_are_shortened() -> None:
    tree = zhat.generate.tree(variables=30, states=10)
    html = tree.marginals()._repr_html_()
    assert "… and 10 more variables" in html
    assert "… and 2 more states" in html
    parsed(html)
    best = parsed(tree.k_best(15)._repr_html_())
    assert "… 18 more" in best.texts["th"]
    assert any("and 5 more states" in text for text in best.texts["td"])
    assert "and 90 more samples" in parsed(tree.sample(100)._repr_html_()).texts["td"][-3]
    long = zhat.generate.chain(states=30, steps=500)
    html = long.marginals()._repr_html_()
    parsed(html)
    assert pictures(html) == []
    largest = long.marginals().value.max(axis=1)
    assert "500 positions, 30 states" in html
    assert f"mean {largest.mean():.6f}, least {largest.min():.6f}" in html
    assert len(html) < 2000


def test_html_of_bounds_is_an_interval() -> None:
    both = GRID.log_partition(method="wmb", i_bound=2)
    low, high = both.guarantee.low, both.guarantee.high
    (picture,) = pictures(both._repr_html_())
    labels = ["".join(text.itertext()) for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert len(labels) == 2
    assert low is not None
    assert high is not None
    assert low - 0.01 * (high - low) <= float(labels[0]) <= low
    assert high <= float(labels[1]) <= high + 0.01 * (high - low)
    (dot,) = picture.iter("{http://www.w3.org/2000/svg}circle")
    part = (float(dot.attrib["cx"]) - 20) / 300
    assert part == pytest.approx((both.value - low) / (high - low), abs=0.001)
    (picture,) = pictures(GRID.log_partition(method="mean-field")._repr_html_())
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}text"))) == 1
    assert pictures(GRID.log_partition(method="elimination")._repr_html_()) == []


def test_ends_of_narrow_intervals_are_told_apart() -> None:
    from zhat._html import ends

    for low, high in ((1.0, 1.0 + 1e-9), (-2.5, 0.0), (-3.25, -3.2), (1e6, 1e6 + 1e-3), (-1e-12, 2e-12)):
        first, second = ends(low, high)
        assert float(first) <= low < high <= float(second)
        assert first != second
        assert "-0" not in (first, second)
    assert ends(None, 2.0)[0] == ""
    assert float(ends(None, 2.0)[1]) >= 2.0


def test_html_of_chains_is_a_heat_map() -> None:
    marginals = RAGGED.marginals().value
    shown = pictures(RAGGED.marginals()._repr_html_())
    assert len(shown) == 2
    for b, (picture, length) in enumerate(zip(shown, (5, 2), strict=True)):
        titles = [title.text for title in picture.iter("{http://www.w3.org/2000/svg}title")]
        assert len(titles) == length * 3
        for t in range(length):
            for s in range(3):
                assert f"position {t}, state {s}: {marginals[b, t, s]:.6f}" in titles
        cells = list(picture.iter("{http://www.w3.org/2000/svg}rect"))
        assert cells[1].attrib["fill"] == palette.shade(marginals[b, 0, 1])


def test_html_of_spaces() -> None:
    html = SPACES["permutations"].marginals()._repr_html_()
    matrix = SPACES["permutations"].marginals().value
    titles = [title.text for title in pictures(html)[0].iter("{http://www.w3.org/2000/svg}title")]
    assert f"item 1, position 3: {matrix[1, 3]:.6f}" in titles
    assert "P(item is at position)" in html
    html = SPACES["hypercube"].marginals()._repr_html_()
    values = SPACES["hypercube"].marginals().value
    assert column(html, "probability") == [f"{p:.6f}" for p in values]


def test_html_of_states_and_samples() -> None:
    html = NETWORK.map()._repr_html_()
    best = NETWORK.map().value.by_name()
    assert column(html, "variable") == list(best)
    assert column(html, "state") == list(best.values())
    html = NETWORK.k_best(3)._repr_html_()
    assert column(html, "rank") == ["1", "2", "3"]
    assert column(html, NASTY) == [state.by_name()[NASTY] for state in NETWORK.k_best(3).value]
    weighted = NETWORK.sample(3, method="importance")
    html = weighted._repr_html_()
    assert "law weighted" in html
    assert len(column(html, "log weight")) == 3
    names = ["no", "yes"]
    assert column(html, "rain") == [names[code] for code in weighted.value.states[:, 0]]
    assert column(BATCH.map()._repr_html_(), "states") == [
        " ".join(map(str, path.states)) for path in BATCH.map().value
    ]
    assert column(SEMI.k_best(2)._repr_html_(), "segments") == [
        " ".join(f"{state}\N{MULTIPLICATION SIGN}{length}" for state, length in best.segments)
        for best in SEMI.k_best(2).value
    ]


def test_fitted_models_have_html() -> None:
    table = {"a<b": [0, 1, None, 1], "c": [0, 1, 1, 0]}
    fitted = zhat.fit(table)
    text = " ".join(parsed(fitted._repr_html_()).texts["td"])
    assert "1 row with missing values (a<b 1)" in text
    assert "nats per row" in text
    assert "converged" in text
    assert "FactorGraph(2 variables" in text
    assert "dropped" not in zhat.fit({"a": [0, 1], "c": [0, 1]})._repr_html_()
    model = zhat.LanguageModel.train([["<b>", "b"], ["b", "<b>"]], context=1, iterations=2)
    parsed(model._repr_html_())


LIBRARIES = ["pandas", "polars"]


def frame_of(answer: Any, library: str) -> dict[str, list[Any]]:
    """The columns of a frame."""
    pytest.importorskip(library)
    if library == "pandas":
        frame = answer.to_pandas()
        assert type(frame).__module__.startswith("pandas")
        return {str(name): frame[name].tolist() for name in frame.columns}
    frame = answer.to_polars()
    assert type(frame).__module__.startswith("polars")
    columns: dict[str, list[Any]] = frame.to_dict(as_series=False)
    return columns


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("name", "query"), CASES)
def test_every_answer_has_a_frame_or_says_why_not(name: str, query: str, library: str) -> None:
    pytest.importorskip(library)
    answer = ask(name, query)
    gradients = isinstance(answer.value, (zhat.ChainGradient, zhat.PairwiseGradient))
    if gradients:
        with pytest.raises(TypeError, match=r"not a table; numbers, probabilities"):
            frame_of(answer, library)
        return
    columns = frame_of(answer, library)
    assert len({len(values) for values in columns.values()}) == 1
    if not isinstance(answer.value, (float, np.ndarray, list)):
        assert frame_of(answer.value, library) == columns


@pytest.mark.parametrize("library", LIBRARIES)
def test_frames_of_factor_graphs(library: str) -> None:
    def frame(answer: Any) -> dict[str, list[Any]]:
        return frame_of(answer, library)

    marginals = frame(NETWORK.marginals())
    assert marginals["variable"] == ["rain"] * 2 + [NASTY] * 3 + ["score"] * 2
    assert marginals["state"] == ["no", "yes", "low", "<i>mid</i>", "high", "0", "1"]
    assert marginals["probability"] == NETWORK.marginals().value.flat.tolist()
    assert frame(NETWORK.marginals([NASTY]))["state"] == ["low", "<i>mid</i>", "high"]
    assert frame(UNNAMED.marginals())["state"] == [0, 1, 0, 1]
    factors = frame(NETWORK.factor_marginals())
    row = factors["states"].index("<i>mid</i>, 1")
    assert factors["variables"][row] == f"{NASTY}, score"
    assert (factors["factor"][row], factors["probability"][row]) == (
        2,
        NETWORK.factor_marginals().value[2][1, 1],
    )
    ranked = frame(NETWORK.k_best(3))
    values = NETWORK.k_best(3).value
    assert list(ranked) == ["score_", "rain", NASTY, "score"]
    assert ranked["score_"] == [best.score for best in values]
    assert ranked[NASTY] == [best.by_name()[NASTY] for best in values]
    assert ranked["score"] == [int(best.state[2]) for best in values]
    assert frame(NETWORK.map()) == {name: column[:1] for name, column in ranked.items()}
    drawn = NETWORK.sample(20, method="importance", seed=4)
    assert drawn.value.log_weights is not None
    samples = frame(drawn)
    assert samples["rain"] == [["no", "yes"][code] for code in drawn.value.states[:, 0]]
    assert samples["log_weight"] == drawn.value.log_weights.tolist()
    assert "log_weight" not in frame(NETWORK.sample(2))
    assert len(frame(NETWORK.sample(0))["rain"]) == 0


@pytest.mark.parametrize("library", LIBRARIES)
def test_frames_of_numbers(library: str) -> None:
    def frame(answer: Any) -> dict[str, list[Any]]:
        return frame_of(answer, library)

    both = GRID.log_partition(method="wmb", i_bound=2)
    own = both.guarantee
    assert frame(both) == {"value": [both.value], "low": [own.low], "high": [own.high], "kind": ["bounds"]}
    lower = frame(GRID.log_partition(method="mean-field"))
    missing = lower["high"][0]
    assert missing is None if library == "polars" else math.isnan(missing)
    batch = frame(RAGGED.log_partition())
    assert batch["sequence"] == [0, 1]
    assert batch["value"] == RAGGED.log_partition().value.tolist()
    assert batch["kind"] == ["exact", "exact"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_frames_of_sequences(library: str) -> None:
    def frame(answer: Any) -> dict[str, list[Any]]:
        return frame_of(answer, library)

    single = frame(CHAIN.marginals())
    assert list(single) == ["position", "state", "probability"]
    for t, s, p in zip(*single.values(), strict=True):
        assert CHAIN.marginals().value[t, s] == p
    ragged = frame(RAGGED.marginals())
    assert list(zip(ragged["sequence"], ragged["position"], strict=True)) == [
        (b, t) for b, length in enumerate((5, 2)) for t in range(length) for _ in range(3)
    ]
    marginals = RAGGED.marginals().value
    for b, t, s, p in zip(*ragged.values(), strict=True):
        assert marginals[b, t, s] == p
    best = frame(RAGGED.map())
    paths = RAGGED.map().value
    assert best["state"] == [*paths[0].states, *paths[1].states]
    assert best["sequence"] == [0] * 5 + [1] * 2
    assert best["score"] == [paths[0].score] * 5 + [paths[1].score] * 2
    ranked = frame(CHAIN.k_best(2))
    assert list(ranked) == ["rank", "score", "position", "state"]
    assert ranked["rank"] == [1] * 5 + [2] * 5
    assert ranked["state"][5:] == CHAIN.k_best(2).value[1].states.tolist()
    both = frame(RAGGED.k_best(2))
    assert both["sequence"] == [0] * 10 + [1] * 4
    assert both["rank"] == [1] * 5 + [2] * 5 + [1] * 2 + [2] * 2
    segments = frame(SEMI.map())
    own = SEMI.map().value.segments
    assert segments["state"] == own[:, 0].tolist()
    assert segments["length"] == own[:, 1].tolist()
    assert segments["start"] == [int(own[:i, 1].sum()) for i in range(len(own))]
    drawn = RAGGED.sample(3, seed=2)
    samples = frame(drawn)
    assert list(samples) == ["sequence", "sample", "position", "state"]
    assert samples["state"][15:] == np.concatenate(drawn.value.states[1]).tolist()
    assert samples["sample"][15:] == [0, 0, 1, 1, 2, 2]
    single_drawn = SEMI.sample(2)
    assert str(single_drawn.value) == "2 samples, exact"
    pieces = frame(single_drawn)
    assert pieces["length"] == np.concatenate(single_drawn.value.segments)[:, 1].tolist()
    assert sum(pieces["length"]) == 10
    assert list(frame(SEMI.sample(0))) == ["sample", "segment", "state", "start", "length"]
    assert frame(CHAIN.sample(0)) == {"sample": [], "position": [], "state": []}
    weighted = zhat.generate.chain(states=40, steps=3).sample(4, method="randomized", states=10)
    assert weighted.value.log_weights is not None
    assert frame(weighted)["log_weight"] == np.repeat(weighted.value.log_weights, 3).tolist()


@pytest.mark.parametrize("library", LIBRARIES)
def test_frames_of_spaces(library: str) -> None:
    axes = {
        "hypercube": ["label"],
        "signs": ["label"],
        "subtrees": ["node"],
        "permutations": ["item", "position"],
        "restricted": ["item", "position"],
        "cycles": ["vertex", "other"],
        "partitions": ["element", "other"],
    }
    for name, model in SPACES.items():
        answer = model.marginals()
        columns = frame_of(answer, library)
        assert list(columns) == [*axes[name], "probability"], name
        for *place, p in zip(*columns.values(), strict=True):
            assert answer.value[tuple(place)] == p
    variable = frame_of(PAIRWISE.marginals(), library)
    assert list(variable) == ["variable", "state", "probability"]
    assert variable["probability"] == PAIRWISE.marginals().value.ravel().tolist()


def test_the_marginals_of_permutations_are_of_items_at_positions() -> None:
    scores = np.zeros((3, 3))
    scores[0, 2] = 50.0  # item 0 at position 2
    answer = zhat.SpaceModel.permutations(position=scores).marginals()
    assert answer.layout.axes == ("item", "position")
    assert answer.value[0, 2] == pytest.approx(1)


@pytest.mark.parametrize("library", [*LIBRARIES, "matplotlib"])
def test_a_missing_library_is_named(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    answer = UNNAMED.marginals()
    ask = {"pandas": answer.to_pandas, "polars": answer.to_polars, "matplotlib": answer.plot}[library]
    with pytest.raises(ImportError, match=rf"pip install {library}, or pip install \"zhat\["):
        ask()


def test_importing_the_package_imports_no_other_library() -> None:
    program = (
        "import sys, zhat; zhat.FactorGraph([2]).marginals()._repr_html_(); "
        "print(sorted({'matplotlib', 'pandas', 'polars', 'torch', 'IPython'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


# Bounds over time.


def test_the_trace_of_bounds() -> None:
    grid = zhat.generate.ising(rows=12, columns=12, coupling=1.0, seed=2)
    answer = grid.log_partition(method="anytime-bounds", time=1.0, gap=1e-9)
    exact = grid.log_partition(method="elimination").value
    trace = answer.trace
    assert len(trace) >= 2
    assert all(isinstance(step, Step) for step in trace)
    assert trace[0].seconds > 0
    for before, after in pairwise(trace):
        assert before.seconds <= after.seconds
        assert before.low <= after.low
        assert after.high <= before.high
        assert (before.low, before.high) != (after.low, after.high)
    assert all(step.low <= exact <= step.high for step in trace)
    assert (trace[-1].low, trace[-1].high) == (answer.guarantee.low, answer.guarantee.high)
    assert pickle.loads(pickle.dumps(answer)).trace == trace


def test_methods_that_report_bounds() -> None:
    lower = GRID.log_partition(method="mean-field")
    assert lower.trace[-1].low == lower.guarantee.low
    assert all(step.high == math.inf for step in lower.trace)
    upper = GRID.log_partition(method="trw")
    assert upper.trace[-1].high == upper.guarantee.high
    assert all(step.low == -math.inf for step in upper.trace)
    assert GRID.log_partition(method="elimination").trace == []
    # Bounds on log Z are not bounds on the entropy.
    assert GRID.entropy(method="mean-field").trace == []
    heard: list[str] = []
    again = GRID.log_partition(method="mean-field", progress=lambda phase, done, total: heard.append(phase))
    # Steps that follow each other very closely are merged, so only the last one does not depend on time.
    assert again.trace[-1][1:] == lower.trace[-1][1:]


# Pictures.


@pytest.fixture
def pyplot() -> Any:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def drawn(pyplot: Any, ax: Any) -> Any:
    """Draws the figure, so that all of it is computed."""
    ax.figure.canvas.draw()
    assert pyplot.get_fignums()
    return ax


def labels(axis: Any) -> list[str]:
    return [text.get_text() for text in axis.get_ticklabels()]


@pytest.mark.parametrize(("name", "query"), CASES)
def test_every_answer_is_drawn_or_says_why_not(pyplot: Any, name: str, query: str) -> None:
    answer = ask(name, query)
    batch = answer.guarantee.each is not None
    paths = isinstance(MODELS[name][0], (zhat.Chain, zhat.SemiMarkov)) and query == "map"
    if query in ("log_partition", "entropy", "marginals") or paths:
        choose = {"sequence": 1} if batch and query not in ("log_partition", "entropy") else {}
        drawn(pyplot, answer.plot(**choose))
        assert len(pyplot.get_fignums()) == 1
        return
    with pytest.raises(TypeError, match="cannot be drawn; numbers, marginals and best paths of chains can"):
        answer.plot()
    assert pyplot.get_fignums() == []


def test_bars_of_marginals(pyplot: Any) -> None:
    model = zhat.FactorGraph(
        [2, 2, 2],
        [((0,), [1, 3]), ((1,), [2, 3]), ((2,), [4, 1])],
        log=False,
        names=["rain", "wet", "cold"],
        state_names=[["no", "yes"]] * 3,
    )
    ax = drawn(pyplot, model.marginals().plot())
    assert [[round(bar.get_height(), 9) for bar in bars] for bars in ax.containers] == [
        [0.25, 0.4, 0.8],
        [0.75, 0.6, 0.2],
    ]
    assert labels(ax.xaxis) == ["rain", "wet", "cold"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["no", "yes"]
    assert ax.get_ylabel() == "probability"
    rows = drawn(pyplot, NETWORK.marginals().plot())
    assert labels(rows.yaxis)[:4] == ["rain = no", "rain = yes", f"{NASTY} = low", f"{NASTY} = <i>mid</i>"]
    assert [bar.get_width() for bar in rows.patches] == NETWORK.marginals().value.flat.tolist()
    assert rows.get_xlabel() == "probability"


def test_many_marginals_are_a_heat_map_or_an_error(pyplot: Any) -> None:
    grid = zhat.generate.ising(rows=7, columns=7)
    ax = drawn(pyplot, grid.marginals().plot())
    np.testing.assert_array_equal(ax.images[0].get_array(), np.array(grid.marginals().value).T)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("variable", "state")
    uneven = zhat.FactorGraph([2, 3] * 20)
    with pytest.raises(ValueError, match="100 bars are too many, at most 60 are drawn; choose variables"):
        uneven.marginals().plot()
    drawn(pyplot, uneven.marginals([0, 1]).plot())


def test_heat_maps_of_chains(pyplot: Any) -> None:
    ax: Any = drawn(pyplot, CHAIN.marginals().plot())
    np.testing.assert_array_equal(ax.images[0].get_array(), CHAIN.marginals().value.T)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("position", "state")
    assert ax.figure.axes[1].get_ylabel() == "probability"
    assert ax.images[0].get_clim() == (0, 1)
    assert id(CHAIN.map().plot(ax=ax)) == id(ax)
    steps = ax.lines[-1].get_ydata()
    assert steps[:5].tolist() == CHAIN.map().value.states.tolist()
    assert ax.get_xlabel() == "position"
    with pytest.raises(
        ValueError, match=r"this batch has 2 sequences; choose one, such as plot\(sequence=0\)"
    ):
        RAGGED.marginals().plot()
    with pytest.raises(ValueError, match="expected 0 to 1, found 2"):
        RAGGED.marginals().plot(sequence=2)
    with pytest.raises(ValueError, match="not an answer for a batch"):
        CHAIN.marginals().plot(sequence=0)
    ax = drawn(pyplot, RAGGED.marginals().plot(sequence=1))
    np.testing.assert_array_equal(ax.images[0].get_array(), RAGGED.marginals().value[1, :2].T)
    segments = drawn(pyplot, SEMI.map().plot())
    assert segments.lines[0].get_ydata()[:5].tolist() == SEMI.map().value.states.tolist()


def test_pictures_of_spaces(pyplot: Any) -> None:
    ax = drawn(pyplot, SPACES["permutations"].marginals().plot())
    np.testing.assert_array_equal(ax.images[0].get_array(), SPACES["permutations"].marginals().value.T)
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == (
        "item",
        "position",
        "P(item is at position)",
    )
    assert labels(ax.xaxis) == ["0", "1", "2", "3"]
    ax = drawn(pyplot, SPACES["subtrees"].marginals().plot())
    assert [bar.get_height() for bar in ax.patches] == SPACES["subtrees"].marginals().value.tolist()
    assert (ax.get_xlabel(), ax.get_title()) == ("node", "P(node is chosen)")


def test_numbers_are_rows_with_intervals(pyplot: Any) -> None:
    both = GRID.log_partition(method="wmb", i_bound=2)
    exact = GRID.log_partition(method="elimination")
    estimate = GRID.log_partition(method="importance", samples=1000)
    ax: Any = both.plot()
    exact.plot(ax=ax)
    assert id(estimate.plot(ax=ax)) == id(ax)
    drawn(pyplot, ax)
    assert labels(ax.yaxis) == ["wmb", "elimination", "importance"]
    dots = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "o"]
    assert dots == [both.value, exact.value, estimate.value]
    ends = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "|"]
    assert ends == [both.guarantee.low, both.guarantee.high, estimate.guarantee.low]
    assert ax.get_xlabel() == "log Z (nats)"
    batch = drawn(pyplot, RAGGED.log_partition().plot())
    assert labels(batch.yaxis) == ["sequence 0", "sequence 1"]
    assert drawn(pyplot, RAGGED.entropy().plot()).get_xlabel() == "entropy (nats)"


def test_bounds_over_time_are_steps(pyplot: Any) -> None:
    answer = GRID.log_partition(method="anytime-bounds", time=0.5)
    ax = drawn(pyplot, answer.plot())
    low, high = ax.lines
    count = len(answer.trace)
    np.testing.assert_array_equal(low.get_xdata()[:count], [step.seconds for step in answer.trace])
    known = [step.high if math.isfinite(step.high) else math.nan for step in answer.trace]
    np.testing.assert_array_equal(high.get_ydata()[:count], known)
    assert low.get_drawstyle() == high.get_drawstyle() == "steps-post"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time (s)", "log Z (nats)")
    GRID.log_partition(method="trw").plot(ax=ax)
    assert len(ax.lines) == 3
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["anytime-bounds", "trw"]
    assert ax.lines[2].get_color() != ax.lines[0].get_color()


def test_graphs(pyplot: Any) -> None:
    ax = drawn(pyplot, GRID.plot(GRID.marginals()))
    lines, dots = ax.collections
    assert len(lines.get_segments()) == 24
    np.testing.assert_array_equal(dots.get_array(), [vector[-1] for vector in GRID.marginals().value])
    assert dots.get_offsets()[5].tolist() == [1, -1]
    assert ax.figure.axes[1].get_ylabel() == "P(last state)"
    assert sorted(text.get_text() for text in ax.texts) == sorted(f"x{v}" for v in range(16))
    clinic = zhat.FactorGraph(
        [2] * 4,
        [((0, 1, 2), np.zeros((2, 2, 2))), ((2, 1), np.zeros((2, 2))), ((3,), [0.0, 1.0])],
        names=["a", "b", NASTY, "d"],
        state_names=[["no", "yes"]] * 4,
    )
    ax = drawn(pyplot, clinic.plot(clinic.marginals().value))
    lines, squares, dots = ax.collections
    assert len(lines.get_segments()) == 4
    assert len(squares.get_offsets()) == 1
    assert ax.figure.axes[1].get_ylabel() == "P(yes)"
    assert NASTY in [text.get_text() for text in ax.texts]
    with pytest.raises(ValueError, match="expected those of all 4 variables, found 1"):
        clinic.plot(clinic.marginals([0]))
    with pytest.raises(ValueError, match="401 variables; at most 400 are drawn"):
        zhat.FactorGraph([2] * 401).plot()
    before = len(pyplot.get_fignums())
    axes = pyplot.figure().subplots()
    assert zhat.generate.tree(variables=40).plot(ax=axes) is axes
    assert len(pyplot.get_fignums()) == before + 1
    assert axes.texts
    drawn(pyplot, zhat.FactorGraph([]).plot())


def places_of(edges: list[tuple[int, int]], count: int) -> Any:
    return _graph_layout.stress_places(count, edges, _graph_layout.components(count, edges))


def test_layouts_separate_nodes_and_keep_neighbours_close() -> None:
    path = [(v, v + 1) for v in range(19)]
    star = [(0, v) for v in range(1, 20)]
    complete = [(i, j) for i in range(8) for j in range(i)]
    torus = [(v, (v + 1) % 5 + v // 5 * 5) for v in range(25)] + [(v, (v + 5) % 25) for v in range(25)]
    cases: list[tuple[list[tuple[int, int]], int]] = [
        (path, 20),
        (star, 20),
        (complete, 8),
        (torus, 25),
        ([], 9),
    ]
    for edges, count in cases:
        places = places_of(edges, count)
        gaps = np.linalg.norm(places[:, np.newaxis] - places, axis=2)
        assert np.isfinite(places).all()
        assert gaps[~np.eye(count, dtype=bool)].min() > 0.15
        np.testing.assert_array_equal(places, places_of(edges, count))
        if edges:
            assert max(gaps[i, j] for i, j in edges) < 3.5
    far = places_of(path, 20)
    assert np.linalg.norm(far[0] - far[19]) == pytest.approx(19, rel=0.05)
    two = places_of([(0, 1), (2, 3)], 4)
    assert np.linalg.norm(two[:2].mean(axis=0) - two[2:].mean(axis=0)) > 0.9


# Colours.


def test_the_palettes_of_the_program_and_the_package_agree() -> None:
    source = Path(__file__).parents[2] / "crates" / "zhat-cli" / "src" / "chart.rs"
    if not source.exists():
        pytest.skip("the source of the program is not here")
    text = source.read_text(encoding="utf-8")
    for name, own in (("CATEGORIES", palette.CATEGORIES), ("SEQUENTIAL", palette.SEQUENTIAL)):
        found = re.search(rf"const {name}: \[u32; \d+\] =\s*\[([^\]]*)\]", text)
        assert found, name
        assert tuple("#" + code for code in re.findall(r"0x([0-9a-f]{6})", found[1])) == own


def test_the_sequential_map_grows_lighter() -> None:
    def lightness(value: float) -> float:
        code = palette.shade(value)
        red, green, blue = (int(code[start : start + 2], 16) / 255 for start in (1, 3, 5))

        def linear(c: float) -> float:
            return float(c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4)

        return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)

    steps = [lightness(x) for x in np.linspace(0, 1, 101)]
    assert all(a < b for a, b in pairwise(steps))
    assert "#f0e442" not in palette.CATEGORIES  # yellow lines cannot be seen on white
