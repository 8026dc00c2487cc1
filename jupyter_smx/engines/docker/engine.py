"""The Docker engine: hosts are containers of a daemon on this machine, each with its own folder."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from contextlib import aclosing
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import asdict, replace
from traitlets import Bool, Dict, Enum, Float, Int, List, TraitError, Unicode, default, validate

from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.controller_launch import aws_socket_dir, chosen_data_dir, data_dir
from jupyter_smx.engines.base import DOCTOR_TIMEOUT, Capabilities, ClusterRequest, Engine, Observation
from jupyter_smx.engines.docker import orphans as sweep
from jupyter_smx.engines.docker.containers import container_spec, gpus, image_parts, isolation, kept_files, origin
from jupyter_smx.engines.docker.containers.allowed_mounts import check_volumes, parse_allowed, resolve_mount
from jupyter_smx.engines.docker.containers.folders import archive_path, prepare, read_daemon_url
from jupyter_smx.engines.docker.daemon import cli_config, daemon_info, resolver, users
from jupyter_smx.engines.docker.daemon.daemon_client import daemon_address
from jupyter_smx.engines.docker.daemon.installation import check_installed
from jupyter_smx.engines.docker.daemon_registry import DaemonRegistry, are_alive, handle_daemon_url
from jupyter_smx.engines.docker.images.build import ImageBuilder
from jupyter_smx.engines.docker.images.image import Images, cached_inspection
from jupyter_smx.engines.docker.images.opt_ml_files import prune as prune_image_files
from jupyter_smx.engines.docker.images.pull import ImagePuller
from jupyter_smx.engines.docker.launch import ClusterLaunch, host_handle, is_on_default_network
from jupyter_smx.engines.docker.preflight import Preflight
from jupyter_smx.engines.docker.teardown import exit_reasons, list_containers, remove_cluster
from jupyter_smx.engines.machine import request_validation
from jupyter_smx.engines.machine.cluster_folders import ClusterFolders
from jupyter_smx.engines.machine.copy_workers import CopyWorkers
from jupyter_smx.engines.machine.launch_hosts import launch_all
from jupyter_smx.engines.machine.released_hosts import ReleasedHosts
from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.model.records.cluster import Handle
from jupyter_smx.model.redaction import redact_values
from jupyter_smx.model.spec.image import build_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence

    from jupyter_smx.engines.base import HostSpec, PullProgress, StoppedAgent
    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon
    from jupyter_smx.engines.docker.images.image import InspectedImage
    from jupyter_smx.model.records.cluster import HostHandle
    from jupyter_smx.model.spec.image import Image
    from jupyter_smx.model.spec.mount import Mount

_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION", "TZ")
_CAPABILITIES = Capabilities(
    shared_folder=True,
    extend=True,
    bounded_by_machine=True,
    images=True,
    network_isolation=True,
    own_gpus=True,
    mounts=True,
    shm_size=True,
    builds_images=True,
    image_settings=True,
)


class DockerEngine(Engine):
    """Runs hosts as containers of a Docker daemon on this machine, each made of the image that the job names."""

    name: ClassVar[str] = "docker"
    data_dir = Unicode(
        help="Folder that contains one folder per host; empty means Jupyter's data folder, ``smx`` in it."
    ).tag(config=True)
    docker_host = Unicode(
        help="Where the daemon listens, as ``unix:///run/docker.sock``; empty means DOCKER_HOST, Docker's context, "
        "or the usual socket."
    ).tag(config=True)
    image = Unicode(help="Default image, for jobs without --image.").tag(config=True)
    image_settings = Dict(
        value_trait=List(Enum([*image_parts.ALL])),
        key_trait=Unicode(),
        help="Settings of images that count where a job does not say it, by the pattern of an image's name: "
        "``{'hub.example.com/lab/*': ['user', 'entrypoint', 'workdir']}``.",
    ).tag(config=True)
    pull = Enum(
        ["missing", "never", "always"],
        "missing",
        help="When the image of a job is downloaded from its registry: if the daemon lacks it, never, or for each "
        "job, so that the registry decides what a name means.",
    ).tag(config=True)
    pull_timeout = Float(300.0, min=1.0, help="Seconds without progress after which a download is aborted.").tag(
        config=True
    )
    user = Unicode(
        help="User of jobs in containers, as ``uid:gid``; empty means this user, or for root the first number from "
        "60600 on that no user and no group of this machine has."
    ).tag(config=True)
    network_isolation = Bool(
        default_value=False, help="Whether hosts can reach only the other hosts of their cluster."
    ).tag(config=True)
    separate_network = Bool(
        default_value=False,
        help="Whether a cluster of one host has a separate network, as one of several hosts has, and shares the "
        "daemon's default network with no other container.",
    ).tag(config=True)
    allowed_mounts = List(
        Unicode(),
        [],
        help="What jobs may mount by --mount: absolute paths, which allow all that is below them, and names of "
        "volumes. With :rw at its end a job may also write there, otherwise only read.",
    ).tag(config=True)
    allow_builds = Bool(
        default_value=True, help="Whether jobs may have images built by --build, whose steps run as root in containers."
    ).tag(config=True)
    pids_limit = Int(4096, min=64, help="Processes and threads that a host may have at the same time.").tag(config=True)
    variables = List(
        Unicode(),
        list(_VARIABLES),
        help="Names of environment variables of this process that hosts get; docker inspect shows their values.",
    ).tag(config=True)
    call_timeout = Float(15.0, min=0.1, help="Seconds that the daemon may take for one answer.").tag(config=True)
    launch_timeout = Float(60.0, min=0.1, help="Seconds until the agent of a new host must listen.").tag(config=True)
    release_timeout = Float(30.0, min=0.1, help="Seconds until a removed container must be gone.").tag(config=True)
    grace = Float(120.0, min=0.0, help="Seconds between SIGTERM and SIGKILL when a job is stopped.").tag(config=True)

    @default("data_dir")
    def _default_data_dir(self) -> str:
        return os.fspath(data_dir())

    @validate("user")
    def _check_user(self, proposal: dict[str, Any]) -> str:
        return users.validate_user(str(proposal["value"]))

    @validate("allowed_mounts")
    def _check_allowed_mounts(self, proposal: dict[str, Any]) -> list[str]:
        try:
            for text in proposal["value"]:
                parse_allowed(text)
        except ValueError as problem:
            raise TraitError(f"allowed_mounts: {problem}") from problem
        return list(proposal["value"])

    def __init__(self, **traits: object) -> None:
        super().__init__(**traits)
        self._daemons = DaemonRegistry(
            lambda: daemon_address(str(self.docker_host), os.environ), lambda: float(self.call_timeout)
        )
        self._is_installed = False
        self._images: Images | None = None
        self._builder: ImageBuilder | None = None
        self._preflight: Preflight | None = None
        self._copy_workers = CopyWorkers()
        self._released_hosts = ReleasedHosts(self.log)
        self._users = users.ContainerUser(str(self.user))

    @property
    def capabilities(self) -> Capabilities:
        """Return the capabilities; jobs reach the front for clients of AWS if its socket can be mounted."""
        return replace(_CAPABILITIES, aws_front="relay" if self._aws_front() else "none")

    def _aws_front(self) -> str:
        """Return the folder with the front's socket; "" if hosts have a data folder that only their daemon may see."""
        return os.fspath(aws_socket_dir()) if self._root == data_dir() else ""

    def check_installed(self) -> None:
        """Check, until it succeeds once, that there is a daemon on this machine that this user may use.

        :raises RefusedError: there is none, its address is wrong, or its socket is closed to this user.
        """
        if not self._is_installed:
            check_installed(str(self.docker_host), os.environ)
            self._is_installed = True

    def check_mounts(self, mounts: Sequence[Mount]) -> None:
        """Check that the configuration allows the mounts of a job, and that their paths exist."""
        self._resolve_mounts(mounts)

    def plan(self, request: ClusterRequest) -> dict[str, object]:
        """Return the requests for the network and the containers, and each ``host.json``.

        An image id that was not inspected yet is assumed to have a Python with the usual name.
        """
        request = replace(request, mounts=self._resolve_mounts(request.mounts))
        image = cached_inspection(request.image, request.image_settings)
        settings, archive = self._settings(image), archive_path(self._root, image.parts)
        settings = replace(settings, proxies=redact_values(settings.proxies))
        return {
            "engine": self.name,
            "network": container_spec.network(request, settings),
            "hosts": {
                host.host: {
                    "name": container_spec.container_name(request.cluster, host.host),
                    **asdict(self._container_plan(request, host, archive, image, settings)),
                    host_layout.DESCRIPTION: container_spec.host_json(request, host, settings, image.parts),
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
        daemon = self._daemons.default()
        await self._check_daemon(request.cluster, daemon)
        images = await self._get_images()
        image = await self._check_image(await images.inspect(request.image, lambda _step: None, request.image_settings))
        gpus.check(daemon.kind, request)
        container_spec.check_shm_size(request)
        if request.mounts:
            request = replace(request, mounts=await asyncio.to_thread(self._resolve_mounts, request.mounts))
            await check_volumes(daemon, request.mounts)
        request = replace(request, image=image.id)  # what was looked at, whatever its name means a moment later
        settings = await asyncio.to_thread(self._settings, image)
        ready = partial(
            prepare, self._folders, request, settings, self._users.of_image(image.parts.user_numbers()), daemon.url
        )
        archive = await asyncio.to_thread(ready, parts=image.parts)
        network = container_spec.separate_network(request, settings)
        launch = ClusterLaunch(daemon, self._folders, request, network, float(self.launch_timeout))

        async def launch_host(host: HostSpec) -> HostHandle:
            return await launch.launch_host(host, self._container_plan(request, host, archive, image, settings))

        async with aclosing(launch_all(self, request, launch_host)) as handles:
            async for handle in handles:
                yield handle

    async def find(self, cluster: str) -> Handle | None:
        """Look up the containers of a cluster; None if it never existed or was released.

        :raises UnavailableError: the daemon or the data folder is unavailable, so nothing is known of the cluster.
        """
        try:
            if await asyncio.to_thread(self._folders.live_cluster, cluster) is None:
                return None
            order = [folder.path.name for folder in await asyncio.to_thread(self._folders.hosts, cluster)]
        except OSError as problem:
            raise self._folders.unreadable_error(cluster, problem) from problem
        daemon = self._daemons.get(await asyncio.to_thread(read_daemon_url, self._folders, cluster))
        rows = await list_containers(daemon, *container_spec.filters(self.data_dir, cluster))
        found = {
            row["Labels"][container_spec.HOST]: row for row in rows if row["Labels"].get(container_spec.HOST) in order
        }
        hosts = tuple(
            host_handle(host, row["Id"], daemon, row["Labels"], is_shared=is_on_default_network(row))
            for host, row in sorted(found.items(), key=lambda pair: order.index(pair[0]))
        )
        return Handle(engine=self.name, cluster=cluster, hosts=hosts)

    async def observe_all(self, handles: Sequence[Handle]) -> list[Observation]:
        """Query all containers of this data folder in one request."""
        urls, mine = (
            {handle_daemon_url(handle) for handle in handles},
            f"{container_spec.OWNER}={container_spec.owner(self.data_dir)}",
        )
        told = dict(zip(urls, await asyncio.gather(*(self._daemons.states(url, mine) for url in urls)), strict=True))
        return await asyncio.to_thread(
            lambda: [self._observe(handle, told[handle_daemon_url(handle)]) for handle in handles]
        )

    async def release(self, handle: Handle) -> None:
        """Remove a cluster's containers with everything in them, and its network.

        :raises UnavailableError: the daemon is away, or a container does not vanish.
        """
        if not request_validation.is_valid_name(handle.cluster):
            return
        # A release that has begun continues to its end, even if the caller is cancelled.
        await asyncio.shield(asyncio.ensure_future(self._release(handle)))

    async def connect(self, handle: Handle, host: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the agent's unix socket, which is in the folder that the host shares with us.

        :raises UnavailableError: nothing listens there now, or the container is paused.
        """
        known = {one.host: str(one.data["container"]) for one in handle.hosts}
        try:
            streams = await self._folders.host(handle.cluster, host).dial()
        except UnavailableError:
            # The agent may have ended with its daemon: if the daemon is down, that is the error.
            if host in known:
                await self._daemons.inspect(handle, known[host])
            raise
        try:
            if host in known:
                name = container_spec.container_name(handle.cluster, host)
                await self._daemons.check_unpaused(handle, host, known[host], name)
        except BaseException:  # also a cancelled caller: the agent would keep a silent connection
            streams[1].close()
            raise
        return streams

    def is_network_isolated(self) -> bool:
        """Return True if all hosts reach only each other."""
        return bool(self.network_isolation)

    def default_image(self) -> str:
        """Name the image of jobs that name none."""
        return str(self.image)

    def image_defaults(self, image: str) -> Collection[str]:
        """Name the settings of an image that count by configuration."""
        patterns: dict[str, list[str]] = self.image_settings
        found = {name for pattern, names in patterns.items() if fnmatchcase(image, pattern) for name in names}
        return sorted(found)

    async def resolve_image(
        self, image: str, say: Callable[[PullProgress], None], *, settings: Sequence[str] = ()
    ) -> Image:
        """Find an image for hosts, and download it first as ``pull`` configures.

        :raises RefusedError: it cannot be downloaded, has no Python, or is made for another machine; transient if its
        registry is unavailable.
        :raises UnavailableError: the daemon does not answer.
        """
        found = await self._check_image(await (await self._get_images()).resolve(image, say, settings))
        return found.record(image)

    async def build_image(
        self, path: str, say: Callable[[PullProgress], None], *, settings: Sequence[str] = ()
    ) -> Image:
        """Build an image by the daemon, and check that hosts can use it.

        :raises RefusedError: builds are not allowed, the build failed, or hosts cannot use the image.
        :raises UnavailableError: the daemon does not answer.
        """
        if not self.allow_builds:
            raise RefusedError(
                "--build: the configuration does not allow it.",
                field="build",
                value=path,
                rule="DockerEngine.allow_builds is False.",
                cure="Use --image with a finished image.",
            )
        images = await self._get_images()
        daemon = self._daemons.default()
        builder = self._builder = self._builder or ImageBuilder(daemon.url, daemon.kind, float(self.call_timeout))
        name, built = build_name(path), await builder.build(path, say)
        try:
            found = await self._check_image(await images.inspect(built, say, settings))
        except RefusedError as problem:
            raise problem.with_message(problem.message.replace(built, name)) from problem
        return found.record(name)

    async def peek_image(self, image: str, *, settings: Sequence[str] = ()) -> Image | None:
        """Find an image of which hosts can be made; None where it would be downloaded.

        :raises RefusedError, UnavailableError: as :meth:`resolve_image`.
        """
        found = await (await self._get_images()).peek(image, settings)
        return None if found is None else (await self._check_image(found)).record(image)

    async def cached_image(self, image: str, *, settings: Sequence[str] = ()) -> Image | None:
        """Return the current image of a name by one request, if hosts were created from that image before."""
        if self._images is None or self._preflight is None or not self._preflight.has_passed:
            return None
        found = await self._images.cached(image, settings)
        return None if found is None else found.record(image)

    async def provide_files(self, handle: Handle, host: str, sources: Sequence[str]) -> Mapping[str, str]:
        """Link or copy files and folders into the host's folder, where it may only read them."""
        folder = self._folders.host(handle.cluster, host)
        user = next((str(one.data["user"]) for one in handle.hosts if one.host == host and "user" in one.data), "")
        reader = self._users.of_image(user).reader()
        return await self._copy_workers.provide_files(folder, sources, container_spec.PROVIDED_FILES, reader)

    async def shell(self, handle: Handle, host: str) -> list[str] | None:
        """Start a shell in the container, by Docker's own command, or Podman's where there is only that one."""
        known = {one.host: str(one.data["container"]) for one in handle.hosts}
        if host not in known:
            return None
        start = 'exec "$(command -v bash || command -v sh)"'
        enter = ["exec", "--interactive", "--tty", "--workdir=/opt/ml", known[host], "sh", "-c", start]
        return [*daemon_info.client_command(self._daemons.for_handle(handle).url), *enter]

    def stopped_agent(self, handle: Handle, host: str) -> StoppedAgent | None:
        """Return the state of a container that is paused, or of an agent stopped by a signal; sends no request."""
        known = {one.host: str(one.data["container"]) for one in handle.hosts}
        name = container_spec.container_name(handle.cluster, host)
        return self._daemons.stopped_agent(handle, known[host], name) if host in known else None

    async def sweep(self, known: Callable[[], Collection[str]]) -> list[str]:
        """Remove containers and networks of this data folder whose clusters have no record, at every daemon.

        Asks the current daemon and each daemon that clusters with existing folders were made at. Returns the names
        of daemons that do not answer.

        :raises UnavailableError: there is only one daemon, and it does not answer.
        """

        def spare(row: Mapping[str, Any]) -> bool:
            # Call `known` after the daemon's listing: a cluster is recorded before its containers are made. Containers
            # that inspect an image have no cluster; the code that makes them removes them.
            looking = {f"/{name}" for name in self._images.under_way} if self._images is not None else set()
            is_alive = (row.get("Labels") or {}).get(container_spec.CLUSTER) in known()
            return others.is_of_other(row) or is_alive or not looking.isdisjoint(row.get("Names") or ())

        now = time.time()
        await asyncio.to_thread(kept_files.prune, self._root, now)
        others = await asyncio.to_thread(self._origin_filter)
        urls, owner = await asyncio.to_thread(sweep.daemon_urls, self._folders), container_spec.owner(self.data_dir)
        found = await sweep.sweep(self._daemons, urls, owner, float(self.release_timeout), spare)
        for image in await prune_image_files(self._daemons.get, ["", *urls], self._root, now):
            self.log.info("Deleted the files in /opt/ml of image %s, which no daemon has any more.", image)
        return found

    async def doctor(self, timeout: float = DOCTOR_TIMEOUT) -> dict[str, object]:
        """Return the facts of the daemon, its isolation of hosts, and isolation that is missing here."""
        del timeout
        daemon = self._daemons.default()
        info = await daemon.info()
        await self._users.detect(daemon)
        kind = daemon.kind
        facts: dict[str, object] = {
            "daemon": daemon.url,
            "kind": kind.description(),
            "version": info.get("ServerVersion", ""),
            "image": self.image or "none, each job sets --image",
            "downloads_images": self.pull,
            "user_of_jobs": self._users.name(),
            "network": "only other hosts of the cluster" if self.is_network_isolated() else "reaches the outside",
            "control_groups": f"version {info.get('CgroupVersion') or 1}",
            "given_up": list(isolation.missing_isolation(kind, self._users.name())),
            "warm_pools_survive_a_restart_of_the_daemon": bool(info.get("LiveRestoreEnabled") or kind.podman),
        }
        return facts | ({"not_limited_here": kind.missing_limits()} if kind.unlimited else {})

    def clusters_folder(self) -> Path:
        """Return the folder in which each cluster has its own."""
        return self._folders.clusters

    def spool_path(self, cluster: str, host: str) -> Path:
        """Return the folder with a host's spool; it is read without the agent."""
        return self._folders.host(cluster, host).path / host_layout.SPOOL

    async def exit_reason(self, cluster: str, host: str) -> str:
        """Read what was written down when the container was removed."""
        return await asyncio.to_thread(self._folders.exit_reason, cluster, host)

    @property
    def _root(self) -> Path:
        return Path(self.data_dir)

    @property
    def _folders(self) -> ClusterFolders:
        return ClusterFolders(self._root)

    async def _check_daemon(self, cluster: str, daemon: Daemon) -> None:
        """Check that a launch by an earlier controller continues at the daemon where it began."""
        begun = await asyncio.to_thread(read_daemon_url, self._folders, cluster)
        if begun not in ("", daemon.url):
            raise UnavailableError(
                f"Cluster {cluster} was started at {begun}, but this controller uses {daemon.url}.",
                field="docker_host",
                value=daemon.url,
                rule="All hosts of a cluster must be containers of one daemon.",
                cure="The controller removes the old containers and launches new hosts.",
                transient=True,
            )

    async def _get_images(self) -> Images:
        """Return the object that inspects images, after the users were mapped."""
        daemon = self._daemons.default()
        await self._users.detect(daemon)
        daemon_info.check(daemon.kind, daemon.url, self.data_dir, os.getuid())
        if self._images is None:
            labels = self._owner_labels()
            pulls = ImagePuller(daemon.url, self.pull, float(self.pull_timeout), daemon.kind)
            self._images = Images(
                daemon,
                labels,
                self._users.name,
                pulls=pulls,
                data_dir=self._root,
                can_own_files=self._users.can_own_files,
            )
            mark = f"{container_spec.OWNER}={container_spec.owner(self.data_dir)}"
            others = origin.OriginFilter(await asyncio.to_thread(self._origin))
            await sweep.sweep_probes(daemon, mark, others, float(self.release_timeout))
        return self._images

    async def _check_image(self, found: InspectedImage) -> InspectedImage:
        """Check, once, that hosts of an image can run here."""
        if self._preflight is None:
            labels = self._owner_labels()
            under_way = (await self._get_images()).under_way
            self._preflight = Preflight(self._daemons.default(), self._folders, labels, self._users, under_way)
        await self._preflight.check(found)
        return found

    def _resolve_mounts(self, mounts: Sequence[Mount]) -> tuple[Mount, ...]:
        allowed = [parse_allowed(text) for text in self.allowed_mounts]
        return tuple(resolve_mount(mount, allowed) for mount in mounts)

    def _origin(self) -> origin.Origin:
        return origin.read_origin(self._root, chosen_data_dir(), socket.gethostname())

    def _origin_filter(self) -> origin.OriginFilter:
        return origin.OriginFilter(self._origin(), self._folders.names())

    def _owner_labels(self) -> dict[str, str]:
        return {container_spec.OWNER: container_spec.owner(self.data_dir), **self._origin().labels()}

    def _settings(self, image: InspectedImage | None = None) -> container_spec.Settings:
        return container_spec.Settings(
            data_dir=self.data_dir,
            user=(self._users.of_image(image.parts.user_numbers()) if image else self._users).name(),
            network_isolation=self.is_network_isolated(),
            separate_network=bool(self.separate_network) or not resolver.are_name_servers_reachable(),
            pids=int(self.pids_limit),
            grace=float(self.grace),
            variables={name: os.environ[name] for name in self.variables if name in os.environ},
            origin_labels=self._origin().labels(),
            proxies=cli_config.read_proxies(self._daemons.url),
            kind=self._daemons.kind(),
            visible_gpus=gpus.visible_gpus(os.environ),
            aws_front=self._aws_front(),
        )

    def _container_plan(
        self,
        request: ClusterRequest,
        plan: HostSpec,
        archive: Path,
        image: InspectedImage,
        settings: container_spec.Settings,
    ) -> container_spec.ContainerPlan:
        folder = self._folders.host(request.cluster, plan.host)
        return container_spec.container_plan(request, plan, folder, archive, image.python, settings, image.parts)

    def _observe(self, handle: Handle, states: Mapping[str, str] | None) -> Observation:
        if states is None:
            return Observation.UNKNOWN
        try:
            folder = self._folders.live_cluster(handle.cluster)
            if folder is None:
                return Observation.GONE
            if not handle.hosts and time.time() - folder.stat().st_mtime < float(self.launch_timeout):
                return Observation.UNKNOWN  # an acquire may be under way
        except OSError:
            return Observation.UNKNOWN
        return Observation.RUNNING if are_alive(handle, states) else Observation.GONE

    def _unreleased_hosts(self, handle: Handle) -> tuple[str, ...]:
        """Return the hosts of a cluster if no release of it has begun, not even by an earlier controller. Blocks."""
        try:
            is_live = self._folders.live_cluster(handle.cluster) is not None
        except OSError:
            is_live = False  # unknown
        return tuple(host.host for host in handle.hosts) if is_live else ()

    async def _release(self, handle: Handle) -> None:
        cluster = handle.cluster
        self._daemons.forget(handle)
        url = handle_daemon_url(handle) or await asyncio.to_thread(read_daemon_url, self._folders, cluster)
        daemon, labels = self._daemons.get(url), container_spec.filters(self.data_dir, cluster)
        hosts = await asyncio.to_thread(self._unreleased_hosts, handle)
        # Containers cost and files do not: during an outage of the disk they are ended all the same.
        await asyncio.to_thread(self._folders.try_to_close, cluster)
        ends = await exit_reasons(daemon, labels, hosts, lambda host: self._folders.host(cluster, host).log_tail())
        await remove_cluster(daemon, self._folders, cluster, labels, float(self.release_timeout))
        await asyncio.to_thread(self._folders.write_exit_reasons, cluster, ends)
        # Once more: before it was dead, an agent may have made its folders again after they were deleted.
        folders, away = await asyncio.to_thread(self._folders.try_to_close, cluster)
        if away is not None:
            raise self._folders.release_error(cluster, away) from away
        await asyncio.to_thread(self._released_hosts.remove, cluster, folders)
