"""Text grammars: sentences, trees without hidden symbols, and messages about bad input."""

from __future__ import annotations

import copy
import gzip
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zhat

STARS = """
S  -> NP VP
NP -> NP 'with' NP [0.2] | 'I' [0.3] | 'stars' [0.5]
VP -> V NP 0.6 | VP PP 0.4
PP -> 'with' NP
V  -> 'saw'
"""
SENTENCE = "I saw stars with stars"
VERB = "(S (NP I) (VP (VP (V saw) (NP stars)) (PP with (NP stars))))"
NOUN = "(S (NP I) (VP (V saw) (NP (NP stars) with (NP stars))))"
NO_PARSE = "sentence 0 has no parse; all of its words together are VP, but the root has to be S"


@pytest.fixture
def stars() -> zhat.Grammar:
    return zhat.Grammar.from_text(STARS)


def test_parts_of_a_grammar(stars: zhat.Grammar) -> None:
    assert stars.start == "S"
    assert set(stars.symbols) == {"S", "NP", "VP", "PP", "V"}
    assert stars.words == ("with", "I", "stars", "saw")
    assert stars.n_rules == 8
    assert stars.text == STARS
    assert repr(stars) == "Grammar(start S, 5 symbols, 4 words, 8 rules)"
    assert "Grammar" in stars._repr_html_()
    assert stars.info()["productions"] == 8


def test_every_query_takes_sentences(stars: zhat.Grammar) -> None:
    trees = stars.with_input(SENTENCE)
    assert isinstance(trees, zhat.Hypertree)
    assert trees.batch is None
    assert trees.lengths == (5,)
    assert math.exp(trees.log_partition().value) == pytest.approx(0.027)
    assert stars.log_partition(input=SENTENCE).value == trees.log_partition().value
    assert zhat.log_partition(stars, input=SENTENCE).value == trees.log_partition().value
    # Weights 0.018 and 0.009.
    p = np.array([2.0, 1.0]) / 3.0
    assert stars.entropy(input=SENTENCE).value == pytest.approx(float(-(p * np.log(p)).sum()))
    assert stars.map(input=SENTENCE).value.bracketed() == VERB
    assert [tree.bracketed() for tree in stars.k_best(5, input=SENTENCE).value] == [VERB, NOUN]
    drawn = [tree.bracketed() for tree in stars.sample(300, input=SENTENCE, seed=1).value.trees]
    assert set(drawn) == {VERB, NOUN}
    # A binomial interval with a false-alarm rate below 1e-6.
    assert abs(drawn.count(VERB) - 200) < 5 * math.sqrt(300 * 2 / 9)
    assert stars.marginals(input=SENTENCE).value.shape == (5, 5, trees.n_symbols)
    assert stars.factor_marginals(input=SENTENCE).value.roots.sum() == pytest.approx(1.0)
    value, gradient = trees.log_partition_and_gradient()
    assert value == pytest.approx(math.log(0.027))
    assert gradient.words.shape == trees.words.shape


def test_a_batch_of_sentences(stars: zhat.Grammar, tmp_path: Path) -> None:
    batch = stars.with_input([SENTENCE, ["I", "saw", "I"]])
    assert batch.batch == 2
    assert batch.lengths == (5, 3)
    first, second = batch.map().value
    assert first.bracketed() == VERB
    assert second.bracketed() == "(S (NP I) (VP (V saw) (NP I)))"
    (tmp_path / "sentences.txt").write_text(f"{SENTENCE}\nI saw I\n")
    (tmp_path / "sentences.txt.gz").write_bytes(gzip.compress(f"{SENTENCE}\nI saw I\n".encode()))
    for name in ("sentences.txt", "sentences.txt.gz"):
        assert stars.with_input(tmp_path / name) == batch
    assert stars.with_input([SENTENCE]).batch == 1
    assert stars.with_input(word for word in ("stars saw I",)).lengths == (3,)


def test_trees_have_no_hidden_symbols(stars: zhat.Grammar) -> None:
    _, noun = stars.k_best(2, input=SENTENCE).value
    expected = [
        ("S", 0, 4),
        ("NP", 0, 0),
        ("VP", 1, 4),
        ("V", 1, 1),
        ("NP", 2, 4),
        ("NP", 2, 2),
        ("NP", 4, 4),
    ]
    assert noun.constituents() == expected
    assert noun.spans() == [(0, 4), (1, 4), (2, 4)]
    picture = noun._repr_svg_()
    assert picture.count("<text") == len(expected) + 5
    assert "&lt;" not in picture
    assert ">with</text>" in picture


