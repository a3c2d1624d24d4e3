"""Neighbours of a few words by word2vec: a column of `zhat repro lifted-table1`.

CBOW, 100 numbers a word, a window of 4, 5 epochs, as in Jernite, Rush & Sontag (2015), Table 1.

    python bench/word2vec/run.py FOLDER     # the folder that `zhat repro` writes to
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
    """Learns and writes the neighbours."""
    data = os.environ.get("ZHAT_DATA")
    if data is None or len(sys.argv) != 2:
        sys.exit("usage: ZHAT_DATA=… run.py FOLDER, with data/ptb/ptb.train.txt in the folder of ZHAT_DATA")
    text = (Path(data) / "data/ptb/ptb.train.txt").read_text()
    sentences = [line.split() for line in text.splitlines() if line.strip()]
    started = time.perf_counter()
    # One worker: with more of them the result is another each time.
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
