"""Trains NLTK's TnT on a CoNLL-U file and tags another; prints one JSON object."""

import json
import sys
import time
from pathlib import Path

from nltk.tag.tnt import TnT

Sentence = list[tuple[str, str]]


def sentences(path: Path, column: int) -> list[Sentence]:
    """The words and tags of a CoNLL-U file, without ranges and empty nodes."""
    found: list[Sentence] = []
    for block in path.read_text().strip().split("\n\n"):
        rows = [line.split("\t") for line in block.split("\n") if not line.startswith("#")]
        found.append([(row[1], row[column]) for row in rows if row[0].isdigit()])
    return found


def main() -> None:
    """Arguments: training file, test file, column of the tags from 0, 1 if capitals divide tags or 0."""
    train, test = (sentences(Path(name), int(sys.argv[3])) for name in sys.argv[1:3])
    tagger = TnT(C=sys.argv[4] == "1")
    begun = time.process_time()
    tagger.train(train)
    training = time.process_time() - begun
    begun = time.process_time()
    predicted = [tagger.tag([word for word, _ in sentence]) for sentence in test]
    tagging = time.process_time() - begun
    seen = {word for sentence in train for word, _ in sentence}
    hits = [
        (tag == guess, word in seen)
        for sentence, guesses in zip(test, predicted, strict=True)
        for (word, tag), (_, guess) in zip(sentence, guesses, strict=True)
    ]
    unseen = [right for right, known in hits if not known]
    answer = {
        "accuracy": sum(right for right, _ in hits) / len(hits),
        "unseen_accuracy": sum(unseen) / len(unseen),
        "tokens": len(hits),
        "unseen_words": len(unseen),
        "seconds": training,
        "tagging_seconds": tagging,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