def test_evidence_is_the_symbol_of_a_word(stars: zhat.Grammar) -> None:
    model = zhat.Grammar.from_text("S -> A S | B S | 'x' [0.5]\nA -> 'x' [0.25]\nB -> 'x' [0.75]")
    given = model.log_partition(input="x x", given={0: "A"}).value
    assert given == pytest.approx(math.log(0.25 * 0.5))
    with pytest.raises(zhat.ImpossibleEvidenceError, match="sentence 0 has no parse"):
        model.log_partition(input="x x", given={1: "A"})
    with pytest.raises(zhat.InputError, match="needs sentences"):
        stars.map(given={0: "NP"})


def test_rules_make_the_grammar_of_their_text() -> None:
    rules: list[Any] = [
        ("S", ["NP", "VP"]),
        ("NP", ["NP", "'with'", "NP"], 0.2),
        ("NP", ["'I'"], 0.3),
        ("NP", ('"dog\'s"',), 0.5),
        ("VP", ["'saw'", "NP"], 1e-5),
    ]
    grammar = zhat.Grammar(rules)
    assert grammar.text.splitlines()[1] == "NP -> NP 'with' NP [0.2]"
    assert grammar == zhat.Grammar.from_text(grammar.text)
    assert grammar.words == ("with", "I", "dog's", "saw")
    assert grammar.log_partition(input="I saw dog's").value == pytest.approx(math.log(0.3 * 1e-5 * 0.5))
    assert (
        zhat.Grammar(rules, start="NP").map(input="I with I").value.bracketed() == "(NP (NP I) with (NP I))"
    )


def test_grammars_are_saved_copied_and_compared(stars: zhat.Grammar, tmp_path: Path) -> None:
    for name in ("stars.cfg", "stars.zhat"):
        stars.save(tmp_path / name)
        for read in (zhat.read(tmp_path / name), zhat.Grammar.read(tmp_path / name)):
            assert isinstance(read, zhat.Grammar)
            assert read == stars
            assert hash(read) == hash(stars)
    assert (tmp_path / "stars.cfg").read_text() == STARS
    assert pickle.loads(pickle.dumps(stars)) == copy.deepcopy(stars) == stars
    assert stars != zhat.Grammar.from_text(f"# another\n{STARS}")
    zhat.generate.chain(states=2, steps=2).save(tmp_path / "chain.zhat")
    with pytest.raises(zhat.InputError, match="expected a grammar"):
        zhat.Grammar.read(tmp_path / "chain.zhat")


def test_random_grammars() -> None:
    grammar = zhat.generate.grammar(symbols=3, words=4, rules=5, seed=7)
    assert grammar == zhat.generate.grammar(symbols=3, words=4, rules=5, seed=7)
    assert len(grammar.words) == 4
    with pytest.raises(zhat.InputError, match="more than all 8 triples"):
        zhat.generate.grammar(symbols=2, rules=9)


QUERIES: list[tuple[str, dict[str, Any]]] = [
    ("log_partition", {}),
    ("marginals", {}),
    ("factor_marginals", {}),
    ("entropy", {}),
    ("map", {}),
    ("map", {"tree": "expected"}),
    ("k_best", {"k": 3}),
    ("sample", {}),
    ("log_partition", {"method": "randomized-inside", "states": 100}),
]


@pytest.mark.parametrize(("query", "options"), QUERIES)
def test_no_parse_is_described(stars: zhat.Grammar, query: str, options: dict[str, Any]) -> None:
    with pytest.raises(zhat.ZeroPartitionError) as raised:
        getattr(stars, query)(input="saw I", **options)
    assert raised.value.kind == "zero-partition"
    assert str(raised.value) == f"zero partition: {NO_PARSE}"


