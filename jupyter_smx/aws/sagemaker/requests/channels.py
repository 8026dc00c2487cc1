"""Input channels: those of a training job, and the inputs of a processing job. Pure but for a look at the files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from jupyter_smx.aws.sagemaker.errors import unsupported_error, validation_error
from jupyter_smx.aws.sagemaker.requests.s3_paths import find_source, read_file
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.channel import Channel
from jupyter_smx.model.unsupported import check_property

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PIPE = "Pipe"
_DATA_TYPES = ("S3Prefix", "ManifestFile")
_SOURCES = {
    "FileSystemDataSource": ("EFS and FSx are not mounted here.", "Copy the files to a bucket, and use S3DataSource."),
    "DatasetSource": ("there is no registry of datasets here.", "Use S3DataSource."),
}
_MODEL_SOURCES = {
    "ModelAccessConfig": ("models of a hub exist only on AWS.", "Download the model, and pass its folder in a bucket."),
    "HubAccessConfig": ("models of a hub exist only on AWS.", "Download the model, and pass its folder in a bucket."),
}
_PROPERTIES = ("AttributeNames", "ShuffleConfig")


def training_channel(request: Mapping[str, Any], root: Path | None, mode: str) -> Channel:
    """Translate one of ``InputDataConfig``; ``mode`` is the job's own, and FastFile and File are kept.

    :raises AwsError: no channel here can have one of its members, or nothing is at its URI.
    """
    name = request["ChannelName"]
    data = request.get("DataSource") or {}
    _check_sources(f"InputDataConfig {name}", data, _SOURCES)
    found = data.get("S3DataSource")
    if not found:
        raise validation_error(f"InputDataConfig {name}: it has no S3DataSource.")
    _check_sources(f"InputDataConfig {name}", found, _MODEL_SOURCES)
    _check_members(name, {**request, **found}, request.get("InputMode") or mode)
    source, data_type = _find_data(found, root)
    return Channel(
        name=name,
        source=source,
        mode="FastFile" if (request.get("InputMode") or mode) == "FastFile" else "File",
        distribution=found.get("S3DataDistributionType") or "FullyReplicated",
        groups=tuple(found.get("InstanceGroupNames") or ()),
        data_type=data_type,
        content_type=request.get("ContentType") or "",
    )


def processing_channel(request: Mapping[str, Any], root: Path | None) -> Channel:
    """Translate one of ``ProcessingInputs``.

    :raises AwsError: no input here can have one of its members, or nothing is at its URI.
    """
    name = request["InputName"]
    if request.get("DatasetDefinition"):
        raise unsupported_error(
            f"ProcessingInputs {name}: DatasetDefinition",
            "Athena and Redshift are services of AWS.",
            "Export the data to a bucket, and use S3Input.",
        )
    found = request.get("S3Input")
    if not found:
        raise validation_error(f"ProcessingInputs {name}: it has no S3Input.")
    members = {"CompressionType": found.get("S3CompressionType"), **found}
    _check_members(name, members, found.get("S3InputMode") or "File")
    source, data_type = _find_data(found, root)
    return Channel(
        name=name,
        source=source,
        distribution=found.get("S3DataDistributionType") or "FullyReplicated",
        data_type=data_type,
        path=(found.get("LocalPath") or "").rstrip("/"),
    )


def _find_data(data: Mapping[str, Any], root: Path | None) -> tuple[str, Literal["S3Prefix", "ManifestFile"]]:
    """Return the source of a channel and its type; a manifest must be a file.

    :raises AwsError: nothing is there.
    """
    if data.get("S3DataType") == "ManifestFile":
        return read_file(data["S3Uri"], root), "ManifestFile"
    return find_source(data["S3Uri"], root), "S3Prefix"


def _check_sources(where: str, data: Mapping[str, Any], refused: Mapping[str, tuple[str, str]]) -> None:
    for member, (reason, cure) in refused.items():
        if data.get(member):
            raise unsupported_error(f"{where}: {member}", reason, cure)


def _check_members(channel: str, members: Mapping[str, Any], mode: str) -> None:
    """Refuse what only SageMaker's mode Pipe has; the value ``None`` of two members asks for nothing."""
    data_type = members.get("S3DataType") or "S3Prefix"
    try:
        if mode == PIPE:
            check_property(channel, "mode", PIPE)
        for member in ("CompressionType", "RecordWrapperType"):
            if members.get(member) not in (None, "", "None"):
                check_property(channel, member)
        for member in _PROPERTIES:
            if members.get(member):
                check_property(channel, member)
        if data_type not in _DATA_TYPES:
            check_property(channel, "type", data_type)
    except ValidationError as error:
        raise validation_error(str(error).removeprefix("--input ")) from None
    if data_type not in _DATA_TYPES:
        raise unsupported_error(f"{channel}: S3DataType {data_type}", "it is a format of AWS.", "Use S3Prefix.")
