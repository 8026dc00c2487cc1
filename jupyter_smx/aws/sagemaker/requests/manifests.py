"""Turn manifests of local buckets into folders of hard links, which hosts of all engines read as any other folder.

A link takes no space, and keeps the content that the object has when the job is created.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jupyter_smx.agent.stores.objects import ObjectsError, parse_manifest
from jupyter_smx.aws.s3.storage.layout import is_below, leaving_text
from jupyter_smx.aws.sagemaker.errors import unsupported_error, validation_error
from jupyter_smx.aws.sagemaker.requests.s3_paths import read_file, split_uri
from jupyter_smx.model.errors import UnavailableError

if TYPE_CHECKING:
    from jupyter_smx.aws.sagemaker.requests.translation import TranslatedRequest
    from jupyter_smx.model.spec.channel import Channel

_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP)
"""Errors of a file system that cannot link an object here at all."""


def link_manifests(found: TranslatedRequest, root: Path | None, folder: Path) -> TranslatedRequest:
    """Replace each manifest of a bucket below ``root`` by a folder below ``folder`` with its objects. Blocks.

    With the real S3 (``root`` None) hosts read manifests themselves.

    :raises AwsError: it is no manifest, an object does not exist, or none can be linked.
    :raises UnavailableError: the disk does not take the links now.
    """
    if root is None or all(channel.data_type != "ManifestFile" for channel in found.channels):
        return found
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier attempt
    try:
        channels = [
            _link_channel(channel, root, folder / str(number)) if channel.data_type == "ManifestFile" else channel
            for number, channel in enumerate(found.channels)
        ]
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return replace(found, channels=tuple(channels))


def _link_channel(channel: Channel, root: Path, folder: Path) -> Channel:
    uri = f"s3://{Path(channel.source).relative_to(root)}"
    try:
        text = Path(_find_file(uri, root)).read_text(encoding="utf-8")
        objects = [(_find_file(url, root), _check_name(name, uri)) for url, name in parse_manifest(text, uri)]
    except UnicodeDecodeError:
        raise validation_error(f"{uri} is not a manifest: it is not text in UTF-8.") from None
    except ObjectsError as error:
        raise validation_error(str(error)) from error
    try:
        for path, name in objects:
            _link(path, folder.joinpath(*filter(None, name.split("/"))))
    except OSError as error:
        raise _link_error(channel.name, folder, error) from error
    return replace(channel, source=str(folder), data_type="S3Prefix")


def _find_file(uri: str, root: Path) -> str:
    """Return the real path of an object.

    :raises AwsError: there is none, or a link leads out of the bucket, for which S3 has no such object either.
    """
    path = os.path.realpath(read_file(uri, root))
    bucket, key = split_uri(uri)
    if not is_below(path, os.path.realpath(root / bucket)):
        raise validation_error(f"{uri}: {leaving_text(key)}")
    return path


def _check_name(name: str, uri: str) -> str:
    """Return the name of an object in its channel, which differs from its key if the prefix ends in the bucket."""
    if {".", ".."}.intersection(name.split("/")):
        raise validation_error(f"{uri} is not a manifest here: parts of the name {name!r} may not be . or ..")
    return name


def _link(path: str, link: Path) -> None:
    link.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not link.exists():  # a manifest may name an object twice
        os.link(path, link)


def _link_error(channel: str, folder: Path, error: OSError) -> Exception:
    reason = error.strerror or str(error)
    if error.errno in _NO_LINK:
        return unsupported_error(
            f"Channel {channel}: S3DataType ManifestFile",
            f"its objects cannot be linked into {folder} ({reason}).",
            "Use S3Prefix with the prefix of the objects, or put the bucket on the disk of the data folder.",
        )
    return UnavailableError(
        f"The objects of channel {channel} cannot be linked: {reason}.",
        field="channels",
        value=folder,
        cure=f"Free some space on the disk of {folder}, and check that it is writable.",
    )
