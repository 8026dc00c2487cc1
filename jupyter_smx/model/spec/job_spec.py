"""The job request: everything that a user requests for one job, frozen and independent of its hosts."""

from __future__ import annotations

import json
import re
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from jupyter_smx.model.request_texts import FIELDS, fill
from jupyter_smx.model.results.provenance import Revision
from jupyter_smx.model.spec.array import ArrayTask
from jupyter_smx.model.spec.channel import Channel, Output, Payload
from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.mount import Mount

_ENTRY_POINT = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._+-]*(/[A-Za-z0-9._+-]+)*")  # as sagemaker-training has it

DAY = 86_400

ImageSetting = Literal["", "default", "image"]
"""Whether a setting of the image counts for a job: ``image``, or not: ``default``."""
TRAIN = "train"
"""Program that SageMaker starts in the image of a training job."""

MAX_SPEC_BYTES = 5 * 2**20
"""Bytes of a request as JSON: a cell must fit into one frame to the agent (16 MiB) with every letter escaped."""


class SourceDir(Struct, frozen=True, kw_only=True):
    """Files of code packed by the kernel: one archive, named by its content, that the job's hosts unpack.

    ``folder`` is their folder on the submitter's machine, for tracebacks, "" if they are of several. ``files`` and
    ``size`` (bytes) describe the content of the archive. ``ignored`` are names in the folder that a ``.gitignore``
    excluded, a folder with a slash at its end; of many only the first ones. With ``is_whole`` False there was no
    ``--source-dir``: other files of ``folder`` were never meant to be sent. ``dependencies`` are the names, beside the
    script, of what ``--dependency`` added.
    """

    folder: str
    path: str
    sha256: str
    files: int
    size: int
    ignored: tuple[str, ...] = ()
    is_whole: bool = True
    dependencies: tuple[str, ...] = ()


def is_entry_point(name: str) -> bool:
    """Return True if SageMaker would accept ``name`` as a script: a path that stays in its folder, of plain letters."""
    return bool(_ENTRY_POINT.fullmatch(name)) and not {".", ".."}.intersection(name.split("/"))


class PythonEnvironment(Struct, frozen=True, kw_only=True):
    """Requirements over a base interpreter, or alone.

    ``requirements`` are lines in pip's format without comments and without names of other files: ``-c NAME<2`` is a
    constraint itself, local paths are absolute, and ``# content …`` behind one changes when what lies there does.
    ``only`` leaves the packages of the base out. ``python_version`` is the base's, as ``3.11``.
    """

    requirements: tuple[str, ...]
    only: bool = False
    python_version: str = ""


class JobSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Request of a job: its code, inputs, hosts and limits.

    Values of ``hyperparameters`` are strings, JSON if they are not plain text (SageMaker's encoding). A keyword of
    Python sends text as a JSON string, so that it stays text. ``keep_alive``, ``max_run`` and ``max_wait`` are seconds.
    With a ``keep_alive`` of None a kept pool keeps its keep-alive, and new hosts are released; 0 releases both.
    ``imports`` are the modules that the code imports at its top, a hint for preloading that may be wrong.
    """

    kind: Literal["train", "process"]
    source: str
    base_name: str = ""
    job_name: str = ""
    """The exact name that the user gave the job; "" for one made of ``base_name`` and the id."""
    filename: str = ""
    engine: str = "local"
    engine_options: dict[str, str] = {}
    """Options of the engine for the hosts, by the engine's own names; they replace those of the instance types."""
    instance_groups: tuple[InstanceGroup, ...] = (InstanceGroup(),)
    distribution: Distribution | None = None
    keep_alive: int | None = None
    hyperparameters: dict[str, str] = {}
    environment: dict[str, str] = {}
    channels: tuple[Channel, ...] = ()
    outputs: tuple[Output, ...] = ()
    source_dir: SourceDir | None = None
    source_ignore: Literal["gitignore", "none"] = "gitignore"
    """Files of the source folder that are not sent: those that a ``.gitignore`` names, caches and the like, or none."""
    entry_point: str = ""
    """Name of the script in its folder, as ``train.py``; "" where the cell is the script."""
    command: tuple[str, ...] = ()
    """Program and words that run the entry point, or that are the whole command of a job without one."""
    contract: Literal["v2", "v3"] = "v2"
    """Environment of a training script: that of the toolkit in SageMaker's images, or of the drivers of SDK 3."""
    arguments: tuple[str, ...] = ()
    """Arguments of a processing job's script, unchanged: SageMaker's ``ContainerArguments``."""
    send: Payload | None = None
    receive: tuple[str, ...] = ()
    role: str = ""
    image: str = ""
    """Image of its hosts, if the engine uses images (``TrainingImage``, ``ImageUri``).

    The image that is built for a request with ``build`` is called :func:`jupyter_smx.model.spec.image.build_name`.
    """
    build: str = ""
    """Absolute path of a folder with a Dockerfile, or of a Dockerfile, that the image of its hosts is built from."""
    mounts: tuple[Mount, ...] = ()
    """Folders and volumes of the machine that its hosts see beside its files; sorted by their targets."""
    shm_size: int = 0
    """Bytes of ``/dev/shm`` in its hosts' containers; 0 is the engine's choice."""
    image_user: ImageSetting = ""
    """Whether the job runs as the image's ``USER``; "" is as the engine is configured."""
    image_entrypoint: ImageSetting = ""
    """Whether its hosts are started through the image's ``ENTRYPOINT``."""
    image_workdir: ImageSetting = ""
    """Whether its code starts in the image's ``WORKDIR``."""
    image_program: bool = False
    """True if the image's own program is the job: ``train`` of a training job, the entry point of a processing job."""
    max_run: int = DAY
    python: str = ""
    python_version: str = ""
    python_named: bool = False
    """True if the user named ``python``, and it is not just the submitter's interpreter."""
    requirements: tuple[str, ...] = ()
    """Requirements of the job beside the packages of ``python``; see :class:`PythonEnvironment`."""
    requirements_only: bool = False
    """True if the job's environment has only the requirements and none of ``python``'s packages."""
    imports: tuple[str, ...] = ()
    notebook_names: dict[str, str] = {}
    """Names of the notebook that the cell reads and does not assign: the module of each, "" for a variable."""
    spelling: Literal["line", "keyword"] = "line"
    """Form in which the user wrote the options: on the line of a magic or a command, or as keywords of Python."""
    notebook: str = ""
    cell_id: str = ""
    """Id of the notebook's cell that submitted the job, if the front end provides it."""
    working_directory: str = ""
    metrics: dict[str, str] = {}
    """Regular expressions by the name of their metric; the first group is the value."""
    array: ArrayTask | None = None
    shared: Payload | None = None
    """Variables that all tasks of an array get, beside those of ``send``."""
    retries: int = 0
    """Maximum number of retries after an ``InternalServerError``."""
    spot: bool = False
    """True if its hosts may be taken away at any time; then it begins again (``EnableManagedSpotTraining``)."""
    max_wait: int = 0
    """Seconds in which a spot job waits and runs, all attempts together; 0 is no limit (``MaxWaitTimeInSeconds``)."""
    checkpoint: str = ""
    """Absolute folder, or URL, that ``/opt/ml/checkpoints`` is restored from and kept in (``CheckpointConfig``)."""
    checkpoint_local_path: str = ""
    """Folder below ``/opt/ml`` that this is done with instead of ``/opt/ml/checkpoints`` (its ``LocalPath``)."""
    disable_output_compression: bool = False
    """True if the model of a training job is collected as single files (``CompressionType`` ``NONE``)."""
    network_isolation: bool = False
    """Its hosts reach each other and nothing else (``EnableNetworkIsolation``)."""
    after: tuple[str, ...] = ()
    """Ids of the jobs and arrays that must have completed before this one begins."""
    notes: tuple[str, ...] = ()
    """Sentences of the submitter about its request, which the reason of the start begins with."""
    revision: Revision | None = None
    submitted_at: float = 0.0
    """Seconds since the epoch on the submitter's clock, when its magic began to run."""

    def all_hyperparameters(self) -> dict[str, str]:
        """Return the hyperparameters, with those of the contract's SDK for the distribution."""
        return self.sdk2_hyperparameters() if self.contract == "v2" else dict(self.hyperparameters)

    def sdk2_hyperparameters(self) -> dict[str, str]:
        """Return the hyperparameters as SageMaker's SDK 2 sends them; SDK 3 has a file for the distribution."""
        told = {} if self.distribution is None else self.distribution.parameters(self.instance_groups)
        return {**told, **self.hyperparameters}

    def has_flag(self, name: str) -> bool:
        """Return True if SageMaker's toolkit reads a hyperparameter as true: it parses JSON, or else a text."""
        try:
            return bool(json.loads(self.hyperparameters.get(name, "false")))
        except ValueError:
            return True

    def fill_job_name(self, name: str) -> JobSpec:
        """Return the request with the job's name in the place of ``{job_name}``."""
        return replace(self, **{field: fill(getattr(self, field), name) for field in FIELDS})

    def is_program(self) -> bool:
        """Return True if a program runs as the job's code, and not Python in a process of the host."""
        is_command = bool(self.command) or self.image_program
        return is_command or (bool(self.entry_point) and not self.entry_point.endswith(".py"))

    def is_only_command(self) -> bool:
        """Return True if a command is all that runs, so that ``source`` is no code, but the command as text."""
        return (bool(self.command) or self.image_program) and not self.entry_point

    def image_settings(self) -> tuple[str, ...]:
        """Name the settings of the image that count for the hosts themselves, sorted: ``entrypoint``, ``user``."""
        wanted = {"entrypoint": self.image_entrypoint, "user": self.image_user}
        return tuple(name for name, choice in wanted.items() if choice == "image")

    def payloads(self) -> tuple[str, ...]:
        """Return the paths of the files that the kernel packed for this job."""
        return tuple(packed.path for packed in (self.shared, self.send, self.source_dir) if packed is not None)

    def payload_digests(self) -> dict[str, str]:
        """Return the SHA-256 of the files of variables, by path."""
        return {packed.path: packed.sha256 for packed in (self.shared, self.send) if packed is not None}

    def instance_count(self) -> int:
        """Count the hosts of all groups."""
        return sum(group.instance_count for group in self.instance_groups)

    def has_values(self) -> bool:
        """Return True if variables come with the job, or go back to the notebook."""
        return self.send is not None or self.shared is not None or bool(self.receive)

    def instances(self) -> str:
        """Format the hosts in a few words, as ``ml.m5.xlarge × 2 + local × 1``."""
        return " + ".join(f"{group.instance_type} × {group.instance_count}" for group in self.instance_groups)
