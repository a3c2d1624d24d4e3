"""Trains CRFsuite on a file of attributes and tags another; prints one JSON object."""

import json
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pycrfsuite

Sentence = tuple[list[list[str]], list[str]]


def sentences(path: Path) -> Iterator[Sentence]:
    """The attributes and labels of the sentences of a file in CRFsuite's format, one at a time.

    The peak memory of this process is that of CRFsuite only if no other copy of the data is kept.
    """
    attributes: list[list[str]] = []
    labels: list[str] = []
    with path.open() as lines:
        for line in lines:
            label, *names = line.rstrip("\n").split("\t")
            if label:
                attributes.append([name.replace("\\:", ":").replace("\\\\", "\\") for name in names])
                labels.append(label)
            elif labels:
                yield attributes, labels
                attributes, labels = [], []
    if labels:
        yield attributes, labels


def main() -> None:
    """Arguments: training file, test file, model file, c2 and, if not the default, delta."""
    train, test, model, penalty = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], float(sys.argv[4])
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params({"c1": 0.0, "c2": penalty, "max_iterations": 1000})
    if len(sys.argv) > 5:
        trainer.set_params({"delta": float(sys.argv[5])})
    for attributes, labels in sentences(train):
        trainer.append(attributes, labels)
    wall, processor = time.perf_counter(), time.process_time()
    trainer.train(model)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    log = trainer.logparser.iterations
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    tagger = pycrfsuite.Tagger()
    tagger.open(model)
    predicted, observed, tagging = [], [], 0.0
    for attributes, labels in sentences(test):
        # From the texts of the attributes to tags, as zhat's figure.
        begun = time.perf_counter()
        predicted.append(tagger.tag(attributes))
        tagging += time.perf_counter() - begun
        observed.append(labels)
    answer = {
        "seconds": wall,
        "cpu_seconds": processor,
        "memory_mib": memory,
        "steps": len(log),
        "objective": log[-1]["loss"],
        "tagging_seconds": tagging,
        "predicted": predicted,
        "observed": observed,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
