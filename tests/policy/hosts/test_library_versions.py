"""Exceptions of calls that newer libraries lack name the version that has them."""

from __future__ import annotations

import pytest

from jupyter_smx.model.records.job import RemoteException
from jupyter_smx.policy.hosts.library_versions import version_cure

NUMPY = "module 'numpy' has no attribute 'float'.\n`np.float` was a deprecated alias for the builtin `float`."
NUMPY_2 = "`np.float_` was removed in the NumPy 2.0 release. Use `np.float64` instead."
KERAS = "Invalid filepath extension for saving. Please add either a `.keras` extension"
CALLBACK = (
    "The filepath provided must end in `.keras` (Keras model format). Received: filepath=/opt/ml/output/data/1.h5"
)


def cure(error: str, message: str, *, keyword: bool = False) -> str:
    return version_cure(RemoteException(type=error, message=message, traceback=""), keyword=keyword)


@pytest.mark.parametrize(
    ("error", "message", "requirement"),
    [
        ("AttributeError", NUMPY, "numpy<1.24"),
        ("AttributeError", NUMPY_2, "numpy<2"),
        ("AttributeError", "module 'numpy' has no attribute 'in1d'", "numpy<2.4"),
        ("TypeError", "read_csv() got an unexpected keyword argument 'error_bad_lines'", "pandas<2"),
        ("ModuleNotFoundError", "No module named 'sklearn.externals.joblib'", "scikit-learn<0.23"),
        ("ImportError", "cannot import name 'joblib' from 'sklearn.externals' (/x)", "scikit-learn<0.23"),
        ("AttributeError", "'OneHotEncoder' object has no attribute 'get_feature_names'", "scikit-learn<1.2"),
        (
            "TypeError",
            "OneHotEncoder.__init__() got an unexpected keyword argument 'sparse'",
            "scikit-learn<1.4",
        ),
        ("ModuleNotFoundError", "No module named 'tensorflow.contrib'", "tensorflow<2"),
        ("AttributeError", "module 'tensorflow' has no attribute 'placeholder'", "tensorflow<2"),
        ("AttributeError", "module 'tensorflow' has no attribute 'logging'", "tensorflow<2"),
        ("AttributeError", "module 'tensorflow' has no attribute 'estimator'", "tensorflow<2.16"),
        ("ImportError", "cannot import name 'multi_gpu_model' from 'tensorflow.keras.utils'", "tensorflow<2.4"),
        ("ValueError", KERAS, "tensorflow<2.16"),
        ("ValueError", CALLBACK, "tensorflow<2.16"),
        ("ValueError", "Argument(s) not recognized: {'lr': 0.001}", "tensorflow<2.16"),
        ("ImportError", "cannot import name 'load_metric' from 'datasets' (/x.py)", "datasets<3"),
        ("ImportError", "cannot import name 'AdamW' from 'transformers' (/x.py)", "transformers<4.50"),
        (
            "TypeError",
            "Seq2SeqTrainingArguments.__init__() got an unexpected keyword argument 'evaluation_strategy'",
            "transformers<4.50",
        ),
        ("UnpicklingError", "Weights only load failed. This file can still be loaded", "torch<2.6"),
    ],
)
def test_a_removed_call_names_the_version_that_has_it(error: str, message: str, requirement: str) -> None:
    assert cure(error, message).startswith(
        f"The script is written for {requirement}. Add that line to requirements.txt"
    )


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("AttributeError", "module 'numpy' has no attribute 'integer_array'"),
        ("AttributeError", "'Vectorizer' object has no attribute 'get_feature_names_out'"),
        ("ValueError", NUMPY),
        ("TypeError", "fit() got an unexpected keyword argument 'sparse'"),
        ("ModuleNotFoundError", "No module named 'tensorflow'"),
        ("ValueError", ""),
    ],
)
def test_other_exceptions_name_no_version(error: str, message: str) -> None:
    assert cure(error, message) == ""


def test_options_are_spelled_as_the_user_has_them() -> None:
    assert "file of --requirements." in cure("AttributeError", NUMPY)
    assert cure("AttributeError", NUMPY).endswith("choose an older Python: --python.")
    assert cure("AttributeError", NUMPY, keyword=True).endswith("choose an older Python: python=.")
