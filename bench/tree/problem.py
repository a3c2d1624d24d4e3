"""The problems that every library solves, with the same numbers. A case is the name of a kind and its sizes.

| case | problem |
|---|---|
| `dependency:T:B` | projective dependency trees over T words with any number of roots, a batch of B |
| `nonprojective:T:B` | the same for all dependency trees |
| `span:N:T:B` | binary trees over T words; every node has one of N labels and a score |
| `cfg:N:P:T:B` | a dense grammar with N nonterminals and P preterminals, one set of rules per sentence |
| `rank:R:N:P:T:B` | a grammar with rules of rank R, N nonterminals and P preterminals, shared by the batch |
| `embedded:R:D:N:P:T:B` | the same, with scores of spans and symbols from embeddings of length D |
| `grammar:R:T` | the best tree of a sentence of T words by a grammar that lists R rules |

Scores are standard normal in single precision; the seed is always 0. All kinds but the last ask for log Z and
the gradient with respect to all scores, the last one for the probability of the best tree.
"""

from dataclasses import dataclass

import numpy as np

SIZES = {
    "dependency": ("T", "B"),
    "nonprojective": ("T", "B"),
    "span": ("N", "T", "B"),
    "cfg": ("N", "P", "T", "B"),
    "rank": ("R", "N", "P", "T", "B"),
    "embedded": ("R", "D", "N", "P", "T", "B"),
    "grammar": ("R", "T"),
}


@dataclass(frozen=True)
class Problem:
    """Arrays by name, or a grammar as text and a sentence; and the number of threads to use."""

    kind: str
    arrays: dict[str, np.ndarray]
    text: str
    sentence: list[str]
    threads: int

    @property
    def bytes(self) -> int:
        """The size of the arrays."""
        return sum(array.nbytes for array in self.arrays.values())


def parsed(case: str) -> tuple[str, list[int]]:
    """The kind and the sizes of a case."""
    kind, *sizes = case.split(":")
    if kind not in SIZES:
        raise ValueError(f"{case}: there is no kind {kind}; there are {', '.join(SIZES)}")
    names = SIZES[kind]
    if len(sizes) != len(names) or not all(size.isdigit() and int(size) > 0 for size in sizes):
        raise ValueError(f"{case}: expected {kind}:{':'.join(names)} with positive integers")
    return kind, [int(size) for size in sizes]


def random_problem(case: str, threads: int) -> Problem:
    """The problem of a case."""
    kind, sizes = parsed(case)
    random = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        precision = np.float32 if kind in ("rank", "embedded") else np.float64
        return random.standard_normal(shape, precision).astype(np.float32)

    arrays, text, sentence = {}, "", []
    if kind in ("dependency", "nonprojective"):
        words, batch = sizes
        arrays = {"arcs": normal(batch, words, words), "roots": normal(batch, words)}
    elif kind == "span":
        labels, words, batch = sizes
        arrays = {"spans": normal(batch, words, words, labels)}
    elif kind == "cfg":
        heads, tags, words, batch = sizes
        every = heads + tags
        arrays = {
            "words": normal(batch, words, tags),
            "rules": normal(batch, heads, every, every),
            "roots": normal(batch, heads),
        }
    elif kind in ("rank", "embedded"):
        rank, *_, heads, tags, words, batch = sizes
        every = heads + tags
        arrays = {
            "words": normal(batch, words, tags),
            "roots": normal(heads),
            "rule_heads": normal(heads, rank),
            "rule_left": normal(every, rank),
            "rule_right": normal(every, rank),
        }
        if kind == "embedded":
            # Products of about 1.
            size = sizes[1]
            arrays["span_embeddings"] = normal(batch, words, words, size) / np.float32(np.sqrt(size))
            arrays["symbol_embeddings"] = normal(heads, size)
    else:
        text, sentence = random_grammar(*sizes, random)
    return Problem(kind, arrays, text, sentence, threads)


def random_grammar(rules: int, length: int, random: np.random.Generator) -> tuple[str, list[str]]:
    """A probabilistic grammar in NLTK's notation, and a sentence.

    There is one symbol per 40 rules, at least 6, and one word per 24 rules, at least 4. Every word has two
    symbols, and the other rules have two symbols on the right.
    """
    symbols, words = max(6, rules // 40), max(4, rules // 24)
    lexical = {(int(random.integers(symbols)), word) for word in range(words) for _ in range(2)}
    lexical |= {(symbol, symbol % words) for symbol in range(symbols)}
    # With S -> X S for every X and S -> 'w0', every sentence that ends in w0 has a tree. Then random rules.
    binary = {(symbol, 0, symbol) for symbol in range(symbols)} | {(0, s, 0) for s in range(symbols)}
    while len(binary) + len(lexical) < rules and len(binary) < symbols**3:
        binary.add(tuple(int(x) for x in random.integers(symbols, size=3)))
    sides: dict[int, list[str]] = {symbol: [] for symbol in range(symbols)}
    for head, left, right in sorted(binary):
        sides[head].append(f"{_name(left)} {_name(right)}")
    for head, word in sorted(lexical):
        sides[head].append(f"'w{word}'")
    lines = []
    for head, right in sides.items():
        weights = random.random(len(right)) + 0.1
        shares = [f"{share:.9f}" for share in weights / weights.sum()]
        alternatives = [f"{side} [{share}]" for side, share in zip(right, shares, strict=True)]
        lines.append(f"{_name(head)} -> {' | '.join(alternatives)}")
    sentence = [f"w{word}" for word in random.integers(words, size=length)]
    return "\n".join(lines), [*sentence[:-1], "w0"]


def _name(symbol: int) -> str:
    return "S" if symbol == 0 else f"X{symbol}"
