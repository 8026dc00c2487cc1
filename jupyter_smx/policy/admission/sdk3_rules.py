"""What the drivers of SageMaker's Python SDK 3 cannot carry to a script: a job that would fail there is not begun."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_smx.model.spec.job_spec import JobSpec

RESERVED = frozenset({"code", "sm_drivers"})
_WORD = re.compile(r"[A-Za-z0-9_]*")
_V2 = "Leave --contract out: by the toolkit's contract it runs."


def check(spec: JobSpec) -> None:
    """Let a wish pass by the contract that it asks for.

    :raises ValidationError: something that bash, which sets the variables there, could not read.
    """
    if spec.contract == "v2":
        return
    for trouble in _errors(spec):
        raise trouble


def _errors(spec: JobSpec) -> Iterator[ValidationError]:
    if spec.kind != "train":
        yield ValidationError(
            "--contract: v3 stands on a processing job.",
            field="contract",
            value=spec.contract,
            rule="It is how SDK 3 starts training jobs; a processing job has one contract.",
            cure="Leave it out.",
        )
    for channel in spec.channels:
        if channel.name in RESERVED or not _WORD.fullmatch(channel.name):
            yield ValidationError(
                f"--input {channel.name}: --contract v3 cannot have a channel of that name.",
                field="channels",
                value=channel.name,
                rule="Its name becomes that of a variable in bash: letters, digits and underscores, and neither code "
                "nor sm_drivers, which SDK 3 adds.",
                cure="Name the channel otherwise.",
            )
    for key, value in spec.hyperparameters.items():
        if not _WORD.fullmatch(key.replace("-", "_")):
            yield ValidationError(
                f"--hp {key}: --contract v3 cannot have a hyperparameter of that name.",
                field="hyperparameters",
                value=key,
                rule="Its name becomes that of a variable in bash: letters, digits, dashes and underscores.",
                cure=_V2,
            )
        if "'" in value:
            yield ValidationError(
                f"--hp {key}: --contract v3 cannot carry a value with an apostrophe.",
                field="hyperparameters",
                value=key,
                rule="SDK 3 writes it between two of them into a file that bash reads.",
                cure=_V2,
            )
