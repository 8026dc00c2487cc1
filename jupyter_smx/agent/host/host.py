"""The host as a whole: its parts, its current job, the controllers that listen, and how it ends."""

from __future__ import annotations

import contextlib
import glob
import os
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, List, Optional

from jupyter_smx.agent.code import sourcedir
from jupyter_smx.agent.code.environ import job_changes
from jupyter_smx.agent.code.packages import PackageIndex
from jupyter_smx.agent.contract import platform_variables
from jupyter_smx.agent.forkserver.pool import ForkServerPool
from jupyter_smx.agent.host import config as hostconfig
from jupyter_smx.agent.host import notice
from jupyter_smx.agent.host.aws_front import AwsFront, drop_missing_sdk_config, place_sdk_config, sdk_config_name
from jupyter_smx.agent.host.idle_cleanup import IdleCleanup
from jupyter_smx.agent.host.idle_deadline import Deadline
from jupyter_smx.agent.host.job_entry import EndedJob
from jupyter_smx.agent.host.logwatch import LogWatch
from jupyter_smx.agent.host.provided_files import ProvidedFiles
from jupyter_smx.agent.host.spool import Spool
from jupyter_smx.agent.paths import ML, HostInfo
from jupyter_smx.agent.system.files import host_layout, rmtree, short_path
from jupyter_smx.agent.system.isolation import host_cleanup
from jupyter_smx.agent.system.isolation.mounts import Mounts
from jupyter_smx.agent.system.processes import process
from jupyter_smx.agent.system.processes.event_loop import Loop
from jupyter_smx.agent.system.processes.forked_task import ForkedTask
from jupyter_smx.agent.system.resources import cgroups, disk, machine, network

if TYPE_CHECKING:
    from jupyter_smx.agent.channels.channel_types import ChannelCapabilities
    from jupyter_smx.agent.frames import CompleteSpec
    from jupyter_smx.agent.host.host_isolation import Isolation
    from jupyter_smx.agent.host.job_entry import JobEntry
    from jupyter_smx.agent.stores.digest import DigestCache
    from jupyter_smx.agent.stores.input_cache import InputCache
    from jupyter_smx.agent.stores.worker_client import WorkerOptions
    from jupyter_smx.agent.system.files.host_folder import HostFolder
    from jupyter_smx.agent.system.processes.event_loop import Timer

_MAX_FORGOTTEN = 64

EventListener = Callable[[Dict[str, Any]], None]


