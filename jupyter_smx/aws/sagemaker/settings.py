"""Settings of the operations, in a module of their own because the command line makes them, too."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from jupyter_smx.aws_endpoint.endpoint_file import Endpoint


class ImageRule(Struct, frozen=True, kw_only=True):
    """Interpreter for the images whose URI matches a regular expression, as ``--python`` names it."""

    pattern: str
    python: str


class SageMakerSettings(Struct, frozen=True, kw_only=True):
    """Engine of the jobs, places of files, interpreters of images, and seconds of held answers.

    ``s3_root`` is the folder with all buckets; None leaves S3 URIs to the real S3 (hybrid). ``processing_keep_alive``
    is the keep-alive of processing jobs, for which the API has no field.
    """

    data_folder: Path
    """Folder of the front, with the requests of jobs."""
    s3_root: Path | None = None
    endpoint: Endpoint | None = None
    """Address and key of the front, for clients in jobs; None leads none of them here."""
    engine: str = "local"
    images: tuple[ImageRule, ...] = ()
    """Interpreters of images; the first rule that matches counts, and without one the job runs the front's Python."""
    match_images: bool = False
    """True if a framework's image without a rule runs an environment with its version, which is built once."""
    processing_keep_alive: int | None = None
    hold: float = 10.0
    """Seconds for which the first Describe of an SDK is held at most; 0 holds none."""
    waiter_hold: float = 45.0
    """Seconds for which Describe of a waiter is held at most; clients give up after 60 without an answer."""
