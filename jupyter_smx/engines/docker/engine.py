"""The Docker engine: hosts are containers of a daemon on this machine, each with its own folder."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import asdict, replace
from traitlets import Bool, Enum, Float, Int, List, Unicode, default, validate

from jupyter_smx.controller_launch import data_dir
from jupyter_smx.engines.base import Capabilities, ClusterRequest, Engine, Observation
from jupyter_smx.engines.docker import orphans as sweep
from jupyter_smx.engines.docker.containers import container_spec, gpus, isolation
from jupyter_smx.engines.docker.containers.folders import daemon_of, prepare
from jupyter_smx.engines.docker.daemon import daemon_info, proxies, users
from jupyter_smx.engines.docker.daemon.daemon_client import address
from jupyter_smx.engines.docker.daemon_registry import Daemons, are_alive, url_of
from jupyter_smx.engines.docker.images.image import Images, looked_at
from jupyter_smx.engines.docker.images.pull import Pulls
from jupyter_smx.engines.docker.launch import Launch, handle_of, shares_network
from jupyter_smx.engines.docker.preflight import Ground
from jupyter_smx.engines.docker.teardown import ends_of, made_here, undo
from jupyter_smx.engines.machine import agent_zipapp, request_validation
from jupyter_smx.engines.machine.cluster_folders import ClusterFolders
from jupyter_smx.engines.machine.copy_workers import Carrier
from jupyter_smx.engines.machine.launch_hosts import collect
from jupyter_smx.model.errors import UnavailableError
from jupyter_smx.model.records.cluster import Handle
from jupyter_smx.model.redaction import shown_values
from jupyter_smx.model.spec.image import Image

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence

    from jupyter_smx.engines.base import HostPlan, Step
    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon
    from jupyter_smx.engines.docker.images.image import Looked
    from jupyter_smx.model.records.cluster import HostHandle

_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION", "TZ")


class DockerEngine(Engine):
    """Runs hosts as containers of a Docker daemon on this machine, each made of the image that the job names."""

    name: ClassVar[str] = "docker"
    capabilities: ClassVar[Capabilities] = Capabilities(
        shared_folder=True, extend=True, bounded_by_machine=True, images=True, network_isolation=True, own_gpus=True
    )

    data_dir = Unicode(
        help="Folder under which each host has its own; empty means Jupyter's data folder, ``smx`` in it."
    ).tag(config=True)
    docker_host = Unicode(
        help="Where the daemon listens, as ``unix:///run/docker.sock``; empty means DOCKER_HOST, Docker's context, "
        "or the usual socket."
    ).tag(config=True)
    image = Unicode(help="Image of jobs that name none.").tag(config=True)
    pull = Enum(
        ["missing", "never", "always"],
        "missing",
        help="When the image of a job is downloaded from its registry: where the daemon has none of that name, never, "
        "or for each job, so that a name means what it means there.",
    ).tag(config=True)
    pull_timeout = Float(
        300.0, min=1.0, help="Seconds for which a download may say nothing until it counts as broken off."
    ).tag(config=True)
    user = Unicode(
        help="Who runs jobs in containers, as ``uid:gid``; empty means this user, and where that is root the first "
        "number from 60600 on that no user and no group of this machine has."
    ).tag(config=True)
    network_isolation = Bool(
        default_value=False, help="Whether hosts reach nothing but the other hosts of their cluster."
    ).tag(config=True)
    pids_limit = Int(4096, min=64, help="Processes and threads that a host may have at the same time.").tag(config=True)
    variables = List(
        Unicode(),
        list(_VARIABLES),
        help="Names of environment variables of this process that hosts shall see; docker inspect shows their values.",
    ).tag(config=True)
    call_timeout = Float(15.0, min=0.1, help="Seconds that the daemon may take for one answer.").tag(config=True)
    launch_timeout = Float(60.0, min=0.1, help="Seconds that a host may take until its agent listens.").tag(config=True)
    release_timeout = Float(30.0, min=0.1, help="Seconds that a container may take to vanish.").tag(config=True)
    grace = Float(120.0, min=0.0, help="Seconds from the polite to the certain end of a job.").tag(config=True)

    @default("data_dir")
    def _default_data_dir(self) -> str:
        return os.fspath(data_dir())

    @validate("user")
    def _check_user(self, proposal: dict[str, Any]) -> str:
        return users.checked(str(proposal["value"]))

    def __init__(self, **traits: object) -> None:
        super().__init__(**traits)
        self._daemons = Daemons(lambda: address(str(self.docker_host), os.environ), lambda: float(self.call_timeout))
        self._looked: Images | None = None
        self._ground: Ground | None = None
        self._carrier = Carrier()
        self._users = users.Users(str(self.user))

    def plan(self, request: ClusterRequest) -> dict[str, object]:
        """Give the network and the containers that the daemon would be asked for, and each ``host.json``.

        An image that nobody has looked at, by this id, is taken for one whose Python has the usual name.
        """
        settings, archive = self._settings(), self._root / agent_zipapp.file_name()
        settings = replace(settings, proxies=shown_values(settings.proxies))
        return {
            "engine": self.name,
            "network": container_spec.network(request, settings),
            "hosts": {
                host.host: {
                    "name": container_spec.container_name(request.cluster, host.host),
                    **asdict(self._order(request, host, archive, looked_at(request.image), settings)),
                    "host.json": container_spec.host_json(request, host, settings),
                }
                for host in request.hosts
            },
        }

    async def acquire(self, request: ClusterRequest) -> AsyncIterator[Handle]:
        """Make and start a container for each host that has none yet.

        Yields an empty handle before the first one, and another one whenever one more host listens.

        :raises RefusedError: before anything was launched.
        :raises UnavailableError: a host did not come up; the others were released.
        """
        request_validation.check_names(request)
        daemon = self._daemons.usual()
        await self._check_place(request.cluster, daemon)
        image = await self._fit(await (await self._looker()).look(request.image, lambda _step: None))
        gpus.check(daemon.kind, request)
        request = replace(request, image=image.id)  # what was looked at, whatever its name means a moment later
        settings = await asyncio.to_thread(self._settings)
        ready = partial(prepare, self._folders, request, settings, self._users, daemon.url, volumes=image.volumes)
        archive = await asyncio.to_thread(ready)
        network = container_spec.network(request, settings)
        launch = Launch(daemon, self._folders, request, network, float(self.launch_timeout))

        async def bring_up(host: HostPlan) -> HostHandle:
            return await launch.bring_up(host, self._order(request, host, archive, image, settings))

        async with aclosing(collect(self, request, bring_up)) as handles:
            async for handle in handles:
                yield handle

    async def find(self, cluster: str) -> Handle | None:
        """Ask the daemon which containers a cluster has; None when it never was or was released.

        :raises UnavailableError: the daemon or the data folder is away, which says nothing of the cluster.
        """
        try:
            if await asyncio.to_thread(self._folders.existing, cluster) is None:
                return None
            order = [folder.path.name for folder in await asyncio.to_thread(self._folders.hosts, cluster)]
        except OSError as problem:
            raise self._folders.unreadable(cluster, problem) from problem
        daemon = self._daemons.at(await asyncio.to_thread(daemon_of, self._folders, cluster))
        rows = await made_here(daemon, *container_spec.filters(self.data_dir, cluster))
        found = {
            row["Labels"][container_spec.HOST]: row for row in rows if row["Labels"].get(container_spec.HOST) in order
        }
        hosts = tuple(
            handle_of(host, row["Id"], daemon, row["Labels"], is_shared=shares_network(row))
            for host, row in sorted(found.items(), key=lambda pair: order.index(pair[0]))
        )
        return Handle(engine=self.name, cluster=cluster, hosts=hosts)

    async def survey(self, handles: Sequence[Handle]) -> list[Observation]:
        """Look at all containers of this data folder at once."""
        urls, mine = (
            {url_of(handle) for handle in handles},
            f"{container_spec.OWNER}={container_spec.owner(self.data_dir)}",
        )
        told = dict(zip(urls, await asyncio.gather(*(self._daemons.states(url, mine) for url in urls)), strict=True))
        return await asyncio.to_thread(lambda: [self._look(handle, told[url_of(handle)]) for handle in handles])

    async def release(self, handle: Handle) -> None:
        """Remove a cluster's containers with everything in them, and its network.

        :raises UnavailableError: the daemon is away, or a container does not vanish.
        """
        if not request_validation.is_plain(handle.cluster):
            return
        # A release that has begun goes on to its end, even when the caller is cancelled.
        await asyncio.shield(asyncio.ensure_future(self._release(handle)))

    async def connect(self, handle: Handle, host: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the agent's unix socket, which is in the folder that the host shares with us.

        :raises UnavailableError: nobody listens there now, or the container is paused.
        """
        known = {one.host: str(one.data["container"]) for one in handle.hosts}
        try:
            streams = await self._folders.host(handle.cluster, host).dial()
        except UnavailableError:
            # It may have ended with its daemon: where that one is away, that is what is wrong.
            if host in known:
                await self._daemons.look(handle, known[host])
            raise
        try:
            if host in known:
                name = container_spec.container_name(handle.cluster, host)
                await self._daemons.check_unpaused(handle, host, known[host], name)
        except BaseException:  # also who waits no longer: the agent would keep a visitor who says nothing
            streams[1].close()
            raise
        return streams

    def isolates_network(self) -> bool:
        """Say whether all hosts reach each other and nothing else."""
        return bool(self.network_isolation)

    def usual_image(self) -> str:
        """Name the image of jobs that name none."""
        return str(self.image)

    async def pin(self, image: str, say: Callable[[Step], None]) -> Image:
        """Find an image of which hosts can be made, and download it first where ``pull`` says so.

        :raises RefusedError: it cannot be had, has no Python, or is made for another machine; transient where its
            registry is away.
        :raises UnavailableError: the daemon does not answer.
        """
        found = await self._fit(await (await self._looker()).obtain(image, say))
        return Image(name=image, id=found.id, digest=found.digest)

    async def glimpse(self, image: str) -> Image | None:
        """Find an image of which hosts can be made; None where it would be downloaded.

        :raises RefusedError, UnavailableError: as :meth:`pin`.
        """
        found = await (await self._looker()).glimpse(image)
        return None if found is None else Image(name=image, id=(await self._fit(found)).id, digest=found.digest)

    async def recall(self, image: str) -> Image | None:
        """Say what a name means now, by one question, where hosts were made of that before."""
        if self._looked is None or self._ground is None or not self._ground.is_firm:
            return None
        found = await self._looked.recall(image)
        return None if found is None else Image(name=image, id=found.id, digest=found.digest)

    async def bring(self, handle: Handle, host: str, sources: Sequence[str]) -> Mapping[str, str]:
        """Link or copy files and folders into the host's folder, where it may only read them."""
        folder = self._folders.host(handle.cluster, host)
        return await self._carrier.bring(folder, sources, container_spec.GIVEN, self._users.reader())

    async def shell(self, handle: Handle, host: str) -> list[str] | None:
        """Start a shell in the container, by Docker's own command, or Podman's where there is only that one."""
        known = {one.host: str(one.data["container"]) for one in handle.hosts}
        if host not in known:
            return None
        start = 'exec "$(command -v bash || command -v sh)"'
        enter = ["exec", "--interactive", "--tty", "--workdir=/opt/ml", known[host], "sh", "-c", start]
        return [*daemon_info.program(self._daemons.of(handle).url), *enter]

    async def sweep(self, known: Callable[[], Collection[str]]) -> list[str]:
        """Remove containers and networks of this data folder of whose cluster nobody has a record, wherever they are.

        Looks at today's daemon and at each one that clusters were made at, as far as their folders are there; names
        those that cannot be asked.

        :raises UnavailableError: there is one daemon only, and it does not answer.
        """

        def spare(row: Mapping[str, Any]) -> bool:
            # Asked after the look at the daemon: whoever makes a container has written its cluster down before. Those
            # that look at an image have none, and are removed by whoever made them.
            looking = {f"/{name}" for name in self._looked.under_way} if self._looked is not None else set()
            is_alive = (row.get("Labels") or {}).get(container_spec.CLUSTER) in known()
            return is_alive or not looking.isdisjoint(row.get("Names") or ())

        urls, owner = await asyncio.to_thread(sweep.urls_of, self._folders), container_spec.owner(self.data_dir)
        return await sweep.sweep(self._daemons, urls, owner, float(self.release_timeout), spare)

    async def doctor(self) -> dict[str, object]:
        """Say which daemon it is, how hosts are closed in, and what is given up here."""
        daemon = self._daemons.usual()
        info = await daemon.info()
        await self._users.learn(daemon)
        kind = daemon.kind
        facts: dict[str, object] = {
            "daemon": daemon.url,
            "kind": kind.words(),
            "version": info.get("ServerVersion", ""),
            "image": self.image or "each job names its own",
            "downloads_images": self.pull,
            "user_of_jobs": self._users.name(),
            "network": "none but the other hosts'" if self.isolates_network() else "reaches the outside",
            "control_groups": f"version {info.get('CgroupVersion') or 1}",
            "given_up": list(isolation.given_up(kind, self._users.name())),
            "warm_pools_survive_a_restart_of_the_daemon": bool(info.get("LiveRestoreEnabled") or kind.podman),
        }
        return facts | ({"not_limited_here": kind.lacks()} if kind.unlimited else {})

    def clusters_folder(self) -> Path:
        """Give the folder in which each cluster has its own."""
        return self._folders.clusters

    def remains(self, cluster: str, host: str) -> Path:
        """Give the folder with a host's spool; it is read without the agent."""
        return self._folders.host(cluster, host).path / "spool"

    def obituary(self, cluster: str, host: str) -> str:
        """Read what was written down when the container was removed."""
        return self._folders.obituary(cluster, host)

    @property
    def _root(self) -> Path:
        return Path(self.data_dir)

    @property
    def _folders(self) -> ClusterFolders:
        return ClusterFolders(self._root)

    async def _check_place(self, cluster: str, daemon: Daemon) -> None:
        """See that a launch which an earlier controller began goes on at the daemon where it began."""
        begun = await asyncio.to_thread(daemon_of, self._folders, cluster)
        if begun not in ("", daemon.url):
            raise UnavailableError(
                f"Cluster {cluster} was begun at {begun}, and this controller makes hosts at {daemon.url}.",
                field="docker_host",
                value=daemon.url,
                rule="All hosts of a cluster are containers of one daemon.",
                cure="What was begun there is removed, and other hosts are made here.",
                transient=True,
            )

    async def _looker(self) -> Images:
        """Give what looks at images, once it is known who is who."""
        daemon = self._daemons.usual()
        await self._users.learn(daemon)
        daemon_info.check(daemon.kind, daemon.url, self.data_dir, os.getuid())
        if self._looked is None:
            labels = {container_spec.OWNER: container_spec.owner(self.data_dir)}
            pulls = Pulls(daemon.url, self.pull, float(self.pull_timeout), daemon.kind)
            self._looked = Images(daemon, labels, self._users.name, pulls=pulls)
            await sweep.sweep_probes(daemon, container_spec.owner(self.data_dir), float(self.release_timeout))
        return self._looked

    async def _fit(self, found: Looked) -> Looked:
        """See, once, that hosts of an image can live here."""
        if self._ground is None:
            labels = {container_spec.OWNER: container_spec.owner(self.data_dir)}
            under_way = (await self._looker()).under_way
            self._ground = Ground(self._daemons.usual(), self._folders, labels, self._users, under_way)
        await self._ground.check(found)
        return found

    def _settings(self) -> container_spec.Settings:
        return container_spec.Settings(
            data_dir=self.data_dir,
            user=self._users.name(),
            network_isolation=self.isolates_network(),
            pids=int(self.pids_limit),
            grace=float(self.grace),
            variables={name: os.environ[name] for name in self.variables if name in os.environ},
            proxies=proxies.configured(self._daemons.url),
            kind=self._daemons.kind(),
            visible_gpus=gpus.visible(os.environ),
        )

    def _order(
        self, request: ClusterRequest, plan: HostPlan, archive: Path, image: Looked, settings: container_spec.Settings
    ) -> container_spec.Order:
        folder = self._folders.host(request.cluster, plan.host)
        return container_spec.order(request, plan, folder, archive, image.python, settings, volumes=image.volumes)

    def _look(self, handle: Handle, states: Mapping[str, str] | None) -> Observation:
        if states is None:
            return Observation.UNKNOWN
        try:
            folder = self._folders.existing(handle.cluster)
            if folder is None:
                return Observation.GONE
            if not handle.hosts and time.time() - folder.stat().st_mtime < float(self.launch_timeout):
                return Observation.UNKNOWN  # an acquire may be under way
        except OSError:
            return Observation.UNKNOWN
        return Observation.RUNNING if are_alive(handle, states) else Observation.GONE

    async def _release(self, handle: Handle) -> None:
        cluster = handle.cluster
        url = url_of(handle) or await asyncio.to_thread(daemon_of, self._folders, cluster)
        daemon, labels = self._daemons.at(url), container_spec.filters(self.data_dir, cluster)
        # Containers cost and files do not: during an outage of the disk they are ended all the same.
        await asyncio.to_thread(self._folders.try_to_close, cluster)
        ends = await ends_of(daemon, labels)
        await undo(daemon, self._folders, cluster, labels, float(self.release_timeout))
        await asyncio.to_thread(self._folders.write_obituaries, cluster, ends)
        # Once more: until it was dead an agent may have made its folders anew where somebody had deleted them.
        folders, away = await asyncio.to_thread(self._folders.try_to_close, cluster)
        if away is not None:
            raise self._folders.not_closed(cluster, away) from away
        for folder in folders:
            left = await asyncio.to_thread(folder.sweep)
            if left:
                self.log.warning("Cluster %s is released; %s", cluster, left)
