"""A fake engine that makes hosts of images, which see nothing of the controller's machine but what they are brought."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, ClassVar

from jupyter_smx.engines.base import Capabilities, NotHereError, Step
from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.model.spec.image import Image
from jupyter_smx.testing.fakes.fake_engine import FakeEngine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from jupyter_smx.engines.base import ClusterRequest
    from jupyter_smx.model.records.cluster import Handle
    from jupyter_smx.testing.fakes.fake_world import FakeWorld


class FakeImages(FakeEngine):
    """Hosts of images; side doors say which images there are, what was brought where, and how often it was asked.

    ``images`` has what each name means now, ``digests`` what a registry calls it, ``remote`` are those that are
    downloaded first, ``pruned`` has the ids of those that went since they were pinned. ``registry_away`` is how often
    a registry does not answer. ``usual`` is the image of jobs that name none, ``recalls`` says whether what was asked
    for once is told at once, ``made_of`` says of which image each cluster was made. ``brought`` are the paths that a
    host sees, by those of this machine. ``pin_seconds`` and ``bring_seconds`` pass meanwhile; ``unreachable`` is how
    often a host cannot be reached before it can. ``pin_error``, ``recall_error`` and ``bring_error`` are raised as
    they are, as what nobody foresaw is. ``overlaps`` names hosts that were brought something while they were brought
    something else, ``disturbed`` those that were while a job was on them.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(shared_folder=True, bounded_by_machine=True, images=True)

    def __init__(self, world: FakeWorld, *, launch_seconds: float = 0.5, has_remains: bool = True) -> None:
        super().__init__(world, launch_seconds=launch_seconds, has_remains=has_remains)
        self.images = {"train:1": "sha256:11", "train:2": "sha256:22", "same:2": "sha256:22"}
        self.usual = ""
        self.recalls = False
        self.recall_error: Exception | None = None
        self.made_of: dict[str, str] = {}
        self.brought: dict[tuple[str, str], dict[str, str]] = {}
        self.asked_for: Counter[str] = Counter()
        self.digests: dict[str, str] = {}
        self.remote: set[str] = set()
        self.pruned: set[str] = set()
        self.registry_away = 0
        self.pin_seconds = 0.0
        self.bring_seconds = 0.0
        self.pin_error: Exception | None = None
        self.bring_error: Exception | None = None
        self.unreachable = 0
        self.missing: set[str] = set()
        self.at_work: set[tuple[str, str]] = set()
        self.overlaps: list[tuple[str, str]] = []
        self.disturbed: list[tuple[str, str]] = []

    def usual_image(self) -> str:
        """Name the image of jobs that name none."""
        return self.usual

    async def pin(self, image: str, say: Callable[[Step], None]) -> Image:
        """Give what a name means now, after it was downloaded where it is ``remote``."""
        self._asked()
        self.asked_for[image] += 1
        if self.registry_away:
            self.registry_away -= 1
            raise RefusedError(f"The registry of {image} is away.", field="image", value=image, transient=True)
        if self.pin_seconds:
            say(Step("3 of 5 layers", downloads=image in self.remote))
            await asyncio.sleep(self.pin_seconds)
        if self.pin_error is not None:
            raise self.pin_error
        if image in self.remote:
            self.remote.discard(image)
            say(Step("Looking for Python in the image"))
        if image not in self.images:
            raise RefusedError(f"--image: there is no image {image!r}.", field="image", value=image, cure="Build it.")
        self.pruned.discard(self.images[image])
        return Image(name=image, id=self.images[image], digest=self.digests.get(image, ""))

    async def glimpse(self, image: str) -> Image | None:
        """Give what a name means now, where it needs no download."""
        return None if image in self.remote else await super().glimpse(image)

    async def recall(self, image: str) -> Image | None:
        """Give what a name means now, where somebody asked for it before."""
        if self.recall_error is not None:
            raise self.recall_error
        if not self.recalls or image not in self.asked_for or image not in self.images:
            return None
        return Image(name=image, id=self.images[image], digest=self.digests.get(image, ""))

    async def acquire(self, request: ClusterRequest) -> AsyncIterator[Handle]:
        """Launch the hosts, of what they are to be made of."""
        if request.image in self.pruned:
            raise NotHereError(f"--image: there is no image {request.image!r}.", field="image", value=request.image)
        self.made_of[request.cluster] = request.image
        async for handle in super().acquire(request):
            yield handle

    async def bring(self, handle: Handle, host: str, sources: Sequence[str]) -> Mapping[str, str]:
        """Let a host see what it is brought, under other paths."""
        self._asked()
        key = (handle.cluster, host)
        self.overlaps += [key] if key in self.at_work else []
        self.at_work.add(key)
        self.disturbed += [key] if (at := self.world.hosts.get(key)) is not None and at.running() is not None else []
        try:
            await asyncio.sleep(self.bring_seconds)
        finally:
            self.at_work.discard(key)
        if self.bring_error is not None:
            raise self.bring_error
        if self.unreachable:
            self.unreachable -= 1
            raise UnavailableError(f"{host} cannot be reached.", transient=True)
        gone = next((source for source in sources if source in self.missing), None)
        if gone is not None:
            raise RefusedError(f"channel: {gone} is not there.", field="channels", value=gone)
        seen = self.brought.setdefault((handle.cluster, host), {})
        for source in sources:
            seen.setdefault(source, f"/given/{host}/{len(seen)}")
        return {source: seen[source] for source in sources}
