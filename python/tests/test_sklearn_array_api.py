"""scikit-learn's check of NumPy inputs with its array API, which the other tests leave out.

SciPy reads the setting that the check needs when it is imported, so it runs in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import warnings
warnings.simplefilter("ignore")
import sklearn, zhat, zhat.sklearn
from sklearn.utils.estimator_checks import parametrize_with_checks
models = [zhat.Hmm(2), zhat.Tagger(), zhat.LabelSetClassifier(), zhat.HierarchyClassifier()]
models += [zhat.LabelRanker(partial=True), zhat.PartitionPredictor(), zhat.sklearn.MarkovRandomField()]
checks = list(parametrize_with_checks(models).args[1])
found = [(model, check) for model, check in checks if "check_array_api_input" in str(check)]
for model, check in found:
    check(model)
print(len(found), len(models), sklearn.__version__)
"""


def test_numpy_inputs_with_the_array_api() -> None:
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    ran, models, version = told.stdout.split()
    # scikit-learn has the check since version 1.8.
    major, minor = (int(part) for part in version.split(".")[:2])
    assert ran == (models if (major, minor) >= (1, 8) else "0")
