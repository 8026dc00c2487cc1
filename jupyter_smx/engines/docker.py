"""The Docker engine: hosts are containers of a daemon on this machine, each with its own folder."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from traitlets import Bool, Float, Int, List, Unicode, default

from jupyter_smx.engines import docker_plan, given, pack, request_check
from jupyter_smx.engines.base import Capabilities, ClusterRequest, Engine, Observation
from jupyter_smx.engines.cluster_folders import ClusterFolders
from jupyter_smx.engines.docker_daemon import Daemon, address
from jupyter_smx.engines.docker_image import Images
from jupyter_smx.engines.docker_launch import Launch, obituary, remove_all
from jupyter_smx.engines.given import Reader
from jupyter_smx.launch import data_dir
from jupyter_smx.model.cluster import Handle, HostHandle
from jupyter_smx.model.errors import RefusedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence

    from jupyter_smx.engines.base import HostPlan

_ALIVE = ("running", "paused")
_ROOT, _SOMEBODY = "0:0", "1000:1000"
_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION", "TZ")


class DockerEngine(Engine):
    """Runs hosts as containers of a Docker daemon on this machine, each made of the image that the job names."""

    name: ClassVar[str] = "docker"
    capabilities: ClassVar[Capabilities] = Capabilities(
        shared_folder=True, extend=True, bounded_by_machine=True, images=True
    )

    data_dir = Unicode(
        help="Folder under which each host has its own; empty means Jupyter's data folder, ``smx`` in it."
    ).tag(config=True)
    docker_host = Unicode(
        help="Where the daemon listens, as ``unix:///run/docker.sock``; empty means DOCKER_HOST, Docker's context, "
        "or the usual socket."
    ).tag(config=True)
    image = Unicode(help="Image of jobs that name none.").tag(config=True)
    user = Unicode(
        help="Who runs jobs in containers, as ``uid:gid``; empty means this user, and 1000:1000 where that is root."
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
    grace = Float(
        120.0, min=0.0, help="Seconds between the polite and the certain end of a job that a host gives by itself."
    ).tag(config=True)

    @default("data_dir")
    def _default_data_dir(self) -> str:
        return os.fspath(data_dir())

    def __init__(self, **traits: object) -> None:
        super().__init__(**traits)
        self._found: Daemon | None = None
        self._looked: Images | None = None
        self._has_learnt = False
        self._is_rootless = False

    def plan(self, request: ClusterRequest) -> dict[str, object]:
        """Give the network and the containers that the daemon would be asked for, and each ``host.json``; pure."""
        settings, archive = self._settings(), self._root / pack.file_name()
        return {
            "engine": self.name,
            "network": docker_plan.network(request, settings),
            "hosts": {
                host.host: {
                    "name": docker_plan.container_name(request.cluster, host.host),
                    "container": self._container(request, host, archive),
                    "host.json": docker_plan.host_json(request, host, settings),
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
        request_check.check_names(request)
        daemon = self._daemon()
        await self._learn(daemon)
        await self._images(daemon).look(request.image, lambda _words: None)
        archive = await asyncio.to_thread(self._prepare, request)
        # From the next line on something may cost, and whoever saved this handle can find and release it.
        yield Handle(engine=self.name, cluster=request.cluster)
        launch = Launch(daemon, self._folders, request, float(self.launch_timeout))
        ready: dict[str, HostHandle] = {}
        pending: set[asyncio.Task[HostHandle]] = set()
        try:
            await launch.make_network(docker_plan.network(request, self._settings()))
            pending = {
                asyncio.create_task(launch.bring_up(host.host, self._container(request, host, archive)))
                for host in request.hosts
            }
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                if errors := [error for task in done if (error := task.exception())]:
                    raise errors[0]
                ready |= {task.result().host: task.result() for task in done}
                hosts = tuple(ready[host.host] for host in request.hosts if host.host in ready)
                yield Handle(engine=self.name, cluster=request.cluster, hosts=hosts)
        except UnavailableError:
            await _give_up(pending)
            await self.release(Handle(engine=self.name, cluster=request.cluster))
            raise
        finally:
            await _give_up(pending)

    async def find(self, cluster: str) -> Handle | None:
        """Ask the daemon which containers a cluster has; None when it never was or was released.

        :raises UnavailableError: the daemon or the data folder is away, which says nothing of the cluster.
        """
        try:
            if await asyncio.to_thread(self._folders.existing, cluster) is None:
                return None
            order = [folder.path.name for folder in await asyncio.to_thread(self._folders.hosts, cluster)]
        except OSError as problem:
            raise self._no_records(cluster, problem) from problem
        rows = await self._daemon().containers(*self._labels(cluster))
        found = {row["Labels"][docker_plan.HOST]: row["Id"] for row in rows if docker_plan.HOST in row["Labels"]}
        hosts = tuple(HostHandle(host=host, data={"container": found[host]}) for host in order if host in found)
        return Handle(engine=self.name, cluster=cluster, hosts=hosts)

    async def survey(self, handles: Sequence[Handle]) -> list[Observation]:
        """Look at all containers of this data folder at once."""
        if not handles:
            return []
        try:
            rows = await self._daemon().containers(f"{docker_plan.OWNER}={docker_plan.owner(self.data_dir)}")
        except (UnavailableError, RefusedError):  # it is away, or what is configured now is no daemon of this machine
            return [Observation.UNKNOWN] * len(handles)
        states = {row["Id"]: str(row["State"]) for row in rows}
        return await asyncio.to_thread(lambda: [self._look(handle, states) for handle in handles])

    async def release(self, handle: Handle) -> None:
        """Remove a cluster's containers with everything in them, and its network.

        :raises UnavailableError: the daemon is away, or a container does not vanish.
        """
        if not request_check.is_plain(handle.cluster):
            return
        # A release that has begun goes on to its end, even when the caller is cancelled.
        await asyncio.shield(asyncio.ensure_future(self._release(handle.cluster)))

    async def connect(self, handle: Handle, host: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the agent's unix socket, which is in the folder that the host shares with us.

        :raises UnavailableError: nobody listens there now, or the container is paused.
        """
        streams = await self._folders.host(handle.cluster, host).dial()
        known = {one.host: str(one.data["container"]) for one in handle.hosts}
        if host in known and await self._is_paused(known[host]):
            streams[1].close()
            raise UnavailableError(
                f"Host {host} of cluster {handle.cluster} is paused.",
                rule="A container that is paused answers nobody, and its deadline does not run.",
                cure=f"Let it go on with docker unpause {docker_plan.container_name(handle.cluster, host)}.",
                transient=True,
            )
        return streams

    def usual_image(self) -> str:
        """Name the image of jobs that name none."""
        return str(self.image)

    async def pin(self, image: str, say: Callable[[str], None]) -> str:
        """Give the id of an image that the daemon has and of which hosts can be made.

        :raises RefusedError: it is not there, has no Python, or is made for another machine.
        :raises UnavailableError: the daemon does not answer.
        """
        daemon = self._daemon()
        await self._learn(daemon)
        return (await self._images(daemon).look(image, say)).id

    async def bring(self, handle: Handle, host: str, sources: Sequence[str]) -> Mapping[str, str]:
        """Link or copy files and folders into the host's folder, where it may only read them."""
        folder = self._folders.host(handle.cluster, host)
        return await asyncio.to_thread(given.bring, folder, sources, docker_plan.GIVEN, self._reader())

    async def shell(self, handle: Handle, host: str) -> list[str] | None:
        """Start a shell in the container, by Docker's own command."""
        known = {one.host: str(one.data["container"]) for one in handle.hosts}
        if host not in known:
            return None
        start = 'exec "$(command -v bash || command -v sh)"'
        enter = ["exec", "--interactive", "--tty", "--workdir=/opt/ml", known[host], "sh", "-c", start]
        return ["docker", f"--host={self._daemon().url}", *enter]

    async def sweep(self, known: Collection[str]) -> list[str]:
        """Remove containers and networks of this data folder of whose cluster nobody has a record.

        :raises UnavailableError: the daemon does not answer.
        """
        alive, mine = {*known}, f"{docker_plan.OWNER}={docker_plan.owner(self.data_dir)}"
        # Those that look at an image now have no cluster, and are removed by whoever made them.
        looking = {f"/{name}" for images in ((self._looked,) if self._looked else ()) for name in images.under_way}

        def spare(row: dict[str, Any]) -> bool:
            is_alive = (row.get("Labels") or {}).get(docker_plan.CLUSTER) in alive
            return is_alive or not looking.isdisjoint(row.get("Names") or ())

        return await remove_all(self._daemon(), [mine], float(self.release_timeout), spare)

    async def doctor(self) -> dict[str, object]:
        """Say which daemon it is, how hosts are closed in, and what is given up here."""
        daemon = self._daemon()
        info: dict[str, Any] = await daemon.ask(lambda api: api.info())
        await self._learn(daemon)
        facts: dict[str, object] = {
            "daemon": daemon.url,
            "version": info.get("ServerVersion", ""),
            "image": self.image or "each job names its own",
            "user_of_jobs": self._settings().user,
            "network": "none but the other hosts'" if self.network_isolation else "reaches the outside",
            "control_groups": f"version {info.get('CgroupVersion') or 1}",
            "warm_pools_survive_a_restart_of_the_daemon": bool(info.get("LiveRestoreEnabled")),
        }
        missing = [word for name, word in _LIMITS if not info.get(name, True)]
        return facts | ({"not_limited_here": ", ".join(missing)} if missing else {})

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

    def _daemon(self) -> Daemon:
        """Find the daemon once: whoever chooses another context meanwhile has hosts at this one all the same."""
        if self._found is None:
            self._found = Daemon(address(str(self.docker_host), os.environ), float(self.call_timeout))
        return self._found

    def _images(self, daemon: Daemon) -> Images:
        if self._looked is None:
            labels = {docker_plan.OWNER: docker_plan.owner(self.data_dir)}
            self._looked = Images(daemon, labels, lambda: self._settings().user)
        return self._looked

    async def _learn(self, daemon: Daemon) -> None:
        """Find out once who is who: where the daemon has no rights of its own, root in a container is its user."""
        if not self.user and os.getuid() != 0 and not self._has_learnt:
            info: dict[str, Any] = await daemon.ask(lambda api: api.info())
            self._is_rootless = any("rootless" in option for option in info.get("SecurityOptions") or [])
            self._has_learnt = True

    def _settings(self) -> docker_plan.Settings:
        return docker_plan.Settings(
            data_dir=self.data_dir,
            user=self.user or (_ROOT if self._is_rootless else _user_of(os.getuid(), os.getgid())),
            network_isolation=bool(self.network_isolation),
            pids=int(self.pids_limit),
            grace=float(self.grace),
            variables={name: os.environ[name] for name in self.variables if name in os.environ},
        )

    def _reader(self) -> Reader:
        if self._is_rootless:
            return Reader()
        uid, _, gid = self._settings().user.partition(":")
        return Reader(int(uid), int(gid or uid)) if uid.isdecimal() and (gid or uid).isdecimal() else Reader()

    def _labels(self, cluster: str) -> list[str]:
        return [f"{name}={value}" for name, value in docker_plan.labels(self._settings(), cluster).items()]

    def _container(self, request: ClusterRequest, plan: HostPlan, archive: Path) -> dict[str, Any]:
        python = "python3" if self._looked is None else self._looked.python(request.image)
        folder = self._folders.host(request.cluster, plan.host)
        return docker_plan.container(request, plan, folder, archive, python, self._settings())

    def _prepare(self, request: ClusterRequest) -> Path:
        """Write all that agents will read. Launches nothing. Blocks."""
        try:
            if self._folders.is_released(request.cluster):
                raise request_check.used_up(request.cluster)
            self._folders.clusters.mkdir(mode=0o700, parents=True, exist_ok=True)
            archive = pack.place(self._root)
            archive.chmod(0o644)
            for plan in request.hosts:
                self._describe(request, plan)
        except OSError as problem:
            raise request_check.not_writable(self._root, problem) from problem
        return archive

    def _describe(self, request: ClusterRequest, plan: HostPlan) -> None:
        folder = self._folders.host(request.cluster, plan.host)
        if folder.make():
            return
        reader = self._reader()
        for name in docker_plan.MOUNTED:
            (folder.path / name).mkdir(exist_ok=True)
            # Whatever umask this process has: somebody else runs in the container.
            (folder.path / name).chmod(docker_plan.mode_of(name))
        folder.describe(docker_plan.host_json(request, plan, self._settings()))
        if os.getuid() == 0:
            for path in (folder.path, *(folder.path / name for name in (*docker_plan.OWNED, "host.json"))):
                os.chown(path, reader.uid, reader.gid)

    def _look(self, handle: Handle, states: Mapping[str, str]) -> Observation:
        try:
            folder = self._folders.existing(handle.cluster)
            if folder is None:
                return Observation.GONE
            if not handle.hosts and time.time() - folder.stat().st_mtime < float(self.launch_timeout):
                return Observation.UNKNOWN  # an acquire may be under way
        except OSError:
            return Observation.UNKNOWN
        found = [states.get(str(host.data.get("container")), "") for host in handle.hosts]
        return Observation.RUNNING if found and all(state in _ALIVE for state in found) else Observation.GONE

    async def _is_paused(self, container: str) -> bool:
        try:
            found = await self._daemon().inspect(container)
        except UnavailableError:
            return False  # hosts outlive their daemon where it is told to let them, and our way to them is not its
        return bool(found and found["State"].get("Paused"))

    async def _release(self, cluster: str) -> None:
        try:
            await asyncio.to_thread(self._folders.close, cluster)
            ends = await self._ends(cluster)
            await remove_all(self._daemon(), self._labels(cluster), float(self.release_timeout))
            await asyncio.to_thread(self._folders.write_obituaries, cluster, ends)
            # Once more: until it was dead an agent may have made its folders anew where somebody had deleted them.
            folders = await asyncio.to_thread(self._folders.close, cluster)
        except (OSError, msgspec.MsgspecError) as problem:
            raise self._no_records(cluster, problem) from problem
        for folder in folders:
            left = await asyncio.to_thread(folder.sweep)
            if left:
                self.log.warning("Cluster %s is released; %s", cluster, left)

    async def _ends(self, cluster: str) -> dict[str, str]:
        """Say of each host how its container ended, if it did: once it is removed nobody knows it."""
        rows = [row for row in await self._daemon().containers(*self._labels(cluster)) if row["State"] not in _ALIVE]
        found = {row["Labels"].get(docker_plan.HOST, ""): await self._daemon().inspect(row["Id"]) for row in rows}
        return {host: obituary(told["State"]) for host, told in found.items() if told}

    def _no_records(self, cluster: str, problem: Exception) -> UnavailableError:
        return UnavailableError(
            f"data_dir: the records of cluster {cluster!r} cannot be read or written ({problem}).",
            field="data_dir",
            value=self.data_dir,
            transient=True,
        )


_LIMITS = (("MemoryLimit", "memory"), ("SwapLimit", "swap"), ("CpuCfsQuota", "CPU"), ("PidsLimit", "processes"))
"""What ``docker info`` says of limits, and in our words."""


def _user_of(uid: int, gid: int) -> str:
    return f"{uid}:{gid}" if uid else _SOMEBODY


async def _give_up(tasks: set[asyncio.Task[HostHandle]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
