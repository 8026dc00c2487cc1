"""Data of a job: input channels, outputs, artifacts and packed variables."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Channel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One input: its source, its presentation, its hosts.

    ``source`` is an absolute local path, a glob or an fsspec URL. ``groups`` empty means all instance groups. The
    source of a ``ManifestFile`` is a list of objects.
    """

    name: str
    source: str
    mode: Literal["File", "FastFile"] = "File"
    distribution: Literal["FullyReplicated", "ShardedByS3Key"] = "FullyReplicated"
    groups: tuple[str, ...] = ()
    data_type: Literal["S3Prefix", "ManifestFile"] = "S3Prefix"
    content_type: str = ""
    """MIME type for training scripts in ``inputdataconfig.json``; it changes nothing else."""
    path: str = ""
    """Absolute folder of the channel in a processing job (SageMaker's ``LocalPath``); "" is the usual one."""


def input_folder(kind: Literal["train", "process"], channel: str, path: str = "") -> str:
    """Return the folder in which a job finds a channel, as on SageMaker; ``path`` is the channel's own, or ""."""
    return path or f"/opt/ml/{'processing/input' if kind == 'process' else 'input/data'}/{channel}"


class Output(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One output: the folder in the job (absolute, or relative to /opt/ml) and the destination of its content.

    In a list of outputs of a processing job, one without a name is ``output-1`` and so on, by its place.
    An empty ``destination`` keeps the content in the job's own folder. ``Continuous`` uploads files of a processing job
    while it runs (SageMaker's ``S3UploadMode``).
    """

    name: str = ""
    path: str
    destination: str = ""
    mode: Literal["EndOfJob", "Continuous"] = "EndOfJob"


def output_folder(output: Output) -> str:
    """Return the folder of an output in a job."""
    return output.path if output.path.startswith("/") else f"/opt/ml/{output.path}"


class Payload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Notebook variables, pickled by the kernel into one file that the job reads: their sizes in bytes by name."""

    path: str
    sha256: str
    sizes: dict[str, int]
    size: int = 0
    """Bytes of the file."""
    protocol: str = ""
    """Versions of Python and cloudpickle that wrote it, as ``3.11/3.1.2``."""
    code: tuple[str, ...] = ()
    """Functions and classes that are packed with their code, as ``the class Net in model``."""

    def python_version(self) -> str:
        """Return the version of Python that wrote it, as ``3.11``; "" if unknown."""
        return self.protocol.partition("/")[0]

    def unusable_code(self, version: str) -> str:
        """Name a function or class whose code Python ``version`` cannot run; "" if there is none, or it is unknown.

        Everything else in the file can be read by Python 3.8 and newer.
        """
        theirs, ours = ".".join(version.split(".")[:2]), self.python_version()
        return self.code[0] if self.code and theirs and ours and theirs != ours else ""


class Artifact(Struct, frozen=True, kw_only=True):
    """A file that a job brought home: name, absolute path here, size in bytes, content hash ('' if not computed)."""

    name: str
    path: str
    size: int
    sha256: str = ""
