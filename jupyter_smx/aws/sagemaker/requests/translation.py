"""What a request of the API becomes before its code is read: fields of a job request, its code, and notes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from jupyter_smx.aws.sagemaker.settings import ImageRule
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.instance import InstanceGroup


class TranslationContext(Struct, frozen=True, kw_only=True):
    """What the translation depends on: the engine, its instance types, the interpreters of images, the limit."""

    s3_root: Path | None = None
    """Folder with all buckets; None for the real S3."""
    engine: str = "local"
    has_images: bool = False
    """True if hosts of the engine are made of the job's image."""
    instance_types: tuple[str, ...] = ()
    images: tuple[ImageRule, ...] = ()
    match_images: bool = False
    """True if images of frameworks run environments with their versions."""
    keep_alive_cap: int = 21_600
    """Longest keep-alive in seconds that the administrator allows."""
    processing_keep_alive: int | None = None


class Code(Struct, frozen=True, kw_only=True):
    """The code of a job, not read yet.

    ``source`` is an archive or a folder with the entry point, as a path or a URL; "" if the entry point is a path of
    its own, or if a command is all that runs.
    """

    source: str = ""
    entry_point: str = ""
    command: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


class TranslatedRequest(Struct, frozen=True, kw_only=True):
    """A request, translated. ``fields`` are those of :class:`JobSpec` that no other member has."""

    kind: str
    name: str
    fields: Mapping[str, Any]
    code: Code
    groups: tuple[InstanceGroup, ...]
    channels: tuple[Channel, ...] = ()
    outputs: tuple[Output, ...] = ()
    distribution: Distribution | None = None
    hyperparameters: Mapping[str, str] = {}
    environment: Mapping[str, str] = {}
    metrics: Mapping[str, str] = {}
    python: str = ""
    """Interpreter as ``--python`` names it; "" is the front's own."""
    notes: tuple[str, ...] = ()
    """Sentences about parts of the request that have no effect here, or another one."""
