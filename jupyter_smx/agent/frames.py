"""Types of data between processes: the run request, frames between controller and agent, the end record.

Both sides import this module for mypy only (``if TYPE_CHECKING``), so it costs nothing at run time. Keys, types and
units are those of the wire. The agent runs on Python 3.8, whose ``TypedDict`` has no optional keys of its own:
classes with ``total=False`` hold them.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, TypedDict


class ShareSpec(TypedDict):
    """The part of a sharded channel that a host gets: ``turn`` from 0, of ``count``."""

    turn: int
    count: int


class ChannelEntries(TypedDict, total=False):
    """Paths of a channel's files if the controller's machine shares no paths with the host."""

    entries: List[List[str]]
    """Pairs of a name in the channel and a path on the host."""
    moved: str
    """The source as the user wrote it, for messages."""


class ChannelSpec(ChannelEntries):
    """One input channel of one host."""

    name: str
    source: str
    mode: str
    """``File`` or ``FastFile``."""
    distribution: str
    """``FullyReplicated`` or ``ShardedByS3Key``."""
    data_type: str
    """``S3Prefix`` or ``ManifestFile``."""
    content_type: str
    path: str
    """Folder in the job; "" for the usual one."""
    share: ShareSpec


class OutputSpec(TypedDict):
    """One output: its folder in the job, and its destination as a path or URL ("" for the job's folder)."""

    name: str
    path: str
    destination: str
    mode: str
    """``EndOfJob`` or ``Continuous``."""


class PayloadSpec(TypedDict):
    """A file of pickled variables; ``size`` in bytes."""

    path: str
    sha256: str
    size: int
    protocol: str
    """``pickle`` or ``cloudpickle``, with its version."""


class SourceDirSpec(TypedDict):
    """An archive of the user's code; ``size`` in bytes of what it holds."""

    folder: str
    path: str
    sha256: str
    files: int
    size: int


class RunSpec(TypedDict):
    """What one host runs: the ``spec`` of a ``run`` request. Times are seconds."""

    name: str
    kind: str
    """``train`` or ``process``."""
    source: str
    filename: str
    hyperparameters: Dict[str, str]
    environment: Dict[str, str]
    channels: List[ChannelSpec]
    outputs: List[OutputSpec]
    role: str
    image: str
    requirements: List[str]
    send: Optional[PayloadSpec]
    shared: Optional[PayloadSpec]
    source_dir: Optional[SourceDirSpec]
    entry_point: str
    arguments: List[str]
    command: List[str]
    """Program and words that run the entry point, or that are the whole command; empty for none."""
    image_workdir: bool
    """The code starts in the working folder of the host's image."""
    folder: str
    """The submitter's folder that the code comes from; "" for a cell."""
    receive: List[str]
    max_run: float
    """0 for no limit."""
    checkpoint: str
    checkpoint_local_path: str
    disable_output_compression: bool
    grace: float
    keep_alive: int
    warm_pool: bool
    contract: str
    """``v2`` or ``v3``."""
    distribution: str
    processes: int
    """On each host; 0 for one per GPU, or one."""
    python_version: str
    submitted_at: float
    """Seconds since the epoch on the submitter's clock."""
    imports: List[str]
    gpus: List[int]
    key: str
    """Secret of this job and its lease, by which its hosts on several machines recognize each other; "" without any."""


class CompleteSpec(RunSpec):
    """A run request that the agent has completed."""

    script: str
    """Name of the file that a cell beside a folder of code is written to; "" for the usual one."""


class _ChildCode(TypedDict, total=False):
    trees: str
    """Folder of unpacked source folders on the host."""
    target: str
    """Folder that the job's copy of the code goes to."""
    home: str
    """Folder of the record of sent files that install packages."""
    installs: str
    """Command by which the script installs packages, such as ``pip install``; "" if it shows none."""


class ChildMessage(_ChildCode):
    """What the agent sends to the process of a job."""

    spec: CompleteSpec
    folder: str
    """The job's folder in the spool."""
    restart: bool
    """It continues in a new interpreter, without preloads."""
    disk_patience: float
    """Seconds for which its end waits for room on a full disk."""


class _Envelope(TypedDict):
    id: int
    """Counts the requests of a stream; the answer has it as ``re``."""
    op: str
    received: float
    """Seconds since the epoch; the agent adds it when it reads the frame."""


class _ChannelOffer(TypedDict, total=False):
    channels: bool
    """The controller takes channels (``system.forwarding.channel_frames``), and connects them to the front."""


class HelloFields(_ChannelOffer):
    """The first request of a stream."""

    protocol: int
    epoch: int


class _RunClock(TypedDict, total=False):
    clock_ahead: float
    """Seconds by which the host's clock is ahead of the controller's, where they differ."""


class _RunFiles(TypedDict, total=False):
    sdk_config: str
    """Text of the file that ``SAGEMAKER_ADMIN_CONFIG_OVERRIDE`` names, where the host does not see it."""


class RunFields(_RunClock, _RunFiles):
    """Run a job; ``lease`` rises with each job of the host."""

    job: str
    lease: int
    spec: RunSpec


class StopFields(TypedDict):
    """Stop a job: SIGTERM now, SIGKILL after ``grace`` seconds."""

    job: str
    lease: int
    grace: float
    cause: str


class ReadFields(TypedDict):
    """Read at most ``limit`` bytes from ``offset`` on of a file in the spool."""

    job: str
    lease: int
    name: str
    offset: int
    limit: int


class ForgetFields(TypedDict):
    """Delete what the host kept of a job."""

    job: str
    lease: int


class DeadlineFields(TypedDict):
    """End the host after so many seconds without a job; None removes the deadline."""

    seconds: Optional[float]


class PreloadFields(TypedDict):
    """Import these modules in the zygote."""

    modules: List[str]


class HaveFields(TypedDict):
    """Query which items and files are on the host; ``only`` deletes all others. Each is named by its SHA-256."""

    items: List[str]
    files: List[str]
    only: bool


class HaveAnswer(TypedDict):
    """Which of these are on the host: ``partial`` has the bytes of incomplete files.

    An item lies at ``root/items/<id>/<name>``.
    """

    root: str
    items: List[str]
    files: List[str]
    partial: Dict[str, int]


class PutFields(TypedDict):
    """Append the frame's bytes to a file of ``total`` bytes, from ``offset`` on."""

    sha256: str
    offset: int
    total: int


class ProvidedEntry(TypedDict):
    """A file, folder or link of an item; ``path`` is relative, "" for the item itself."""

    path: str
    kind: str
    """``file``, ``folder`` or ``link``."""
    sha256: str
    """Content of a file; else ""."""
    target: str
    """Target of a link; else ""."""
    executable: bool
    mtime_ns: int


class PlaceFields(TypedDict):
    """Make a file or folder of files that were put; folders stand before what lies in them."""

    item: str
    name: str
    entries: List[ProvidedEntry]


class HelloRequest(_Envelope, HelloFields):
    """``hello``."""


class RunRequest(_Envelope, RunFields):
    """``run``."""


class StopRequest(_Envelope, StopFields):
    """``stop``."""


class ReadRequest(_Envelope, ReadFields):
    """``read``."""


class ForgetRequest(_Envelope, ForgetFields):
    """``forget``."""


class DeadlineRequest(_Envelope, DeadlineFields):
    """``deadline``."""


class PreloadRequest(_Envelope, PreloadFields):
    """``preload``."""


class HaveRequest(_Envelope, HaveFields):
    """``have``."""


class PutRequest(_Envelope, PutFields):
    """``put``; the bytes are the frame's body."""


class PlaceRequest(_Envelope, PlaceFields):
    """``place``."""


Moments = Dict[str, Optional[float]]
"""Steps of a job (``received``, ``awake``, ``first_line``, ``exited``, ``ended``) and when, in seconds since the epoch.

They are of the controller's clock."""


class JobView(TypedDict):
    """A job in the answer to ``hello``; ``log`` and ``samples`` are bytes."""

    phase: str
    lease: int
    log: int
    samples: int
    at: Moments


class PreloadView(TypedDict, total=False):
    """Modules that the zygote has imported, why others failed, and what each cost."""

    loaded: List[str]
    failed: Dict[str, str]
    costs: Dict[str, Dict[str, Any]]


class MissingPreloadsView(TypedDict):
    """Preloads that a job does not find, since it changes variables that they read, and in sentences why."""

    modules: List[str]
    reasons: List[str]


class ArtifactEntry(TypedDict, total=False):
    """A file that a job made; ``size`` in bytes. A long record leaves ``path`` out."""

    name: str
    size: int
    path: str


class FailureFields(TypedDict):
    """Texts of a failure: for SageMaker's ``FailureReason``, in our words, and the job's own message."""

    failure: Optional[str]
    reason: Optional[str]
    message: Optional[str]


class EndRecord(TypedDict, total=False):
    """The record of a job's end on one host, as it is written, sent and read again."""

    job: str
    lease: int
    host: str
    cause: str
    exit_code: Optional[int]
    signal: Optional[int]
    failure: Optional[str]
    reason: Optional[str]
    message: Optional[str]
    exception: Optional[Dict[str, Any]]
    at: Moments
    log: int
    samples: int
    usage: Dict[str, Any]
    hash_seed: str
    artifacts: List[ArtifactEntry]
    received: Dict[str, int]
    errors: List[str]
    left_behind: List[str]
    modules: List[str]
    packages: Dict[str, str]
    own_modules: List[Dict[str, Any]]
    missing_preloads: MissingPreloadsView
    inputs: List[Dict[str, Any]]
    notes: List[str]
