"""Name members of the API in the sentences of errors, where they name options of the command line. Pure."""

from __future__ import annotations

import functools
import re
from typing import Literal

from jupyter_smx.model.options.table import ROWS

_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_DURATION = re.compile(r"\ADURATION(?=: )")
"""The argument by which the keep-alive of a pool is changed, where an error begins with it."""
_ENGINE = {"--engine": "c.SmxAws.engine"}
_TRAINING = {
    "--job-name": "TrainingJobName",
    "--entry-point": "HyperParameters sagemaker_program",
    "--source-dir": "HyperParameters sagemaker_submit_directory",
    "--command": "AlgorithmSpecification.ContainerEntrypoint",
}
_PROCESSING = {
    "--job-name": "ProcessingJobName",
    "--entry-point": "AppSpecification.ContainerEntrypoint",
    "--source-dir": "the input code",
    "--command": "AppSpecification.ContainerEntrypoint",
}
"""Members that no option has, or that several options make."""


def to_api_words(text: str, kind: Literal["train", "process"]) -> str:
    """Replace the options that a sentence names by the members of the API; others stay as they are.

    >>> to_api_words("--keep-alive: 2 h is above the limit of 1 h.", "train")
    'ResourceConfig.KeepAlivePeriodInSeconds: 2 h is above the limit of 1 h.'
    """
    members = _members(kind)
    text = _DURATION.sub("--keep-alive", text)
    return _OPTION.sub(lambda found: members.get(found[0], found[0]), text)


@functools.cache
def _members(kind: Literal["train", "process"]) -> dict[str, str]:
    found = {}
    for option in ROWS.values():
        names = option.sagemaker
        if path := names.training_api if kind == "train" else names.processing_api:
            found[option.spellings[-1]] = path
    return found | _ENGINE | (_TRAINING if kind == "train" else _PROCESSING)
