"""Nearest neighbours of five words by word2vec, as a column of `zhat repro lifted-table1`.

CBOW with 100 dimensions, window 4 and 5 epochs, as in Table 1 of Jernite, Rush and Sontag (2015).

    python bench/word2vec/run.py OUTPUT     # the folder of `zhat repro lifted-table1 --output OUTPUT`
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from gensim.models import Word2Vec

WORDS = ["company", "red", "has", "dollar", "jack"]
NEAREST = 3


def main() -> None:
    """Trains the model and writes the neighbours."""
    data = os.environ.get("ZHAT_DATA")
    if data is None or len(sys.argv) != 2:
        sys.exit("usage: ZHAT_DATA=DATA run.py OUTPUT, where DATA contains data/ptb/ptb.train.txt")
    text = (Path(data) / "data/ptb/ptb.train.txt").read_text()
    sentences = [line.split() for line in text.splitlines() if line.strip()]
    started = time.perf_counter()
    # With more than one worker the result differs between runs.
    model = Word2Vec(sentences, vector_size=100, window=4, epochs=5, sg=0, min_count=1, workers=1, seed=1)
    seconds = time.perf_counter() - started
    lines = []
    for word in WORDS:
        near = ", ".join(other for other, _ in model.wv.most_similar(word, topn=NEAREST))
        lines.append(f"{word}\t{near}\n")
    path = Path(sys.argv[1]) / "lifted-table1-word2vec.tsv"
    path.write_text("".join(lines))
    print(f"{path}: {len(sentences)} sentences, {seconds:.1f} s")


if __name__ == "__main__":
    main()
