"""Name the version of a library that a script is written for, from an exception of a newer one. Pure.

Images of SageMaker pin their frameworks, so that scripts of their time call what later versions lack. Each entry is a
text that one library alone raises, because a wrong version is a worse cure than none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from jupyter_smx.model.records.job import RemoteException


class RemovedCall(NamedTuple):
    """A call that a library no longer has."""

    errors: frozenset[str]
    message: re.Pattern[str]
    requirement: str


def _removed(errors: str, message: str, requirement: str) -> RemovedCall:
    return RemovedCall(frozenset(errors.split()), re.compile(message), requirement)


_IMPORT = "ImportError ModuleNotFoundError"
REMOVED_CALLS = (
    _removed(
        "AttributeError",
        "^module 'numpy' has no attribute '(?:bool|complex|float|int|long|object|str|unicode)'",
        "numpy<1.24",
    ),
    _removed("AttributeError", r"^`np\.\w+` was removed in the NumPy 2\.0 release", "numpy<2"),
    _removed("AttributeError", "^module 'numpy' has no attribute '(?:in1d|trapz)'", "numpy<2.4"),
    _removed("TypeError", r"^read_csv\(\) got an unexpected keyword argument '(?:error|warn)_bad_lines'", "pandas<2"),
    _removed(_IMPORT, r"\bsklearn\.externals\b", "scikit-learn<0.23"),
    _removed("AttributeError", r"^'\w+' object has no attribute 'get_feature_names'", "scikit-learn<1.2"),
    _removed(
        "TypeError",
        r"^OneHotEncoder\.__init__\(\) got an unexpected keyword argument 'sparse'",
        "scikit-learn<1.4",
    ),
    _removed(_IMPORT, r"^No module named 'tensorflow\.contrib\b", "tensorflow<2"),
    _removed(
        "AttributeError",
        "^module 'tensorflow' has no attribute '(?:ConfigProto|Session|app|flags|gfile|logging|placeholder)'",
        "tensorflow<2",
    ),
    _removed(_IMPORT, "^cannot import name 'multi_gpu_model' from '(?:tensorflow|keras)", "tensorflow<2.4"),
    _removed("AttributeError", "^module 'tensorflow' has no attribute 'estimator'", "tensorflow<2.16"),
    _removed(
        "ValueError",
        r"^(?:Invalid filepath extension for saving|The filepath provided must end in `\.keras`)",
        "tensorflow<2.16",
    ),
    _removed("ValueError", r"^Argument\(s\) not recognized: \{'(?:lr|decay)'", "tensorflow<2.16"),
    _removed(_IMPORT, "^cannot import name 'load_metric' from 'datasets'", "datasets<3"),
    _removed(_IMPORT, "^cannot import name 'AdamW' from 'transformers'", "transformers<4.50"),
    _removed(
        "TypeError",
        r"TrainingArguments\.__init__\(\) got an unexpected keyword argument 'evaluation_strategy'",
        "transformers<4.50",
    ),
    _removed("UnpicklingError", "^Weights only load failed", "torch<2.6"),
)


def version_cure(exception: RemoteException, *, keyword: bool) -> str:
    """Return the cure for a call that the job's version of a library lacks, "" for other exceptions.

    ``keyword`` spells options as keywords of Python.
    """
    found = next(
        (row for row in REMOVED_CALLS if exception.type in row.errors and row.message.search(exception.message)), None
    )
    if found is None:
        return ""
    requirements, python = ("requirements=", "python=") if keyword else ("--requirements", "--python")
    return (
        f"The script is written for {found.requirement}. Add that line to requirements.txt beside the script, or to "
        f"the file of {requirements}. If no wheel of it fits the job's Python, choose an older Python: {python}."
    )
