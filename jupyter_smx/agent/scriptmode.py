"""SageMaker's contract with a script: what one job finds on one host, as pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict

from jupyter_smx.agent import configfiles, processing, toolkit
from jupyter_smx.agent.place import ML

if TYPE_CHECKING:
    from jupyter_smx.agent.place import Place


def config_files(spec: Dict[str, Any], place: Place) -> Dict[str, str]:
    """Give the text of every config file by its path under ``/opt/ml``."""
    return processing.texts(spec, place) if spec["kind"] == "process" else configfiles.texts(spec, place)


def variables(spec: Dict[str, Any], place: Place) -> Dict[str, str]:
    """Give every variable of the job: the wish's own first, ours win."""
    found = dict(spec.get("environment") or {})
    if spec["kind"] == "train":
        found.update(toolkit.variables(spec, place))
    found.update(processing.variables(spec, place))
    if place.base != ML:
        found["SAGEMAKER_BASE_DIR"] = place.base
    found["SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY"] = place.path("sagemaker", "warmpoolcache")
    return found


def complete(spec: Dict[str, Any]) -> Dict[str, Any]:
    """Fill the fields that a controller may leave out.

    :raises ValueError: a field that cannot be used; the text names it.
    """
    if not isinstance(spec, dict) or not isinstance(spec.get("source"), str):
        raise ValueError("spec.source: the text of the cell is missing.")  # noqa: TRY004 - one kind for all fields
    kind = spec.get("kind", "train")
    if kind not in ("train", "process"):
        raise ValueError(f"spec.kind: {kind!r}; it is train or process.")
    whole: Dict[str, Any] = {
        "name": "job",
        "filename": "<" + kind + ">",
        "hyperparameters": {},
        "environment": {},
        "channels": [],
        "outputs": [],
        "send": None,
        "receive": [],
        "max_run": 0,
        "keep_alive": 0,
        "imports": [],
        "gpus": [],
        "source_dir": None,
        "entry_point": "",
        "script": "",
        "folder": "",
    }
    whole.update({name: value for name, value in spec.items() if value is not None})
    whole["kind"] = kind
    return whole