class Host:
    """Everything that one agent keeps; at most one job at a time."""

    def __init__(self, config: hostconfig.HostConfig, folder: HostFolder, isolation: Isolation, entry: str) -> None:
        self.config = config
        self.folder = folder
        self.entry = entry
        self.isolation = isolation
        self.hidden = isolation.hidden
        self.loop = Loop()
        self.logs = LogWatch(self.loop)
        self.limits = cgroups.load_limits(config.limits, config.instance_type)
        self.spool = Spool(folder.spool)
        disk.keep_reserve(folder.spool)
        self.deadline = Deadline(config.idle_limit)
        self.info = host_info(config, folder, isolation)
        self.jobs: Dict[str, JobEntry] = {}
        self.current: Optional[JobEntry] = None
        self.listeners: List[EventListener] = []
        # Older jobs are recognized by their lease, which is lower than the highest.
        self.forgotten_jobs: Deque[str] = deque(maxlen=_MAX_FORGOTTEN)
        self.highest_lease = 0
        self.unusable_reason = ""
        self._is_cleaning = False
        self._cleanup = IdleCleanup(self.loop, self._empty_trash, lambda: disk.is_scarce(self.folder.trash))
        self.is_shutting_down = False
        self.is_closed = False
        """True if the host takes no more jobs and runs only until the results of its jobs were read."""
        self.on_close: Callable[[], None] = lambda: None
        self.is_noticed = False  # its machine will be taken away: it takes no more jobs, and ends soon
        self.notice_seconds = config.notice_grace
        """Seconds from the notice to the end of the machine."""
        self._deadline_timer: Optional[Timer] = None
        self.is_ready = False
        """True from the moment on at which the first zygote is up, so that jobs can start."""
        self._on_ready: List[Callable[[], None]] = []
        self._baseline = host_cleanup.take_baseline(self.folder, private=self.is_private())
        begin = self._zygote_settings(entry)
        self._name = isolation.shown_folder(folder)
        inherited = isolation.zygote_environment(folder)
        self._tmp = inherited["TMPDIR"]
        self.fork_server = ForkServerPool(self.loop, folder.slots, begin, inherited)
        self.fork_server.on_preload = self._on_preload
        self.packages = PackageIndex(self.loop)
        self.aws_front = AwsFront(self.loop, config.aws_front, entry)
        self._sdk_config = ""
        """Name of the file in the job's folder for temporary files that this host wrote."""
        self.input_hashes: DigestCache = {}
        self.provided = _provided_files(folder, isolation)
        self.mounts = Mounts()
        self.fork_server.on_start_failed = lambda: self.shut_down("no zygote can be started on this host", code=1)

    def takes_no_jobs(self) -> bool:
        """Return True if the host's time is over, or is about to be."""
        return self.is_closed or self.is_noticed

    def _zygote_settings(self, entry: str) -> Dict[str, Any]:
        config = self.config
        return {
            "place": self.info._asdict(),
            "threads": config.threads,
            "marker": config.marker(),
            "start_method": config.start_method,
            "preload_memory": config.preload_memory << 20,
            "entry": entry,
            "limits": dict(config.limits, of=config.instance_type),
            "of_every_job": job_changes.of_every_job(self.info, config.threads),
        }

    def is_private(self) -> bool:
        """Return True if shared memory belongs to this host alone."""
        return self.isolation.has_own_namespaces()

    def lacks_opt_ml(self) -> bool:
        """Return True if the literal ``/opt/ml`` of a job is not this host's."""
        return not self.is_private() and self.isolation.opt_ml is None

    def link_opt_ml(self) -> None:
        """Let the machine's ``/opt/ml`` lead to this host for a job that begins, where it may.

        :raises OSError: something there cannot be deleted.
        """
        if self.isolation.opt_ml is not None:
            self.isolation.opt_ml.begin_job()

    def missing_opt_ml(self) -> str:
        """Return why the job goes without the machine's ``/opt/ml`` although others of this host have it, or ""."""
        return "" if self.isolation.opt_ml is None else self.isolation.opt_ml.missing_reason

    def lead_clients(self, environment: Dict[str, str], sdk_config: str) -> Dict[str, str]:
        """Let clients of AWS in a job reach the front, if its variables lead there; return the variables for this host.

        ``sdk_config`` is the configuration of SageMaker's SDK, "" if the host sees its file, or there is none.
        """
        variables = self.aws_front.open(environment)
        self._sdk_config = ""
        name = sdk_config_name(variables) if sdk_config else ""
        if name:
            try:
                variables = place_sdk_config(variables, sdk_config, self.folder.tmp, self._tmp)
                self._sdk_config = name
            except OSError as error:
                process.log(f"the configuration of SageMaker's SDK cannot be written: {error}")
        return drop_missing_sdk_config(variables)

    def worker_options(self, environment: Dict[str, str]) -> WorkerOptions:
        """Return the options for transfers of objects; ``environment`` has the job's own variables."""
        from jupyter_smx.agent.stores.worker_client import WorkerOptions  # noqa: PLC0415 - see `startup.LATER`

        store, pythons = self.isolation.store, (self.config.courier, sys.executable)
        kept = (int(os.path.basename(store)),) if store else ()
        return WorkerOptions(tuple(filter(None, pythons)), self.entry, environment, kept)

    def channel_capabilities(self, environment: Dict[str, str]) -> ChannelCapabilities:
        """Return the means of this host for channels of a job; ``environment`` has the job's own variables."""
        from jupyter_smx.agent.channels.channel_types import ChannelCapabilities  # noqa: PLC0415 - see `startup.AFTER_START`

        store, options = self.isolation.store, self.worker_options(environment)
        if not store:
            folder, trash = self.folder.inputs, self.folder.trash
            sealed = self.folder.provided if self.isolation.mode == "container" else ""
            return ChannelCapabilities(folder, reason=self.isolation.reason, means=options, trash=trash, sealed=sealed)
        shown = os.path.join(self.folder.inputs, "shown")
        return ChannelCapabilities(store, shown, self.mounts.can_overlay(store), means=options, trash=self.folder.trash)

    def input_cache(self) -> InputCache:
        """Return this host's input cache, for cleanup."""
        from jupyter_smx.agent.stores.input_cache import InputCache  # noqa: PLC0415 - see `startup.AFTER_START`

        return InputCache(self.isolation.store or self.folder.inputs, self.input_hashes, 0)

    # News

    def mark_ready(self) -> None:
        """Let jobs start from the next turn of the event loop on, those first that wait for it, in their order."""
        self.loop.later(0, self._start_waiting)

    def _start_waiting(self) -> None:
        self.is_ready = True
        waiting, self._on_ready = self._on_ready, []
        for call in waiting:
            call()

    def when_ready(self, call: Callable[[], None]) -> None:
        """Call once, in the order of these calls, when the first zygote is up; only for a host that is not ready."""
        self._on_ready.append(call)

    def send_event(self, event: Dict[str, Any]) -> None:
        """Send an event to every controller's stream."""
        for listener in list(self.listeners):
            listener(event)

    def _on_preload(self) -> None:
        self.send_event(dict(self.fork_server.preload.view(), event="preload"))

    # Jobs

    def add_job(self, job: JobEntry) -> None:
        """Make a job the current one of this idle host, before it starts."""
        self.jobs[job.id] = job
        self.current = job
        self.highest_lease = max(self.highest_lease, job.lease)
        self.deadline.begin_job()
        if not self.is_private():
            # What other programs wrote while this host was idle is theirs.
            self._baseline = host_cleanup.take_baseline(self.folder, private=False)

    def disks(self, job: str) -> disk.DiskPaths:
        """List where a job of this host writes."""
        return disk.disk_paths(self.info, self._tmp, self.spool.path(job))

    def adopted_pids(self) -> List[int]:
        """Return the orphans of this host: processes that a job started and whose parents have exited.

        Those that have exited wait to be reaped. The list is reliable only if it is empty: a process that exits after
        it was made leaves its children to this process, and they are not in it.
        """
        known = self.loop.watched_pids()
        return [pid for pid in process.children(os.getpid()) if pid not in known]

    def orphan_pids(self) -> List[int]:
        """Return the orphans that still run."""
        return [pid for pid in self.adopted_pids() if process.is_alive(pid)]

    def remove_leftovers(self) -> List[str]:
        """Remove what the last job left in memory; return descriptions of it."""
        own = {self._sdk_config}
        return host_cleanup.remove_leftovers(self.folder, self._baseline, own, private=self.is_private())

    def finish_job(self, job: JobEntry, spec: CompleteSpec) -> None:
        """Make the host ready for the next job, or end it when it cannot be made clean."""
        self.current = None
        self.jobs[job.id] = EndedJob(job)
        disk.keep_reserve(self.folder.spool)
        self.fork_server.rest()
        self.mounts.unmount_all()
        try:
            host_cleanup.reset_folders(self.folder, job.id)
            short_path.restore_link(self.folder, self._name)
            if self.isolation.opt_ml is not None:
                self.isolation.opt_ml.end_job()
            sourcedir.trim(self.folder.trees, self.folder.trash)
            self._trim_inputs(spec)
        except OSError as error:
            self.unusable_reason = f"{error.filename} of job {job.id} cannot be removed ({error.strerror})."
        if self.is_private():
            self._baseline = host_cleanup.take_baseline(self.folder, private=True)
        else:
            changed = self.provided.changed_file()
            if changed:
                self.unusable_reason = f"job {job.id} changed {changed}, which was sent for jobs to read."
        self.deadline.end_job(float(spec["keep_alive"]))
        self.check_deadline()
        if self.is_noticed:
            self.loop.later(0, self.end_without_reader)
        if self.unusable_reason:
            self.shut_down(self.unusable_reason, code=4)
            return
        self._cleanup.request()

    def _trim_inputs(self, spec: CompleteSpec) -> None:
        if spec["channels"]:
            self.input_cache().drop_layers()
            self.input_cache().prune()

    def _has_trash(self) -> bool:
        if os.listdir(self.folder.trash) or sourcedir.is_spare_missing(self.folder.trees):
            return True
        return self.input_cache().has_trash()

    def _empty_trash(self) -> None:
        if self.current is not None or self._is_cleaning or self.is_closed:  # two at one copy would spoil it
            return  # its end is the next occasion
        self._cleanup.mark_clean()
        if self._has_trash():
            self._is_cleaning = True
            ForkedTask(self.loop, self._clean, self._on_cleaned)

    def _on_cleaned(self, _result: Optional[Dict[str, Any]], _error: str) -> None:
        self._is_cleaning = False
        self._cleanup.continue_if_dirty()

    def _clean(self) -> Dict[str, Any]:
        """Do what an idle host has time for, in a process of its own."""
        with contextlib.suppress(OSError):
            if sourcedir.is_spare_missing(self.folder.trees):
                sourcedir.make_spare_copy(self.folder.trees)
        if self.input_cache().has_trash():
            self.input_cache().empty_trash()
        return host_cleanup.empty_trash(self.folder)

    def forget(self, name: str) -> None:
        """Remove a finished job's folder; it goes to the trash at once and is deleted when there is time.

        :raises OSError: it cannot be removed; the job stays known, so that the request can be repeated.
        """
        with contextlib.suppress(FileNotFoundError):
            host_cleanup.move_to_trash(self.spool.path(name), os.path.join(self.folder.trash, f"forgotten-{name}"))
        self.jobs.pop(name, None)
        self.forgotten_jobs.append(name)
        if not self.is_closed and not self.is_noticed:
            self._cleanup.request()
        elif not self.jobs:
            self.loop.later(0, lambda: self.shut_down("the results of its jobs were read"))

    # The end

    def give_notice(self) -> None:
        """End the host before its machine is taken away: its job has a part of the grace, its results the rest."""
        if not self.is_noticed:
            told = self.folder.path(host_layout.NOTICE)
            self.notice_seconds = notice.announced_seconds(told, self.config.notice_grace)
        grace = self.notice_seconds
        if grace <= 0:
            self.shut_down("the engine announced the end of this host")
        elif not self.is_noticed:
            self.is_noticed = True
            process.log(f"notice: its machine is taken away in {grace:g} s")
            self.send_event({"event": "notice", "seconds": grace})
            self.loop.later(notice.host_seconds(grace), lambda: self.shut_down("its machine is taken away"))
            if self.current is not None:
                self.current.interrupt(notice.job_seconds(grace))
            else:
                self.end_without_reader()

    def end_without_reader(self) -> None:
        """End this host, whose machine is taken away, if nothing reads results of its jobs here.

        Without a controller it waits for one only where no other way leads to the results: what follows the end of a
        host, as a copy to a home, needs the rest of the grace.
        """
        has_reader = bool(self.listeners) or self.config.keep_uncollected > 0
        if self.current is None and not (self.jobs and has_reader):
            self.shut_down("its machine is taken away")

    def check_deadline(self) -> None:
        """Check the deadline, and set the timer for the next check."""
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
            self._deadline_timer = None
        left = self.deadline.remaining()
        if left is None:
            return
        if left <= 0:
            self._end_at_deadline()
            return
        if not os.path.exists(self.folder.claim):
            # No controller can find this host any more, so none could use or end it.
            self.shut_down("its folder was removed")
            return
        # The timer's clock may stand still while the machine sleeps, so it never waits long.
        self._deadline_timer = self.loop.later(min(left, 10.0), self.check_deadline)

    def _end_at_deadline(self) -> None:
        if self.is_closed:
            self.shut_down("no controller read the results of its jobs in time")
        elif self.jobs and self.config.keep_uncollected > 0:
            self._close()
        else:
            self.shut_down("the deadline is reached")

    def _close(self) -> None:
        """Release the resources for jobs, and keep their results as a small process."""
        process.log(f"closes: the deadline is reached; it keeps the results of {len(self.jobs)} jobs")
        self.is_closed = True
        self._release_resources()
        os.makedirs(self.folder.trash, mode=0o700, exist_ok=True)
        self.packages, self.input_hashes = PackageIndex(self.loop), {}
        self.deadline.set(self.config.keep_uncollected)
        self.check_deadline()
        self.on_close()

    def shut_down(self, reason: str, code: int = 0) -> None:
        """Kill everything that belongs to the host, remove what is of no use any more, and leave."""
        if self.is_shutting_down:
            return
        self.is_shutting_down = True
        try:
            process.log(f"ends: {reason}")
            if code:
                self.send_event({"event": "spoilt", "reason": reason})
            self._release_all(reason)
        except Exception as error:  # noqa: BLE001 - this runs only once, and a deadline must end the host
            process.log(f"clean-up is incomplete: {type(error).__name__}: {error}")
        finally:
            exit_now(code)

    def _release_all(self, reason: str) -> None:
        if self.current is not None:
            self.current.end_with_host(reason)
        with contextlib.suppress(OSError):
            os.unlink(self.folder.socket)
        self._release_resources()

    def _release_resources(self) -> None:
        """End all processes of the host but this one, and remove all files but the results of jobs."""
        self.aws_front.close()
        everything = process.tree(
            self.loop.watched_pids() + self.adopted_pids()
        )  # first: descendants of a process that has exited cannot be found
        self.fork_server.close()
        process.kill_all(everything, 2.0)
        cgroups.remove(self.limits.groups)
        with contextlib.suppress(OSError):
            short_path.remove_link(self.folder.root, self._name)
        if self.isolation.opt_ml is not None:
            self.isolation.opt_ml.remove()
        self.mounts.unmount_all()
        for path in (self.folder.slots, self.folder.trash, self.folder.tmp, self.folder.ml, self.folder.trees):
            rmtree.remove_if_possible(path)
        host_cleanup.clear_root(self.folder)
        # Its own name is closed to writing, and a name of an open folder is a link, which is not looked into.
        for path in glob.glob(os.path.join(self.isolation.store or self.folder.inputs, "*")):
            rmtree.remove_if_possible(path)


