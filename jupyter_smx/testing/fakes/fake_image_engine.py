"""A fake engine with images, whose hosts see no files of the controller's machine but provided ones."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from jupyter_smx.engines.base import Capabilities, ImageMissingError, PullProgress
from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.model.spec.image import Image
from jupyter_smx.testing.fakes.fake_engine import FakeEngine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from jupyter_smx.engines.base import ClusterRequest
    from jupyter_smx.model.records.cluster import Handle, QueueStatus
    from jupyter_smx.testing.fakes.fake_world import FakeWorld


class FakeImageEngine(FakeEngine):
    """Hosts of images; attributes set what the engine does, and others record what it did.

    ``images`` has what each name means now, ``digests`` what a registry calls it, ``python_versions`` the version of
    Python that an inspection of an id finds; ``remote_images`` are downloaded
    first, and ``pruned_ids`` are of images that were deleted since they were resolved. ``registry_failures`` and
    ``connect_failures`` count the next calls that a registry, or a host, does not answer. ``default`` is the image of
    jobs that name none. ``has_cache`` makes :meth:`cached_image` return what was resolved before. ``resolve_error``,
    ``cached_image_error`` and ``provide_error`` are raised as they are, like an unexpected error. ``resolve_seconds``
    and ``provide_seconds`` are the seconds that the calls take. Files in ``missing_paths`` cannot be provided.

    ``cluster_images`` records the image of each cluster, ``provided_paths`` the paths that a host sees, by those of
    this machine. ``overlaps`` has the hosts that got files while they were getting others, ``disturbed_hosts`` those
    that got files while a job was on them.
    """

    capabilities: Capabilities = Capabilities(shared_folder=True, bounded_by_machine=True, images=True)

    def __init__(self, world: FakeWorld, *, launch_seconds: float = 0.5, has_remains: bool = True) -> None:
        super().__init__(world, launch_seconds=launch_seconds, has_remains=has_remains)
        self.images = {"train:1": "sha256:11", "train:2": "sha256:22", "same:2": "sha256:22"}
        self.default = ""
        self.has_cache = False
        self.cached_image_error: Exception | None = None
        self.resolved_settings: list[tuple[str, ...]] = []
        self.cluster_images: dict[str, str] = {}
        self.provided_paths: dict[tuple[str, str], dict[str, str]] = {}
        self.resolve_counts: Counter[str] = Counter()
        self.digests: dict[str, str] = {}
        self.python_versions: dict[str, str] = {}
        self.remote_images: set[str] = set()
        self.pruned_ids: set[str] = set()
        self.registry_failures = 0
        self.resolve_seconds = 0.0
        self.provide_seconds = 0.0
        self.resolve_error: Exception | None = None
        self.provide_error: Exception | None = None
        self.connect_failures = 0
        self.missing_paths: set[str] = set()
        self.busy_hosts: set[tuple[str, str]] = set()
        self.overlaps: list[tuple[str, str]] = []
        self.disturbed_hosts: list[tuple[str, str]] = []

    def default_image(self) -> str:
        """Name the image of jobs that name none."""
        return self.default

    async def resolve_image(
        self, image: str, say: Callable[[PullProgress], None], *, settings: Sequence[str] = ()
    ) -> Image:
        """Return the current image of a name, after a download if it is ``remote``."""
        self._on_call()
        self.resolved_settings.append(tuple(settings))
        self.resolve_counts[image] += 1
        if self.registry_failures:
            self.registry_failures -= 1
            raise RefusedError(f"The registry of {image} is away.", field="image", value=image, transient=True)
        if self.resolve_seconds:
            say(PullProgress("3 of 5 layers", downloads=image in self.remote_images))
            await asyncio.sleep(self.resolve_seconds)
        if self.resolve_error is not None:
            raise self.resolve_error
        if image in self.remote_images:
            self.remote_images.discard(image)
            say(PullProgress("Looking for Python in the image"))
        if image not in self.images:
            raise RefusedError(f"--image: there is no image {image!r}.", field="image", value=image, cure="Build it.")
        self.pruned_ids.discard(self.images[image])
        return self._image(image)

    async def peek_image(self, image: str, *, settings: Sequence[str] = ()) -> Image | None:
        """Return the current image of a name, if it needs no download."""
        return None if image in self.remote_images else await super().peek_image(image, settings=settings)

    async def cached_image(self, image: str, *, settings: Sequence[str] = ()) -> Image | None:
        """Return what a name means now, if it was requested before."""
        del settings
        if self.cached_image_error is not None:
            raise self.cached_image_error
        if not self.has_cache or image not in self.resolve_counts or image not in self.images:
            return None
        return self._image(image)

    def _image(self, name: str) -> Image:
        found = self.images[name]
        return Image(
            name=name, id=found, digest=self.digests.get(name, ""), python_version=self.python_versions.get(found, "")
        )

    async def acquire(self, request: ClusterRequest) -> AsyncIterator[Handle | QueueStatus]:
        """Launch the hosts, of what they are to be made of."""
        if request.image in self.pruned_ids:
            raise ImageMissingError(
                f"--image: there is no image {request.image!r}.", field="image", value=request.image
            )
        self.cluster_images[request.cluster] = request.image
        async for handle in super().acquire(request):
            yield handle

    async def provide_files(self, handle: Handle, host: str, sources: Sequence[str]) -> Mapping[str, str]:
        """Return other paths for the provided files on a host."""
        self._on_call()
        key = (handle.cluster, host)
        self.overlaps += [key] if key in self.busy_hosts else []
        self.busy_hosts.add(key)
        self.disturbed_hosts += (
            [key] if (at := self.world.hosts.get(key)) is not None and at.running() is not None else []
        )
        try:
            await asyncio.sleep(self.provide_seconds)
        finally:
            self.busy_hosts.discard(key)
        if self.provide_error is not None:
            raise self.provide_error
        if self.connect_failures:
            self.connect_failures -= 1
            raise UnavailableError(f"{host} cannot be reached.", transient=True)
        gone = next((source for source in sources if source in self.missing_paths), None)
        if gone is not None:
            raise RefusedError(f"channel: {gone} is not there.", field="channels", value=gone)
        seen = self.provided_paths.setdefault((handle.cluster, host), {})
        for source in sources:
            seen.setdefault(source, f"/given/{host}/{len(seen)}")
        return {source: seen[source] for source in sources}