def test_no_parse_says_where_it_stops(stars: zhat.Grammar) -> None:
    for sentence, reason in [
        ("I saw stars saw", "words 0 to 2 (I saw stars), as S; it stops before word 3 (saw)"),
        ("with with I", "words 1 to 2 (with I), as PP; it starts after word 0 (with)"),
        ("with with", "no symbol covers any of its words"),
        ("saw saw", "word 0 (saw), as V; it stops before word 1 (saw)"),
    ]:
        with pytest.raises(zhat.ZeroPartitionError) as raised:
            stars.map(input=sentence)
        assert reason in str(raised.value), str(raised.value)
    model = stars.with_input(["saw I", "I saw", "saw", "saw saw", "with"])
    with pytest.raises(zhat.ZeroPartitionError, match=r"2 more sentences have no parse$"):
        model.entropy()
    with pytest.raises(zhat.ZeroPartitionError, match="sentence 0 has no parse"):
        zhat.ops.entropy(model)
    with pytest.raises(zhat.ZeroPartitionError, match="sentence 0 has no parse"):
        zhat.ops.kl(model, model)
    # In a batch only that sentence has no tree, and a warning says so.
    with pytest.warns(RuntimeWarning, match="sentence 1 has no parse; all of its words together are VP"):
        values = stars.log_partition(input=["I saw stars", "saw I"]).value
    assert values[1] == -math.inf
    assert values[0] > -math.inf
    for query in ("marginals", "factor_marginals", "entropy", "map", "sample"):
        with pytest.warns(RuntimeWarning, match="sentence 1 has no parse; all of its words together are VP"):
            getattr(stars, query)(input=["I saw stars", "saw I"])


def test_bad_sentences_are_named(stars: zhat.Grammar, tmp_path: Path) -> None:
    for data, message in [
        (None, "input: a grammar needs sentences"),
        (3, "input: expected a text or a list of sentences, found 3"),
        ("", "input: the sentence is empty"),
        (["I saw stars", " "], r"input\[1\]: the sentence is empty"),
        ([[]], r"input\[0\]: the sentence is empty"),
        ([], "input: expected at least one sentence"),
        ("I saw\nstars", "input: a text is one sentence"),
        (
            ["I saw I", "I saw stras"],
            "input: sentence 1: the grammar has no word `stras`; did you mean `stars`",
        ),
        ([["I", 3]], r"input\[0\]\[1\]: expected a text, found 3"),
    ]:
        with pytest.raises(zhat.InputError, match=message):
            stars.log_partition(input=data)
    with pytest.raises(zhat.InputError, match="sentences: sentence 0: the grammar has no word"):
        stars.with_input("dog")
    (tmp_path / "bad.txt").write_text("I saw I\n\nI saw I\n")
    with pytest.raises(zhat.InputError, match=r"bad.txt: line 2: empty sentence"):
        stars.with_input(tmp_path / "bad.txt")
    with pytest.raises(zhat.MissingFileError):
        stars.with_input(tmp_path / "missing.txt")
    with pytest.raises(zhat.InputError, match="input: a Chain takes no input"):
        zhat.generate.chain(states=2, steps=2).log_partition(input="I")


def test_bad_rules_are_named() -> None:
    good = ("S", ["'a'"])
    cases: list[tuple[Any, str]] = [
        (3, "rules: expected a list of rules"),
        ([], "rules: the grammar has no rules"),
        ([("S",)], r"rules\[0\]: expected a symbol, a list"),
        ([good, ("S", "NP")], r"rules\[1\]: expected a list of symbols and words, found 'NP'"),
        ([good, ("S", [])], r"rules\[1\]: the right-hand side is empty"),
        ([("S", ["''"])], r"rules\[0\]\[1\]\[0\]: \"''\" is no word"),
        ([("S", ["a b"])], r"rules\[0\]\[1\]\[0\]: 'a b' is no symbol"),
        ([("S|T", ["'a'"])], r"rules\[0\]\[0\]: 'S\|T' is no symbol"),
        ([("S", ["'a'"], -1.0)], r"rules\[0\]\[2\]: the weight -1.0 is not a finite number of at least 0"),
        ([("S", ["'a'"], math.nan)], r"rules\[0\]\[2\]: the weight nan"),
        ([("S", ["'a'"], math.inf)], r"rules\[0\]\[2\]: the weight inf"),
        ([good, ("S", ["NP", "'b'"])], r"rules\[1\]: no rule rewrites the symbol `NP`"),
        ([good, good], r"rules\[1\]: `S -> 'a'` is given twice; the first is at rules\[0\]"),
        ([good, ("S", ["S"])], r"rules\[1\]: the rules S → S can be repeated without end"),
        ([("S", ["S", "S"])], r"rules\[0\]: the grammar has no words"),
    ]
    for rules, message in cases:
        with pytest.raises(zhat.InputError, match=message):
            zhat.Grammar(rules)
    with pytest.raises(zhat.InputError, match="start: no rule rewrites the start symbol `X`"):
        zhat.Grammar([("S", ["'a'"])], start="X")
    with pytest.raises(zhat.InputError, match="line 2: the weight `-1` is not a finite number"):
        zhat.Grammar.from_text("S -> 'a'\nS -> 'b' -1")
    with pytest.raises(zhat.InputError, match="rules: expected a text"):
        zhat.Grammar.from_text(3)  # type: ignore[arg-type]


