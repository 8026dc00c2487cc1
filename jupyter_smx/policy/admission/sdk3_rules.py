"""Refuse jobs that would fail, because the drivers of SageMaker's Python SDK 3 cannot pass their values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_smx.model.spec.job_spec import JobSpec

RESERVED = frozenset({"code", "sm_drivers"})
_WORD = re.compile(r"[A-Za-z0-9_]*")
_V2 = "Remove --contract: the default contract has no such limit."


def check(spec: JobSpec) -> None:
    """Check a request for the contract that it names.

    :raises ValidationError: something that bash, which sets the variables there, could not read.
    """
    if spec.contract == "v2":
        return
    for trouble in _errors(spec):
        raise trouble


def _errors(spec: JobSpec) -> Iterator[ValidationError]:
    if spec.kind != "train":
        yield ValidationError(
            "--contract: v3 is not for processing jobs.",
            field="contract",
            value=spec.contract,
            rule="v3 is how SageMaker's SDK 3 starts training jobs; processing jobs have only one contract.",
            cure="Remove --contract.",
        )
    for channel in spec.channels:
        if channel.name in RESERVED or not _WORD.fullmatch(channel.name):
            yield ValidationError(
                f"--input {channel.name}: --contract v3 does not allow a channel of this name.",
                field="channels",
                value=channel.name,
                rule="The name becomes a bash variable: letters, digits and underscores. SDK 3 reserves code and "
                "sm_drivers.",
                cure="Rename the channel.",
            )
    for key, value in spec.hyperparameters.items():
        if not _WORD.fullmatch(key.replace("-", "_")):
            yield ValidationError(
                f"--hp {key}: --contract v3 does not allow a hyperparameter of this name.",
                field="hyperparameters",
                value=key,
                rule="The name becomes a bash variable: letters, digits, dashes and underscores.",
                cure=_V2,
            )
        if "'" in value:
            yield ValidationError(
                f"--hp {key}: --contract v3 does not allow an apostrophe in a value.",
                field="hyperparameters",
                value=key,
                rule="SDK 3 writes the value in apostrophes into a bash script.",
                cure=_V2,
            )
