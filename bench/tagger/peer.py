"""Trains CRFsuite on a file of attributes and tags another; prints one JSON object."""

import json
import sys
import time
from pathlib import Path

import pycrfsuite


def sentences(path: Path) -> tuple[list[list[list[str]]], list[list[str]]]:
    """The attributes and labels of a file in CRFsuite's format."""
    attributes: list[list[list[str]]] = []
    labels: list[list[str]] = []
    for block in path.read_text().strip().split("\n\n"):
        rows = [line.split("\t") for line in block.split("\n")]
        attributes.append(
            [[name.replace("\\:", ":").replace("\\\\", "\\") for name in row[1:]] for row in rows]
        )
        labels.append([row[0] for row in rows])
    return attributes, labels


def main() -> None:
    """Arguments: training file, test file, model file, c2."""
    train, test, model, penalty = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], float(sys.argv[4])
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params({"c1": 0.0, "c2": penalty, "max_iterations": 1000})
    for attributes, labels in zip(*sentences(train), strict=True):
        trainer.append(attributes, labels)
    wall, processor = time.perf_counter(), time.process_time()
    trainer.train(model)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    log = trainer.logparser.iterations
    tagger = pycrfsuite.Tagger()
    tagger.open(model)
    attributes, labels = sentences(test)
    begun = time.perf_counter()
    predicted = [tagger.tag(one) for one in attributes]
    tagging = time.perf_counter() - begun
    answer = {
        "seconds": wall,
        "cpu_seconds": processor,
        "steps": len(log),
        "objective": log[-1]["loss"],
        "tagging_seconds": tagging,
        "predicted": predicted,
        "observed": labels,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
