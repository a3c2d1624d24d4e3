# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Can I classify rows with gaps?
#
# The breast cancer table that comes with scikit-learn has 30 measurements of 569 tumours. A classifier is
# trained on complete rows, but the rows it must classify have gaps. We fill them in different ways, and
# compare the filled values with the hidden ones, and the diagnoses with the true ones.
#
# You will learn how to
#
# - use `zhat.sklearn.MarkovRandomField` as a step of a scikit-learn pipeline;
# - cut numbers into intervals with `bins`;
# - choose the structure of the model by the likelihood of held-out rows, in a grid search;
# - find unusual rows by their likelihood, whatever values are missing.
#
# Set the environment variable `ZHAT_EXAMPLES=small` for a quicker run.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from zhat.palette import CATEGORIES
from zhat.sklearn import MarkovRandomField

plt.rcParams["axes.prop_cycle"] = plt.cycler(color=CATEGORIES)
small = os.environ.get("ZHAT_EXAMPLES") == "small"

# %% [markdown]
# ## The table

# %%
tumours, benign = load_breast_cancer(return_X_y=True, as_frame=True)
folds = list(StratifiedKFold(3 if small else 10, shuffle=True, random_state=0).split(tumours, benign))
tumours.iloc[:5, :6]

# %% [markdown]
# ## Which structure? Ask held-out rows
#
# The columns of a Markov random field are categories, so `bins` cuts every measurement at its quantiles into
# intervals. `score` is the mean log-likelihood per row, and `GridSearchCV` maximises it over held-out rows.
# Only values with the same intervals can be compared, so the number of bins stays fixed here.

# %%
search = GridSearchCV(
    MarkovRandomField(bins=6),
    {
        "structure": ["independent", "chow-liu"] if small else ["independent", "chow-liu", "chow-liu+2"],
        "l2": [0.002, 0.02],
    },
    cv=folds[:3],
    error_score="raise",
).fit(tumours)
columns = ["param_structure", "param_l2", "mean_test_score", "std_test_score"]
pd.DataFrame(search.cv_results_)[columns].round(3)

# %%
print(search.best_params_)
assert search.best_params_["structure"] != "independent"

# %% [markdown]
# ## Fill the gaps
#
# We fit on complete rows, hide measurements of the rows of the other fold at random, and fill them in by the
# median of the column, by the five nearest neighbours, and by the most probable interval of the model. The
# error is measured in standard deviations of the column.

# %%
share = 0.5
hidden = np.random.default_rng(1).random(tumours.shape) < share
gaps = tumours.mask(hidden)
scale = tumours.std()
fillers = {
    "median": SimpleImputer(strategy="median"),
    "five neighbours": make_pipeline(StandardScaler(), KNNImputer()),
    "Markov random field": MarkovRandomField(bins=6, **search.best_params_),
}


def restored(filler, train, test):
    """The rows of a fold in their own units, with every gap filled."""
    found = filler.fit(tumours.iloc[train]).transform(gaps.iloc[test])
    if filler is fillers["five neighbours"]:
        found = filler[0].inverse_transform(found)
    return pd.DataFrame(found, columns=tumours.columns, index=tumours.index[test])


filled = {
    name: pd.concat([restored(filler, train, test) for train, test in folds]).sort_index()
    for name, filler in fillers.items()
}
errors = pd.DataFrame(
    {name: ((own - tumours).abs() / scale).where(hidden).mean() for name, own in filled.items()}
)
errors.mean().round(3).to_frame("mean error")

# %%
ordered = errors.sort_values("median")
figure, axes = plt.subplots(figsize=(6.4, 6.4), layout="constrained")
for name, marker in zip(errors, "osx", strict=True):
    axes.plot(ordered[name], range(len(ordered)), marker, label=name)
axes.set_yticks(range(len(ordered)), ordered.index)
axes.set_xlabel("mean error of the filled-in values (standard deviations)")
_ = axes.legend()

# %%
assert errors["Markov random field"].mean() < errors["median"].mean()

# %% [markdown]
# ## Classify
#
# The imputation is a step of a pipeline with a classifier. The pipeline is trained on complete rows and
# predicts rows with gaps.

# %%
scores = {name: np.empty(len(tumours)) for name in ["no gaps", *fillers]}
for train, test in folds:
    for name in scores:
        classify = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
        steps = classify if name == "no gaps" else make_pipeline(fillers[name], classify)
        steps.fit(tumours.iloc[train], benign.iloc[train])
        rows = tumours if name == "no gaps" else gaps
        scores[name][test] = steps.predict_proba(rows.iloc[test])[:, 1]
areas = pd.Series({name: roc_auc_score(benign, own) for name, own in scores.items()}, name="area under ROC")
areas.round(4).to_frame()

# %% [markdown]
# ## Which rows are unusual?
#
# `score_samples` is the log-likelihood of each row. With gaps it is that of the values which are there, so it
# decreases with their number; divided by that number, rows are comparable.

# %%
model = fillers["Markov random field"].fit(tumours)
likelihood = pd.Series(model.score_samples(gaps) / gaps.notna().sum(axis=1), index=tumours.index)
figure, axes = plt.subplots(figsize=(6.4, 3.0), layout="constrained")
for label, name in enumerate(("malignant", "benign")):
    axes.hist(likelihood[benign == label], bins=30, alpha=0.6, label=name)
axes.set_xlabel("log-likelihood per known value (nats)")
_ = axes.legend()

# %%
likelihood.nsmallest(5).round(3).to_frame("log-likelihood per known value")

# %% [markdown]
# ## Read on
#
# - [Use zhat with scikit-learn](../../docs/howto/scikit-learn.md): all estimators, missing values, weights
# - [Models from tables](../../docs/learning.md): structures, penalties, large tables