def _provided_files(folder: HostFolder, isolation: Isolation) -> ProvidedFiles:
    """Create the store below the inputs: in namespaces, jobs read it only, and the agent writes by the store's path."""
    tops = [os.path.join(top, "provided") for top in (isolation.store or folder.inputs, folder.inputs)]
    return ProvidedFiles(*tops)


def exit_now(code: int) -> None:
    """End this process without ceremony."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)


def host_info(config: hostconfig.HostConfig, folder: HostFolder, isolation: Isolation) -> HostInfo:
    """Return the facts of this host that script mode needs."""
    # The interface with the names of the hosts: servers must bind to the address at which other hosts find them.
    address = config.addresses.get(config.host, hostconfig.LOOPBACK)
    interface = "lo" if address.startswith("127.") else config.interface or network.find_interface(address)
    return HostInfo(
        host=config.host,
        hosts=config.hosts,
        groups=config.groups,
        group=config.group,
        instance_type=config.instance_type,
        cpus=config.threads,
        gpus=config.gpus,
        base=ML if isolation.has_own_namespaces() else folder.ml,
        interface=interface,
        region=platform_variables.region_of(os.environ),
        port=config.port,
        addresses=config.addresses,
        own_root=isolation.has_own_root(),
        image_files=config.image_files,
        image_workdir=config.image_workdir,
    )


def describe(host: Host) -> Dict[str, Any]:
    """Return the description of the host for the answer to ``hello``."""
    return {
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "pid": os.getpid(),
        "host": host.config.host,
        "isolation": {"mode": host.isolation.mode, "reason": host.isolation.reason},
        "start_method": host.config.start_method,
        "limits": cgroups.view(host.limits),
        "machine": machine.describe(host.isolation.machine, host.config.threads, host.config.gpus),
        "preload": host.fork_server.preload.view(),
        "deadline": 0.0 if host.takes_no_jobs() else host.deadline.remaining(),
        "closed": host.takes_no_jobs(),
        "jobs": {job.id: job.view() for job in host.jobs.values()},
    }
