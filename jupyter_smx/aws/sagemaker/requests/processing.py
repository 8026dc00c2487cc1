"""Translate ``CreateProcessingJob``: entry points of the SDK's processors become scripts, all others are commands.

An input that is the code is left away, since a job here gets its code without a channel.
"""

from __future__ import annotations

import posixpath
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_smx.aws.sagemaker.errors import validation_error
from jupyter_smx.aws.sagemaker.requests import field_rules
from jupyter_smx.aws.sagemaker.requests.channels import processing_channel
from jupyter_smx.aws.sagemaker.requests.images import ImageChoice, choose_interpreter
from jupyter_smx.aws.sagemaker.requests.instance_types import choose_type, requested_hosts
from jupyter_smx.aws.sagemaker.requests.s3_paths import local_path, put_placeholder
from jupyter_smx.aws.sagemaker.requests.translation import Code, TranslatedRequest
from jupyter_smx.kernel.request.source_copy import copy_file
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import DAY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_smx.aws.sagemaker.requests.translation import TranslationContext

MEMBERS = frozenset(
    {
        *("AppSpecification", "Environment", "ExperimentConfig", "NetworkConfig", "ProcessingInputs"),
        *("ProcessingJobName", "ProcessingOutputConfig", "ProcessingResources", "RoleArn", "StoppingCondition"),
        "Tags",
    }
)
"""Members of the request that this version translates."""
CODE, ENTRY_POINT = "/opt/ml/processing/input/code", "/opt/ml/processing/input/entrypoint"
"""Folders of the code, and of the program by which a FrameworkProcessor starts it."""
_PYTHONS = (("python",), ("python3",))
_SHELLS = (("/bin/bash",), ("bash",), ("/bin/sh",), ("sh",))
_SPARK = "smspark-submit"
_ALL_ARGUMENTS = "$@"
_CLUSTER = "ProcessingResources.ClusterConfig"
_SOURCE_ARCHIVE = "sourcedir.tar.gz"


class _Entry:
    """The words of an entry point: a program with its options, and the path of its script in the job."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self.program, self.script = self.words[:-1], self.words[-1] if self.words else ""

    def is_in(self, folder: str) -> bool:
        """Return True if the script is directly in a folder."""
        return posixpath.dirname(self.script) == folder.rstrip("/")


def translate_processing(request: Mapping[str, Any], here: TranslationContext) -> TranslatedRequest:
    """Translate a request that is valid by the API's shapes.

    :raises AwsError: it asks for what no job here can have, or an input has no files.
    """
    field_rules.check_refused(request)
    channels = tuple(processing_channel(each, here.s3_root) for each in request.get("ProcessingInputs") or ())
    code, distribution = _code(request["AppSpecification"], channels)
    image = _image(request["AppSpecification"], code, here)
    wanted, count = requested_hosts(request["ProcessingResources"]["ClusterConfig"], _CLUSTER)
    kind = choose_type(wanted, here.instance_types)
    has_script = bool(code.source or code.entry_point)
    return TranslatedRequest(
        kind="process",
        name=request["ProcessingJobName"],
        fields=_fields(request, here),
        code=code,
        groups=(InstanceGroup(instance_type=kind.name, instance_count=count),),
        channels=tuple(channel for channel in channels if not (has_script and channel.path in (CODE, ENTRY_POINT))),
        outputs=tuple(
            _output(each, request["ProcessingJobName"], here)
            for each in (request.get("ProcessingOutputConfig") or {}).get("Outputs") or ()
        ),
        distribution=distribution,
        environment=dict(request.get("Environment") or {}),
        python=image.python,
        notes=(
            *filter(None, (image.note, kind.note)),
            *field_rules.notes_of(request),
            *field_rules.unknown_members(request, MEMBERS),
        ),
    )


def _fields(request: Mapping[str, Any], here: TranslationContext) -> dict[str, Any]:
    """Return the fields of the job request that are copied."""
    found = {
        "engine": here.engine,
        "job_name": request["ProcessingJobName"],
        "role": request.get("RoleArn") or "",
        "image": request["AppSpecification"]["ImageUri"] if here.has_images else "",
        "max_run": (request.get("StoppingCondition") or {}).get("MaxRuntimeInSeconds") or DAY,
        "network_isolation": bool((request.get("NetworkConfig") or {}).get("EnableNetworkIsolation")),
        "keep_alive": here.processing_keep_alive,
    }
    return {name: value for name, value in found.items() if value}


def _code(app: Mapping[str, Any], channels: Sequence[Channel]) -> tuple[Code, Distribution | None]:
    """Return the code of an entry point, and Spark's distribution where it starts Spark."""
    entry = _Entry(app.get("ContainerEntrypoint") or ())
    words = tuple(app.get("ContainerArguments") or ())
    if not entry.words:
        return Code(arguments=words), None
    folder = next((channel for channel in channels if channel.path == CODE), None)
    if folder is not None and entry.is_in(CODE):
        if entry.program in _PYTHONS:
            return _script(folder, posixpath.basename(entry.script), (), words), None
        if entry.words[0] == _SPARK:
            return _script(folder, posixpath.basename(entry.script), (), words), Distribution(runner="pyspark")
        return _script(folder, posixpath.basename(entry.script), entry.program, words), None
    starter = next((channel for channel in channels if channel.path == ENTRY_POINT), None)
    if folder is not None and starter is not None and entry.program in _SHELLS and entry.is_in(ENTRY_POINT):
        return _started_code(folder, starter, words), None
    return Code(command=(*entry.words, *words)), None


