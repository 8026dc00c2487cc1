"""Provenance of a job's result: the code, packages, inputs, machine and seeds of one run."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Revision(Struct, frozen=True, kw_only=True):
    """The git commit that the work tree around the notebook was at when the job was submitted.

    ``branch`` is "" where HEAD is detached. Changes that were not committed are not looked for: the code of the cell
    is kept as it ran, whatever the work tree holds.
    """

    commit: str
    branch: str = ""
    folder: str = ""
    """The top folder of the work tree, on the submitter's machine."""


class InputDigest(Struct, frozen=True, kw_only=True):
    """Content of one channel when it was staged: SHA-256 in hexadecimal digits, number of files, bytes.

    ``method`` is the source of the digest: ``content``: names, sizes and the content of every file; ``listing``: names,
    sizes and modification times, because the content is too large; ``none``: no digest, with the reason in ``reason``.
    ``host`` is "" if all hosts had the same.
    """

    channel: str
    method: Literal["content", "listing", "none"]
    sha256: str = ""
    files: int = 0
    bytes: int = 0
    reason: str = ""
    host: str = ""


class OwnModule(Struct, frozen=True, kw_only=True):
    """A module that was imported from the user's own files, not from an installed distribution.

    ``sha256`` is that of its file, or of all Python files of its folder ("" if they are too many or deleted).
    """

    name: str
    path: str
    sha256: str = ""


class Machine(Struct, frozen=True, kw_only=True):
    """A host as reported by its agent: names, hardware, and the interpreter of its jobs.

    ``memory_bytes`` and ``cpus`` are the whole machine's, ``vcpus`` and ``gpu_count`` the share of this host's jobs.
    Unknown values are empty or 0.
    """

    hostname: str = ""
    platform: str = ""
    cpu_model: str = ""
    cpus: int = 0
    vcpus: int = 0
    memory_bytes: int = 0
    gpus: tuple[str, ...] = ()
    gpu_count: int = 0
    executable: str = ""
    python: str = ""
    """``sys.version``: number, build and compiler."""


class HostLimits(Struct, frozen=True, kw_only=True):
    """Limits of all processes of a job on a host together; 0: no limit. ``reason`` explains missing limits."""

    cpus: int = 0
    memory_bytes: int = 0
    """Swap included."""
    reason: str = ""


class HostProvenance(Struct, frozen=True, kw_only=True):
    """One host that ran the job: its name in the job (``algo-1``), its machine, and the isolation of the job."""

    host: str
    instance_type: str = ""
    isolation: str = ""
    isolation_reason: str = ""
    given_up: tuple[str, ...] = ()
    """Parts of its isolation that its engine could not provide, in sentences."""
    limits: HostLimits = HostLimits()
    machine: Machine = Machine()


class SeedNote(Struct, frozen=True, kw_only=True):
    """Whether and how the job's random numbers were fixed, as far as that is visible from outside.

    ``libraries`` are imported ones with a random state of their own, ``calls`` the places in the code that seed one
    (``numpy.random.seed, line 3``), ``hyperparameters`` those with the name of a seed.
    """

    sentence: str
    libraries: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    hyperparameters: dict[str, str] = {}
    hash_seed: str = ""
    """``PYTHONHASHSEED`` of the interpreter that ran the code; "" where hashes of strings were random."""


class Provenance(Struct, frozen=True, kw_only=True):
    """Provenance of a job; written once, with its verdict.

    ``code_sha256`` is that of ``spec.source`` in the job's record. ``packages`` are the distributions with a module
    that was imported at the end, version by name; if hosts differ, the first host's, with a line in ``notes``.
    """

    code_sha256: str
    image: str = ""
    """Name, id and digest of the image that its hosts were made of, "" where they were made of none."""
    python: str = ""
    """Path of the interpreter."""
    python_version: str = ""
    """Full version number, as ``3.11.7``."""
    packages: dict[str, str] = {}
    own_modules: tuple[OwnModule, ...] = ()
    inputs: tuple[InputDigest, ...] = ()
    sent_sha256: str = ""
    """SHA-256 of the file with the variables that were sent, "" if there were none."""
    source_dir_sha256: str = ""
    """SHA-256 of the archive with the job's folder of code, "" if it had none."""
    hosts: tuple[HostProvenance, ...] = ()
    seeds: SeedNote
    revision: Revision | None = None
    notes: tuple[str, ...] = ()
    """Sentences about what is not known or not as it seems."""