def test_dependency_trees_without_a_possible_head() -> None:
    never = -math.inf
    for arcs, roots, single, reason in [
        (
            [[0, never], [0, 0]],
            [0, never],
            False,
            "word 1 has no possible head: its scores in arcs and roots",
        ),
        ([[0, 0], [0, 0]], [never, never], False, "no word can have the root as its head"),
        (
            [[0, never], [never, 0]],
            [0, 0],
            True,
            "no choice of heads is a projective tree with a single root",
        ),
    ]:
        model = zhat.DependencyTree(arcs, roots, single_root=single)
        for query in ("log_partition", "marginals", "factor_marginals", "entropy", "map", "sample"):
            with pytest.raises(zhat.ZeroPartitionError, match="sentence 0 has no tree") as raised:
                getattr(model, query)()
            assert reason in str(raised.value)
            assert raised.value.kind == "zero-partition"
        with pytest.raises(zhat.ZeroPartitionError, match="sentence 0 has no tree"):
            model.k_best(2)
        with pytest.raises(zhat.ZeroPartitionError, match="sentence 0 has no tree"):
            zhat.ops.entropy(model)
    batch = zhat.DependencyTree(np.zeros((2, 2, 2)), [[0, 0], [never, never]])
    with pytest.warns(RuntimeWarning, match="sentence 1 has no tree; no word can have the root"):
        assert batch.log_partition().value[1] == never
    for query in ("marginals", "factor_marginals", "entropy", "map", "sample"):
        with pytest.warns(RuntimeWarning, match="sentence 1 has no tree; no word can have the root"):
            getattr(batch, query)()


def test_bad_scores_are_named() -> None:
    zeros, never = np.zeros, -math.inf
    cases: list[tuple[Any, str]] = [
        (lambda: zhat.DependencyTree(zeros((2, 3))), r"arcs: found shape \(2, 3\); there are as many heads"),
        (
            lambda: zhat.DependencyTree(zeros((0, 0))),
            r"arcs: found shape \(0, 0\); every length is at least 1",
        ),
        (lambda: zhat.DependencyTree([[0, math.nan], [0, 0]]), "arcs: number 1 is NaN"),
        (lambda: zhat.DependencyTree([[0, math.inf], [0, 0]]), "arcs: number 1 is inf"),
        (lambda: zhat.Hypertree(zeros((0, 2))), r"words: found shape \(0, 2\); every length is at least 1"),
        (lambda: zhat.Hypertree([[0, math.nan]]), "words: number 1 is NaN"),
        (lambda: zhat.Hypertree([[0, math.inf]]), "words: number 1 is inf"),
        (lambda: zhat.Hypertree(zeros((2, 3, 2)), lengths=[3, 0]), "lengths: sentence 1 has 0 words"),
        (
            lambda: zhat.Hypertree(zeros((2, 1)), unary_symbols=[(0, 0)], unary=[0]),
            "unary: the rules 0 → 0 can be",
        ),
        (lambda: zhat.Hypertree(zeros((3, 2))).condition({0: "X"}), "evidence: there is no symbol 'X'"),
    ]
    for make, message in cases:
        with pytest.raises(zhat.InputError, match=message):
            make()
    with pytest.raises(zhat.ZeroPartitionError, match="no symbol can be the root"):
        zhat.Hypertree(zeros((3, 2)), roots=[never, never]).map()
    with pytest.raises(zhat.ZeroPartitionError, match="stops before word 1; no symbol covers word 1"):
        zhat.Hypertree([[0, 0], [never, never], [0, 0]]).map()
