"""Everything that the program prints with `--json` follows docs/reference/answer.schema.json."""

from __future__ import annotations

import copy
import json
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from program import COMMAND

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
SCHEMA = json.loads((ROOT / "docs" / "reference" / "answer.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

# One model of every kind; chains and semi-Markov chains also as batches, with zeros and in single precision.
MODELS = {
    "grid": "ising --rows 3 --columns 3",
    "network": "bayes --variables 6",
    "chain": "chain --states 4 --steps 5",
    "chains": "chain --states 4 --steps 5 --batch 3 --ragged --precision f32",
    "p": "chain --states 3 --steps 4 --batch 2",
    "q": "chain --states 3 --steps 4 --batch 2 --seed 1",
    "low-rank": "chain --states 6 --steps 4 --transitions low-rank --rank 2",
    "factored": "chain --states 6 --steps 4 --transitions factored --rank 2",
    "trees": "dependency --words 4 --batch 2 --ragged --labels 2",
    "arcs": "dependency --words 3 --any-tree --single-root",
    "semi": "semi-markov --states 3 --steps 5",
    "semis": "semi-markov --states 3 --steps 5 --batch 2 --zeros 0.1",
    "pairwise": "pairwise --rows 2 --columns 2 --states 5",
    "pairwise-tree": "pairwise --tree --rows 2 --columns 2 --states 5",
    "continuous": "continuous --family gamma",
    "cyclic": "sequence-mrf --length 20 --states 3",
    "subsets": "hypercube --size 4",
    "orders": "permutation --size 4 --given 'before 0 1'",
    "subtrees": "subtree --size 4",
    "cycles": "cycle --size 4",
    "partitions": "partition --size 4",
}
# Models that Python code writes.
WRITTEN = ["parses", "brackets", "rewritten"]
QUERIES = ["logz", "marginals", "marginals --factors", "entropy", "map", "map -k 2", "sample -n 2"]
# Queries that no method answers for a kind of model.
UNSUPPORTED = {
    "pairwise": ["map", "map -k 2", "sample -n 2"],
    "pairwise-tree": ["map", "map -k 2", "sample -n 2"],
    "continuous": QUERIES[1:],
    "cyclic": QUERIES[1:],
}
LM = "lm train train.txt --valid valid.txt --iterations 5 --epochs 1"
# Further command lines with the exit status; names of models stand for their files.
CASES = {
    # Guarantees of every kind.
    "logz big --method mean-field": 0,
    "logz big --method trw --set iterations=5": 0,
    "logz big --method anytime-bounds --time 500ms": 0,
    "logz big --method importance --set samples=1000": 0,
    "logz big --method sccq --set samples=1000": 0,
    "logz big --method bp": 0,
    "logz chains --method randomized --set states=2": 0,
    "logz orders --method tpa": 0,
    "logz cyclic --method spectral": 0,
    # Stopped early.
    "logz big --method importance --set samples=1000000000000 --time 300ms": 0,
    # −∞: one of two sequences is impossible.
    "logz half": 0,
    "entropy half": 0,
    "map half": 0,
    # Weighted samples, named states, evidence, chosen variables.
    "sample big -n 2 --method importance": 0,
    "sample chains -n 2 --method randomized --set states=2": 0,
    "sample parses -n 2 --method randomized-inside --set states=2": 0,
    "sample clinic.bif -n 3": 0,
    "map clinic.bif": 0,
    "map clinic.bif -k 3": 0,
    "marginals clinic.bif --given xray=shadow --of tumour": 0,
    "marginals orders --method perfect --set error=0.5": 0,
    "kl p q": 0,
    "cross-entropy p q": 0,
    "expectation p q": 0,
    "info clinic.bif --given xray=shadow": 0,
    "methods": 0,
    "methods wmb": 0,
    # Tables and texts.
    "fit patients.csv -o fitted.zhat": 0,
    "fit patients.csv -o upper.zhat --structure complete --method mean-field --iterations 2": 0,
    "fit patients.csv -o net-1.zhat --parents cough=smoker --parents fever=infection": 0,
    "fit patients.csv -o net-2.zhat --parents cough=smoker --missing em --pseudo-count 1": 0,
    "score patients.zhat patients.csv": 0,
    "score patients.zhat patients.csv --rows": 0,
    "score pair.zhat never.csv": 0,
    "fit machine.csv --kind hmm --states 1,2 --folds 2 --iterations 5 -o hmm-1.zhat": 0,
    "fit known.csv --kind hmm --labels s -o hmm-2.zhat": 0,
    "score hmm.zhat --input machine.csv": 0,
    "score hmm.zhat --input machine.csv --rows": 0,
    "impute patients.zhat new-patients.csv": 0,
    "impute patients.zhat new-patients.csv --method mean-field": 0,
    f"{LM} -o lm-1.zhat": 0,
    f"{LM} -o lm-2.zhat --objective pseudo": 0,
    f"{LM} -o lm-3.zhat --objective lbl": 0,
    f"{LM} -o lm-4.zhat --objective exact": 0,
    "lm eval lm.zhat test.txt": 0,
    "lm eval lm.zhat test.txt --pseudo --annealed 5": 0,
    "lm eval lbl.zhat test.txt": 0,
    "lm neighbours lm.zhat cat dog -n 2": 0,
    "lm sample lm.zhat -n 2": 0,
    "structured train sets.csv --labels x,y -o again.zhat": 0,
    "structured train sets.csv --labels x,y -o chosen.zhat --lambda 0.1,0.01 --lambda-folds 2": 0,
    "structured predict sets.csv --model sets.zhat --marginals": 0,
    "structured predict sets.csv --model sets.zhat -k 2": 0,
    "structured eval sets.csv --model sets.zhat --rows": 0,
    "structured cv sets.csv --labels x,y --folds 2": 0,
    "tag train tagged.txt -o again-tagger.zhat": 0,
    "tag train tagged.txt -o chosen-tagger.zhat --valid tagged.txt": 0,
    "tag predict tagger.zhat tagged.txt": 0,
    "tag predict tagger.zhat tagged.txt -k 2": 0,
    "tag predict tagger.zhat tagged.txt --marginals": 0,
    "tag eval tagger.zhat tagged.txt": 0,
    "tag features tagger.zhat --top 3": 0,
    # Errors: exit status 1 if there is no result, 2 for invalid input.
    "logz zero": 1,
    "logz clinic.bif --given infection=yes,tumour=yes,shadow=none": 2,
    "logz big --method elimination --memory 1MiB": 1,
    "logz big --method enumeration --time 100ms": 1,
    "logz missing.uai": 2,
    "logz broken": 2,
    "logz big --nonsense": 2,
    "logz big --set nonsense=1": 2,
    "logz big --given x0=7": 2,
    "map continuous": 2,
    "kl chains big": 2,
    "methods nonsense": 2,
    "lm train train.txt -o -": 2,
    "fit patients.csv -o -": 2,
}


def program(folder: Path, line: str) -> tuple[int, list[Any]]:
    """The exit status, and the objects that the command prints with `--json`."""
    command = [*COMMAND, *shlex.split(line), "--json"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return ran.returncode, [json.loads(text) for text in ran.stdout.splitlines()]


def plain(folder: Path, line: str) -> None:
    subprocess.run([*COMMAND, *shlex.split(line)], cwd=folder, capture_output=True, check=True)


def file_of(word: str) -> str:
    return f"{word}.zhat" if word in MODELS or word in ("big", "half", *WRITTEN) else word


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of every kind, tables, texts and language models."""
    folder = tmp_path_factory.mktemp("schema")
    for name in ["clinic.bif", "patients.csv", "new-patients.csv", "machine.csv"]:
        (folder / name).write_bytes((EXAMPLES / name).read_bytes())
    for name in ["train", "valid", "test"]:
        (folder / f"{name}.txt").write_bytes((EXAMPLES / f"animals-{name}.txt").read_bytes())
    (folder / "zero").write_text("MARKOV 1 2 1 1 0 2 0 0")
    (folder / "broken").write_text("MARKOV\n2\n2 2\n1\n2 0 1\n4\n1 2")
    (folder / "pair.csv").write_text("a,b\n0,0\n0,1\n1,1\n")
    (folder / "sets.csv").write_text("a,x,y\n0.1,0,1\n0.9,1,1\n0.8,1,0\n0.2,0,0\n0.7,1,1\n0.3,0,1\n")
    (folder / "never.csv").write_text("a,b\n1,0\n")
    (folder / "known.csv").write_text("a,s\n0.5,x\n0.7,y\n0.4,x\n")
    plain(folder, "structured train sets.csv --labels x,y -o sets.zhat")
    (folder / "tagged.txt").write_text(
        "the_DT dog_NN barks_VBZ\nthe_DT cats_NNS walk_VBP\na_DT bird_NN sings_VBZ\n"
    )
    plain(folder, "tag train tagged.txt -o tagger.zhat")
    import numpy as np

    import zhat

    zero = np.zeros((2, 3, 2))
    zero[1] = -np.inf
    zhat.Chain(zero, np.zeros((2, 2))).save(folder / "half.zhat")
    parses: dict[str, Any] = {"heads": 2, "tags": 3, "ragged": True, "dtype": np.float32}
    zhat.generate.hypertree(4, 2, rules="low-rank", rank=2, **parses).save(folder / "parses.zhat")
    zhat.Hypertree(spans=np.zeros((3, 3, 2))).save(folder / "brackets.zhat")
    grammar: dict[str, Any] = {"rules": [0.0, 0.0], "rule_symbols": [(0, 1, 0), (0, 1, 1)], "heads": 1}
    unary: dict[str, Any] = {"unary_symbols": [(0, 2)], "unary": [-1.0]}
    zhat.Hypertree(np.zeros((3, 2)), **grammar, **unary).save(folder / "rewritten.zhat")
    lines = [f"generate {what} -o {name}.zhat" for name, what in MODELS.items()]
    lines += [
        "generate ising --rows 12 --columns 12 --coupling 1 -o big.zhat",
        "fit patients.csv -o patients.zhat",
        "fit pair.csv --l2 0 -o pair.zhat",
        "fit machine.csv --kind hmm --states 2 --iterations 5 -o hmm.zhat",
        f"{LM} -o lm.zhat",
        f"{LM} -o lbl.zhat --objective lbl",
    ]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda line: plain(folder, line), lines))
    return folder


def check(lines: list[Any]) -> None:
    assert lines
    for line in lines:
        best = jsonschema.exceptions.best_match(VALIDATOR.iter_errors(line))
        assert best is None, f"{best.message}\n{json.dumps(line)[:2000]}"


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("model", [*MODELS, *WRITTEN])
def test_every_query_of_every_kind_of_model(folder: Path, model: str) -> None:
    for query in [*QUERIES, "info"]:
        status, lines = program(folder, f"{query} {model}.zhat")
        unsupported = query in UNSUPPORTED.get(model, [])
        assert status == (2 if unsupported else 0), (query, lines)
        check(lines)
        assert ("error" in lines[0]) == unsupported
        if query.startswith("sample") and not unsupported:
            assert len(lines) % 2 == 0
        else:
            assert len(lines) == 1


@pytest.mark.parametrize("line", CASES)
def test_commands_and_errors(folder: Path, line: str) -> None:
    status, lines = program(folder, " ".join(file_of(word) for word in line.split(" ")))
    assert status == CASES[line], lines
    check(lines)
    assert ("error" in lines[0]) == (status != 0)


def test_the_cases_are_what_they_are_for(folder: Path) -> None:
    """The special values that the cases above are for do occur."""
    _, [stopped] = program(
        folder, "logz big.zhat --method importance --set samples=1000000000000 --time 300ms"
    )
    assert stopped["diagnostics"]["stopped_early"] is True
    _, [upper] = program(folder, "logz big.zhat --method trw --set iterations=5")
    assert upper["guarantee"]["low"] is None
    assert upper["guarantee"]["high"] > 0
    _, [half] = program(folder, "logz half.zhat")
    assert half["value"][1] == "-inf"
    _, weighted = program(folder, "sample big.zhat -n 2 --method importance")
    assert all("log_weight" in line for line in weighted)
    _, [filled] = program(folder, "impute patients.zhat new-patients.csv")
    assert filled["rows"] == len(filled["table"])
    assert set(filled["table"][0]) == set(filled["columns"])
    _, [scored] = program(folder, "score patients.zhat patients.csv --rows")
    assert len(scored["lines"]) == scored["rows"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupted_command_prints_an_object(folder: Path) -> None:
    plain(folder, "generate ising --rows 8 --columns 8 -o wide.zhat")
    command = [*COMMAND, "logz", "wide.zhat", "--method", "enumeration", "--json"]
    child = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    time.sleep(2.0)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 130
    lines = [json.loads(line) for line in out.splitlines()]
    check(lines)
    assert lines[0]["error"]["kind"] == "interrupted"


def test_every_command_with_json_is_covered(folder: Path) -> None:
    """The reference of the program lists the commands; one without a case fails here."""
    command = [*COMMAND, "man", "--markdown"]
    page = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    sections = re.split(r"^## zhat ", page, flags=re.MULTILINE)[1:]
    with_json = {section.split("\n", 1)[0] for section in sections if "`--json`" in section}
    assert {"logz", "impute", "lm eval"} <= with_json
    lines = [*QUERIES, "info", *(line for line, status in CASES.items() if status == 0)]
    words = [line.split(" ") for line in lines]
    covered = {" ".join(line[:2]) if line[0] in {"lm", "structured", "tag"} else line[0] for line in words}
    assert with_json == covered


def mutations(line: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The object without one of its required members, and with members that do not belong to it."""
    for key in line:
        if key not in ("names", "log_weight", "radius", "lines", "sample"):
            yield {name: value for name, value in line.items() if name != key}
    yield {**line, "surprise": 1}
    if "schema" in line:
        yield {**line, "schema": 2}
    if "value" in line:
        yield {**line, "value": None}
    if "guarantee" in line:
        for guarantee in [{}, {"kind": "certain"}, {**line["guarantee"], "more": 1}]:
            yield {**line, "guarantee": guarantee}
    if "diagnostics" in line:
        less = copy.deepcopy(line)
        del less["diagnostics"]["stopped_early"]
        yield less
    if "error" in line:
        yield {**line, "error": {"kind": "unheard-of", "message": "x"}}


@pytest.mark.parametrize(
    "line",
    [
        "logz grid",
        "logz big --method importance --set samples=1000",
        "marginals clinic.bif",
        "marginals chains",
        "map chains",
        "map parses",
        "marginals parses",
        "map -k 2 semis",
        "sample -n 1 grid",
        "sample -n 1 chains",
        "sample -n 1 parses",
        "methods wmb",
        "info chain",
        "score patients.zhat patients.csv",
        "impute patients.zhat new-patients.csv",
        "logz zero",
    ],
)
def test_changed_objects_are_refused(folder: Path, line: str) -> None:
    _, lines = program(folder, " ".join(file_of(word) for word in line.split(" ")))
    assert VALIDATOR.is_valid(lines[0])
    changed = list(mutations(lines[0]))
    assert len(changed) >= 2
    for one in changed:
        assert not VALIDATOR.is_valid(one), json.dumps(one)[:2000]