def _script(channel: Channel, name: str, command: tuple[str, ...], words: tuple[str, ...]) -> Code:
    """Return the code of a processor: its input is the script alone, or a folder with it.

    :raises AwsError: its input is another file.
    """
    if posixpath.basename(channel.source) == name:
        return Code(entry_point=channel.source, command=command, arguments=words)
    if Path(channel.source).is_file() and not channel.source.endswith(".tar.gz"):
        raise validation_error(
            f"AppSpecification.ContainerEntrypoint: {name} is not in the input {channel.name}, which is the file "
            f"{posixpath.basename(channel.source)} alone."
        )
    return Code(source=channel.source, entry_point=name, command=command, arguments=words)


def _started_code(folder: Channel, starter: Channel, words: tuple[str, ...]) -> Code:
    """Return the code of a FrameworkProcessor, whose shell script unpacks an archive and runs a script of it.

    The last line of that script is ``python SCRIPT "$@"``.

    :raises AwsError: it has another form, or cannot be read.
    """
    text = _starter_text(starter)
    line = next((line for line in reversed(text.splitlines()) if line.strip()), "")
    try:
        last = shlex.split(line)
    except ValueError:
        last = []
    if len(last) < len(("python", "script", _ALL_ARGUMENTS)) or last[-1] != _ALL_ARGUMENTS:
        raise validation_error(
            f"AppSpecification: the last line of {starter.source} is {line!r}, and it should be the script of a "
            'FrameworkProcessor: python SCRIPT "$@".'
        )
    source = folder.source
    if not source.endswith(".tar.gz"):
        source = posixpath.join(source, _SOURCE_ARCHIVE)
    command = tuple(last[:-2])
    return Code(source=source, entry_point=last[-2], command=() if command in _PYTHONS else command, arguments=words)


def _starter_text(starter: Channel) -> str:
    """Read the shell script of a FrameworkProcessor, in a real bucket by the process that reads the code of estimators.

    :raises AwsError: the object cannot be read.
    """
    path, copy = Path(starter.source), None
    if starter.source.startswith("s3://"):
        try:
            copy = copy_file(starter.source)
        except ValidationError as error:
            text = str(error).removeprefix("--source-dir: ")
            raise validation_error(f"ProcessingInputs {starter.name}: {text}") from None
        path = Path(copy.folder, path.name)
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _image(app: Mapping[str, Any], code: Code, here: TranslationContext) -> ImageChoice:
    """Choose the interpreter that stands for the image, unless hosts are made of the image itself."""
    uri = app["ImageUri"]
    if here.has_images:
        return ImageChoice()
    if not (code.entry_point or code.command):
        raise validation_error(
            f"AppSpecification: there is no script. The engine {here.engine} runs no images, so the program of {uri} "
            "cannot be started. Pass ContainerEntrypoint, as a ScriptProcessor does, or choose the engine docker."
        )
    return choose_interpreter(uri, here.images, match=here.match_images)


def _output(request: Mapping[str, Any], job: str, here: TranslationContext) -> Output:
    name = request["OutputName"]
    found = request.get("S3Output")
    if not found:
        raise validation_error(
            f"ProcessingOutputConfig {name}: there is no feature store here. Use S3Output, not FeatureStoreOutput."
        )
    if not found.get("LocalPath"):
        raise validation_error(
            f"ProcessingOutputConfig {name}: its S3Output has no LocalPath, the folder of its files."
        )
    return Output(
        name=name,
        path=found["LocalPath"].rstrip("/"),
        destination=local_path(put_placeholder(found["S3Uri"], job), here.s3_root),
        mode=found.get("S3UploadMode") or "EndOfJob",
    )
