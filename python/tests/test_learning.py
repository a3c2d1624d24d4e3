"""Models from tables: frames and files agree, invalid tables are refused."""

import gzip
import json
import subprocess
import sys

import numpy as np
import pytest

import zhat

TABLE = {
    "rain": ["no", "no", "yes", "yes", "no", "no", "yes", "no"] * 20,
    "wet": ["no", "no", "yes", "yes", "yes", "no", "yes", "no"] * 20,
    "day": [1, 2, 3, 1, 2, 3, 2, 2] * 20,
}


def csv(path, table):
    rows = zip(*table.values(), strict=True)
    path.write_text(",".join(table) + "\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


def test_files_and_mappings_give_the_same_model(tmp_path):
    path = csv(tmp_path / "t.csv", TABLE)
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    want = zhat.fit(TABLE)
    for found in (zhat.fit(path), zhat.fit(str(packed))):
        assert found.model == want.model
        assert found.log_likelihood.value == want.log_likelihood.value
    assert want.log_likelihood.guarantee.kind == "exact"
    assert want.model.state_names[2] == ("1", "2", "3")
    assert (np.diff(want.history) <= 1e-12).all()


def test_a_complete_model_matches_the_pairs():
    fitted = zhat.fit(TABLE, "complete", l2=0.0, tolerance=1e-9)
    marginals = fitted.model.marginals().value
    for name, column in TABLE.items():
        states = sorted(set(map(str, column)))
        counts = [list(map(str, column)).count(state) / len(column) for state in states]
        assert np.allclose(marginals[list(TABLE).index(name)], counts, atol=1e-4)


@pytest.mark.parametrize("method", ["bp", "trw", "importance"])
def test_other_methods_can_fit(method):
    """The fit lies between independent columns and the exact fit, which minimises the objective."""
    options = {"samples": 2000} if method == "importance" else {}
    l2 = 0.01
    fitted = zhat.fit(TABLE, "chow-liu+1", method=method, iterations=50, l2=l2, **options)
    exact = zhat.fit(TABLE, "chow-liu+1", l2=l2, tolerance=1e-9, iterations=5000)
    own = float(np.mean(zhat.score(fitted.model, TABLE)[0]))
    penalty = l2 / 2 * sum(float((table**2).sum()) for _, table in fitted.model.factors)
    # Within the tolerance of the optimiser: the objective is convex and nearly flat where the gradient is <
    # 1e-9.
    assert penalty - own >= exact.objective - 1e-6
    assert own > zhat.fit(TABLE, "independent").log_likelihood.value
    if method == "trw":
        assert fitted.log_likelihood.guarantee.low <= own


def test_scores_and_missing_values():
    model = zhat.fit(TABLE).model
    rows, mean = zhat.score(model, {**TABLE, "other": [0] * 160})
    assert mean.value == pytest.approx(rows.mean())
    assert float(mean) == mean.value
    gaps = {"rain": ["yes", None], "wet": [None, "no"]}
    filled = zhat.impute(model, gaps)
    assert filled["wet"] == ["yes", "no"]
    assert filled["rain"] == ["yes", "no"]
    assert len(filled["day"]) == 2
    with pytest.raises(
        zhat.InputError, match="row 1: the model does not know the value 'maybe' of column rain"
    ):
        zhat.score(model, {"rain": ["no", "maybe"]})
    with pytest.raises(zhat.InputError, match="none of the model's columns"):
        zhat.score(model, {"x": [1]})


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(library):
    frames = pytest.importorskip(library)
    table = {name: list(column) for name, column in TABLE.items()}
    whole = zhat.fit(frames.DataFrame(table))
    assert whole.log_likelihood.value == pytest.approx(zhat.fit(TABLE).log_likelihood.value, abs=1e-12)
    table["rain"][3] = None
    frame = frames.DataFrame(table)
    fitted = zhat.fit(frame)
    assert (fitted.rows, fitted.dropped) == (159, 1)
    with pytest.raises(zhat.InputError, match="row 3: column rain"):
        zhat.fit(frame, missing="refuse")
    rows, _ = zhat.score(fitted.model, frame)
    assert np.isnan(rows[3])
    assert np.isfinite(np.delete(rows, 3)).all()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_numbers_and_booleans(library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({"x": [1.5, float("nan"), 2.0, 1.5], "y": [True, True, False, True]})
    fitted = zhat.fit(frame)
    assert (fitted.rows, fitted.dropped) == (3, 1)
    assert fitted.model.state_names == (("1.5", "2.0"), ("False", "True"))


def test_a_fit_resumes_from_a_checkpoint(tmp_path):
    state = tmp_path / "state.json"
    how = {"l2": 0.01, "start": "zero", "tolerance": 0.0}
    whole = zhat.fit(TABLE, "complete", iterations=12, **how)
    zhat.fit(TABLE, "complete", iterations=5, checkpoint=state, **how)
    rest = zhat.fit(TABLE, "complete", iterations=12, checkpoint=state, **how)
    assert rest.objective == whole.objective
    for (_, one), (_, other) in zip(rest.model.factors, whole.model.factors, strict=True):
        assert (one == other).all()
    with pytest.raises(zhat.InputError, match="forest"):
        zhat.fit(TABLE, start="here")


def test_structures_and_invalid_input(tmp_path):
    pairs = zhat.fit(TABLE, [("rain", "wet"), (2, 0)])
    assert sum(len(scope) == 2 for scope, _ in pairs.model.factors) == 2
    assert zhat.fit(TABLE, "independent").log_likelihood.value < pairs.log_likelihood.value
    for bad in ("tree", "chow-liu+x", [("rain", "snow")], [(0, 0)]):
        with pytest.raises(zhat.InputError):
            zhat.fit(TABLE, bad)
    with pytest.raises(zhat.InputError, match="no rows"):
        zhat.fit({"a": [], "b": []})
    with pytest.raises(zhat.InputError, match="different values"):
        zhat.fit({"id": list(range(2000)), "b": [0] * 2000})
    with pytest.raises(zhat.InputError, match="expected a frame"):
        zhat.fit(3)
    ragged = tmp_path / "r.csv"
    ragged.write_text("a,b\n1,2\n1\n")
    with pytest.raises(zhat.InputError, match="line 3"):
        zhat.fit(ragged)
    with pytest.raises(zhat.MissingFileError):
        zhat.fit(tmp_path / "none.csv")


def program(*arguments):
    """The output of the program, run in a separate process because it installs its own Ctrl-C handler."""
    command = [sys.executable, "-m", "zhat", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_program_fits_scores_and_imputes(tmp_path):
    path, model = csv(tmp_path / "t.csv", TABLE), tmp_path / "m.zhat"
    fitted = json.loads(program("fit", path, "-o", model, "--json"))
    assert fitted["log_likelihood"] == pytest.approx(zhat.fit(TABLE).log_likelihood.value)
    scored = json.loads(program("score", model, path, "--json"))
    assert scored["log_likelihood"] == pytest.approx(fitted["log_likelihood"])
    (tmp_path / "g.csv").write_text("rain,wet,day\nyes,?,1\n")
    assert program("impute", model, tmp_path / "g.csv") == "rain,wet,day\nyes,yes,1\n"


def test_files_are_scored_and_imputed(tmp_path):
    path = csv(tmp_path / "t.csv", TABLE)
    model = zhat.fit(TABLE).model
    want, mean = zhat.score(model, TABLE)
    for table in (path, str(path)):
        rows, own = zhat.score(model, table)
        assert (rows == want).all()
        assert own.value == mean.value
    gaps = tmp_path / "g.csv"
    gaps.write_text("rain,wet\nyes,?\n,no\n")
    want_filled = zhat.impute(model, {"rain": ["yes", None], "wet": [None, "no"]})
    for table in (gaps, str(gaps)):
        assert zhat.impute(model, table) == want_filled
        rows, _ = zhat.score(model, table)
        assert np.isnan(rows).all()
    with pytest.raises(zhat.InputError, match="line 2"):
        zhat.score(model, gaps, missing="refuse")
    with pytest.raises(zhat.MissingFileError):
        zhat.score(model, tmp_path / "none.csv")


def test_encodings_and_quotes(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'town,b\nK\xf6ln,1\n"NA",2\nNA,2\nK\xf6ln,2\n')
    with pytest.raises(zhat.InputError, match=r"line 2: column town: the byte 0xf6"):
        zhat.fit(path)
    fitted = zhat.fit(path, encoding="latin-1")
    assert fitted.model.state_names == (("Köln", "NA"), ("1", "2"))
    assert (fitted.rows, fitted.dropped, fitted.missing) == (3, 1, {"town": 1})
    assert np.isfinite(zhat.score(fitted.model, path, encoding="latin-1")[0]).sum() == 3
    with pytest.raises(zhat.InputError, match="encoding"):
        zhat.fit(path, encoding="utf-16")
    path.write_text('a,b\n1,2\n"1,2\n')
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for table in (path, packed):
        with pytest.raises(zhat.InputError, match=r"line 3: .*never closed"):
            zhat.fit(table)


def test_missing_values_may_be_a_state(tmp_path):
    masked = np.ma.array([1, 2, 2, 1], mask=[False, True, False, False])
    table = {"a": masked, "b": ["x", "y", None, "x"]}
    dropped = zhat.fit(table)
    assert (dropped.rows, dropped.dropped, dropped.missing) == (2, 2, {"a": 1, "b": 1})
    kept = zhat.fit(table, missing="state")
    assert (kept.rows, kept.dropped) == (4, 0)
    assert kept.model.state_names == (("1", "2", "(missing)"), ("(missing)", "x", "y"))
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,x\n,y\n2,\n1,x\n")
    assert zhat.fit(path, missing="state").model == kept.model
    for again in (table, path):
        assert np.isfinite(zhat.score(kept.model, again, missing="state")[0]).all()
        assert np.isnan(zhat.score(kept.model, again)[0]).sum() == 2
    assert zhat.impute(kept.model, table)["a"][0] == "1"


def test_a_fit_by_an_upper_bound_warns():
    with pytest.warns(UserWarning, match="mean-field bounds log Z from below"):
        fitted = zhat.fit(TABLE, "complete", method="mean-field", iterations=10)
    assert fitted.log_likelihood.guarantee.kind == "bounds"
    assert "warning" in fitted.log_likelihood.diagnostics
    assert repr(fitted.log_likelihood).startswith("≤ -")


def gaps(seed, share=0.25):
    """A table in which cells are missing at random."""
    random = np.random.default_rng(seed)
    return {
        name: [None if random.random() < share else value for value in column]
        for name, column in TABLE.items()
    }


def observed_log_likelihood(model, table):
    """The mean log-likelihood of the present values, by conditioning one row at a time."""
    log_z = model.log_partition().value
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    given = [{name: str(value) for name, value in row.items() if value is not None} for row in rows]
    values = [model.condition(row).log_partition().value - log_z for row in given if row]
    return float(np.mean(values))


def test_incomplete_rows_take_part(tmp_path):
    table = gaps(1)
    fitted = zhat.fit(table, "chow-liu+1", missing="em", tolerance=1e-8)
    empty = sum(all(value is None for value in row) for row in zip(*table.values(), strict=True))
    incomplete = sum(None in row for row in zip(*table.values(), strict=True)) - empty
    assert (fitted.rows, fitted.incomplete, fitted.dropped) == (160 - empty, incomplete, empty)
    assert fitted.converged
    assert (np.diff(fitted.history) <= 1e-12).all()
    by_hand = observed_log_likelihood(fitted.model, table)
    assert fitted.log_likelihood.value == pytest.approx(by_hand, abs=1e-10)
    dropped = zhat.fit(table, "chow-liu+1")
    assert by_hand >= observed_log_likelihood(dropped.model, table)
    _, mean = zhat.score(fitted.model, table, missing="em")
    assert mean.value == pytest.approx(by_hand, abs=1e-10)
    path = csv(tmp_path / "t.csv", {name: ["" if v is None else v for v in c] for name, c in table.items()})
    assert zhat.fit(path, "chow-liu+1", missing="em", tolerance=1e-8).model == fitted.model
    assert None not in zhat.impute(fitted.model, table)["rain"]
    # Complete rows give the same as without EM.
    assert zhat.fit(TABLE, missing="em").model == zhat.fit(TABLE).model


def test_a_bayesian_network_of_given_structure(tmp_path):
    structure = {"wet": ["rain", "day"]}
    closed = zhat.fit(TABLE, structure, pseudo_count=0.5)
    assert closed.converged
    assert closed.iterations == 0
    scope, values = closed.model.factors[1]
    assert closed.model.names == ("rain", "wet", "day")
    assert tuple(scope) == (0, 2, 1)
    rows = list(zip(*TABLE.values(), strict=True))
    for rain in ("no", "yes"):
        for day in (1, 2, 3):
            counts = [sum(row == (rain, wet, day) for row in rows) + 0.5 for wet in ("no", "yes")]
            own = np.exp(np.asarray(values).reshape(2, 3, 2)[int(rain == "yes"), day - 1])
            assert own == pytest.approx(np.array(counts) / sum(counts), abs=1e-12)
    path = tmp_path / "net.bif"
    closed.model.save(path)
    table = gaps(2)
    for given in (structure, closed.model, path, str(path)):
        fitted = zhat.fit(table, given, missing="em", equivalent_sample_size=2.0)
        assert fitted.converged
        assert (np.diff(fitted.history) <= 1e-12).all()
        by_hand = observed_log_likelihood(fitted.model, table)
        assert fitted.log_likelihood.value == pytest.approx(by_hand, abs=1e-9)
    latent = {name: column for name, column in table.items() if name != "rain"}
    assert zhat.fit(latent, path, missing="em").rows > 100
    with pytest.raises(zhat.InputError, match="missing values"):
        zhat.fit(latent, path)


@pytest.mark.parametrize(
    ("structure", "options", "message"),
    [
        ({"wet": ["rain"], "rain": ["wet"]}, {}, "own ancestor"),
        ({"wet": ["snow"]}, {}, "no column \"?'?snow"),
        ({"wet": "rain"}, {}, "list of parents"),
        ({"wet": ["rain"]}, {"pseudo_count": 0.0}, "pseudo_count"),
        ({"wet": ["rain"]}, {"pseudo_count": 1.0, "equivalent_sample_size": 1.0}, "equivalent_sample_size"),
        ({"wet": ["rain"]}, {"l1": 0.1}, "l1: is for random fields"),
        ("chow-liu", {"pseudo_count": 1.0}, "pseudo_count: is for Bayesian networks"),
        ("chow-liu", {"missing": "guess"}, "missing: expected"),
        ("chow-liu", {"missing": "em", "optimizer": "fista"}, "fista needs complete rows"),
    ],
)
def test_bad_structures_and_priors(structure, options, message):
    with pytest.raises(zhat.InputError, match=message):
        zhat.fit(gaps(3), structure, **options)


def test_values_that_a_structure_does_not_know():
    network = zhat.fit(TABLE, {"wet": ["rain"]}).model
    with pytest.raises(zhat.InputError, match="does not know the value 'maybe' of column rain"):
        zhat.fit({**TABLE, "rain": ["maybe"] * 160}, network)
