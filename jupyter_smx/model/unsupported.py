"""Refuse features of SageMaker that jupyter_smx does not support, by their names there, with an alternative.

Otherwise a job that requests one of these would run without it, and without a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from jupyter_smx.model.spec.job_spec import JobSpec

_IMAGE_RULE = "This launcher exists only in SageMaker's images."
_LIBRARY = "Use --distribution torchrun, and in the script the backend nccl or gloo instead of smddp."
_TORCHRUN = "Use --distribution torchrun."
LAUNCHERS = {
    "smdistributed": _LIBRARY,
    "smdataparallel": _LIBRARY,
    "smddp": _LIBRARY,
    "pytorchddp": _TORCHRUN,
    "pytorchxla": _TORCHRUN,
}
"""Launchers by their names in SageMaker's SDK, and what to take in their place."""
FLAGS = {
    "sagemaker_distributed_dataparallel_enabled": _LIBRARY,
    "sagemaker_pytorch_ddp_enabled": _TORCHRUN,
    "sagemaker_pytorch_xla_multi_worker_enabled": _TORCHRUN,
}
"""The same as hyperparameters, by which its SDK requests them."""

_PIPE_RULE = "It belongs to SageMaker's mode Pipe. Here a channel is a folder with unchanged files."
_COMPRESSION = (_PIPE_RULE, "Remove it, and decompress the files in the script, e.g. with gzip.")
_RECORDS = (_PIPE_RULE, "Remove it, and create the records in the script.")
_SHUFFLE = (
    "Here a channel is a folder, and files in a folder have no order.",
    "Remove it, and shuffle the file names in the script, e.g. with a seed from --hp.",
)
_AUGMENTED_MANIFEST = (
    _PIPE_RULE,
    "Pass the manifest as one channel, and its objects as another, by prefix or type=ManifestFile.",
)
_CHANNEL_PROPERTIES = {
    "compression": _COMPRESSION,
    "compressiontype": _COMPRESSION,
    "s3compressiontype": _COMPRESSION,
    "recordwrapping": _RECORDS,
    "recordwrapper": _RECORDS,
    "recordwrappertype": _RECORDS,
    "shuffle": _SHUFFLE,
    "shuffleconfig": _SHUFFLE,
    "shuffleseed": _SHUFFLE,
    "attributenames": _AUGMENTED_MANIFEST,
    "mode pipe": (
        "A channel is a folder: File copies it, FastFile opens it at once and reads files on demand.",
        "Use mode=FastFile, which SageMaker recommends instead of Pipe; it starts as early.",
    ),
    "type augmentedmanifest": _AUGMENTED_MANIFEST,
    "type augmentedmanifestfile": _AUGMENTED_MANIFEST,
}
"""Properties of a channel, and values of some, without underscores: SageMaker's API and its SDK differ in them."""

_CODE_ARTIFACT = (
    "Only SageMaker's images log in to CodeArtifact with it to install requirements.",
    "Remove it, and set --index-url in the requirements file, with its token as ${NAME}.",
)
_MODULE = (
    "It names a module of a SageMaker image that runs the script; here the script runs directly.",
    "Remove it, and call the module in the script.",
)


def check_launcher(name: str) -> None:
    """Refuse a launcher that exists only in SageMaker's images; accept all others.

    :raises ValidationError: it is such a launcher.
    """
    cure = LAUNCHERS.get(name.lower())
    if cure:
        raise _refusal(f"--distribution {name}", "distribution", name, (_IMAGE_RULE, cure))


def check_property(channel: str, word: str, value: str = "") -> None:
    """Refuse a property of a channel, or a value of one, that only SageMaker supports; accept all others.

    :raises ValidationError: it is such a property.
    """
    said = f"{word} {value}".strip()
    found = _CHANNEL_PROPERTIES.get(said.lower().replace("_", ""))
    if found:
        raise _refusal(f"--input {channel}: {said}", "input", value or word, found)


def check(spec: JobSpec) -> None:
    """Check that no hyperparameter or variable of a request uses one of these features.

    :raises ValidationError: one does.
    """
    if spec.kind != "train":
        return
    flag = next((name for name in FLAGS if spec.contract == "v2" and spec.has_flag(name)), "")
    if flag:
        raise _refusal(f"--hp {flag}", "hyperparameters", flag, (_IMAGE_RULE, FLAGS[flag]))
    for name, found in (
        ("CA_REPOSITORY_ARN", _CODE_ARTIFACT if spec.requirements else None),
        ("SAGEMAKER_TRAINING_MODULE", _MODULE if spec.contract == "v2" else None),
    ):
        if found and spec.environment.get(name):
            raise _refusal(f"--env {name}", "environment", name, found)


def _refusal(said: str, field: str, value: str, found: tuple[str, str]) -> ValidationError:
    rule, cure = found
    return ValidationError(f"{said} is not supported.", field=field, value=value, rule=rule, cure=cure)
