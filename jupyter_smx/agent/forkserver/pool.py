"""Manage zygotes and their children on the agent's side: parked children, replacements and exits."""

from __future__ import annotations

import array
import itertools
import os
import socket
from typing import Any, Callable, Dict, List, Optional, Tuple

from jupyter_smx.agent import wire
from jupyter_smx.agent.code import imports
from jupyter_smx.agent.code.environ import reasons as preload_reasons
from jupyter_smx.agent.code.environ.changes import BY_JOB, VariableChange
from jupyter_smx.agent.code.environ.job_changes import NO_CHANGES, JobChanges
from jupyter_smx.agent.code.environ.reasons import MissingPreloads
from jupyter_smx.agent.forkserver import child_protocol, variants
from jupyter_smx.agent.forkserver.handles import EXIT_CHECK_INTERVAL, ChildHandle, ZygoteHandle
from jupyter_smx.agent.forkserver.prefork_demand import QUIET, Demand
from jupyter_smx.agent.forkserver.preload import Preload
from jupyter_smx.agent.forkserver.spawn import SpawnedZygote, spawn
from jupyter_smx.agent.forkserver.variants import UNCHANGED, Choice
from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.agent.system.processes import process
from jupyter_smx.agent.system.processes.event_loop import READ, Loop, Timer

_RETRY = 0.05
_FAILED_START_LIMIT = 3


class ForkServerPool:
    """Keeps one zygote in service and a child or two parked; a better zygote takes over when it has proved itself."""

    def __init__(self, loop: Loop, slots: str, begin: Dict[str, Any], environment: Dict[str, str]) -> None:
        self._loop = loop
        self._slots = slots
        self._settings = begin
        self._environment = environment
        self._serials = itertools.count(1)
        self._zygotes: List[ZygoteHandle] = []
        self._current: Optional[ZygoteHandle] = None
        self._parked: List[ChildHandle] = []
        self._orphans: List[ChildHandle] = []
        self._demand = Demand()
        self._trimming: Optional[Timer] = None
        self._closing = False
        self._failed_starts = 0
        self.last_error: Optional[OSError] = None
        self.on_ready: Optional[Callable[[], None]] = None
        self.on_start_failed: Optional[Callable[[], None]] = None
        self.preload = Preload()
        self.variants = variants.Variants(self._launch_variant)
        self._always_changed: Dict[str, VariableChange] = {}
        self._before = {**environment, **begin.get("of_every_job", {})}
        self.on_preload: Optional[Callable[[], None]] = None

    # Zygotes

    def start(self, modules: List[str], found: Optional[SpawnedZygote] = None) -> None:
        """Start a bare zygote for now, unless one was ``found``, and try out one with the modules beside it."""
        self._current = self._launch([], found)
        self.park()
        if modules:
            self.request(modules)

    def request(self, modules: List[str]) -> None:
        """Try a zygote with these modules and those that are loaded; it replaces the current one when it is ready."""
        new = self.preload.missing_modules(modules)
        if self.preload.pending:
            # A candidate that is at it would only have to begin again.
            self.preload.queue(new)
            return
        if not new:
            return
        wanted = self.preload.loaded + new
        self.preload.failed = {name: why for name, why in self.preload.failed.items() if name not in new}
        self.preload.pending = new
        self._try(wanted)

    def _try(self, modules: List[str]) -> None:
        for zygote in list(self._zygotes):
            if zygote is not self._current and not zygote.ready and not self.variants.has(zygote):
                zygote.retire()
        try:
            self._launch(modules)
        except OSError as error:
            self._fail_preload(f"no process could be started to import it ({error.strerror})")

    def _fail_preload(self, why: str) -> None:
        self.preload.fail_pending(why)
        self._on_preload_done()

    def _launch(self, modules: List[str], found: Optional[SpawnedZygote] = None) -> ZygoteHandle:
        zygote = ZygoteHandle.start(found or spawn(self._settings["entry"], self._environment), self._settings, modules)
        self._zygotes.append(zygote)
        for orphan in self._orphans:
            zygote.adopt(orphan)
        self._loop.watch(zygote.control.fileno(), READ, lambda: self._on_control_readable(zygote))
        self._loop.on_exit(zygote.pid, lambda _status: self._on_zygote_exit(zygote))
        return zygote

    def _launch_variant(self, modules: List[str]) -> Optional[ZygoteHandle]:
        if self._settings["start_method"] == "spawn":
            return None  # each child imports for itself
        try:
            return self._launch(modules)
        except OSError as error:
            process.print_line(f"variant: {error}")
            return None

    def _on_control_readable(self, zygote: ZygoteHandle) -> None:
        try:
            data = zygote.control.recv(65_536)
        except OSError:
            data = b""
        if not data:
            self._on_zygote_exit(zygote)
            return
        for frame in zygote.decoder.feed(data):
            self._on_event(zygote, frame.header)

    def _on_event(self, zygote: ZygoteHandle, header: Dict[str, Any]) -> None:
        event = header["event"]
        if event == "ready":
            self._on_ready(zygote, header)
        elif event == "unfit":
            self._on_unfit(zygote, header)
        elif event == "stale":
            self._on_stale(zygote, header["serial"])
        elif event == "born":
            self._on_started(zygote, header)
        elif event in ("exit", "unborn"):
            found = zygote.children.get(header["serial"])
            if found is not None:
                found.peak, found.cpu = header.get("peak", 0), max(found.cpu, header.get("cpu", 0.0))
                self._on_child_exit(found, header.get("status"), header.get("reason", ""))

    def _on_ready(self, zygote: ZygoteHandle, header: Dict[str, Any]) -> None:
        zygote.set_ready(header)
        if self.on_ready is not None:
            self.on_ready()
        if self.variants.has(zygote):
            self.variants.take_ready(zygote)
            return
        if zygote.retiring or not zygote.modules:
            return  # a candidate was faster than the bare one, or this is the bare one
        if self._settings["start_method"] == "spawn":
            # A spawned child imports for itself, so only its report shows the result. See _on_imported.
            self._promote(zygote)
            return
        self.preload.record_result(header)
        self._promote(zygote)
        self.variants.make_for_ranks(zygote, self._on_preload_done)

    def _on_preload_done(self) -> None:
        if self.on_preload is not None:
            self.on_preload()
        queued = self.preload.take_queued()
        if queued:
            self.request(queued)

    def _promote(self, zygote: ZygoteHandle) -> None:
        old, self._current = self._current, zygote
        self.discard()
        self.variants.discard()
        if old is not None and old is not zygote:
            old.retire()
        self.park()

    def _on_unfit(self, zygote: ZygoteHandle, header: Dict[str, Any]) -> None:
        if self.variants.has(zygote):
            self.variants.lose(zygote)
            return
        culprit = header["module"]
        self.preload.failed[culprit] = header["reason"]
        rest = [name for name in zygote.modules if culprit not in (name, imports.top_level_package(name))]
        if rest and len(rest) < len(zygote.modules):
            self._try(rest)
            return
        self.preload.pending = []
        self._on_preload_done()

    def _on_stale(self, zygote: ZygoteHandle, serial: int) -> None:
        """Answer a zygote that has more threads than at birth: nothing is forked from it any more."""
        lost = zygote.children.pop(serial, None)
        if lost in self._parked:
            self._parked.remove(lost)
        if zygote is self._current:
            self._replace(zygote)
        self.variants.lose(zygote)
        zygote.retire()
        if lost is not None:
            self._on_child_exit(lost, None, "its zygote could no longer fork safely")

    def _on_zygote_exit(self, zygote: ZygoteHandle) -> None:
        """Replace a zygote that has exited; its running job continues as a child of this process."""
        if zygote.has_exited:
            return
        zygote.has_exited = True
        self._zygotes.remove(zygote)
        self._loop.unwatch(zygote.control.fileno())
        zygote.close()
        if self._closing:
            return
        if zygote is self._current:
            self._replace(zygote)
        elif self.variants.has(zygote):
            self.variants.lose(zygote)
        elif not zygote.ready and not zygote.retiring and self.preload.pending:
            self._fail_preload("the process that imported it exited")
        for orphan in list(zygote.children.values()):
            self._adopt(orphan)

    def _replace(self, zygote: ZygoteHandle) -> None:
        """Serve with a bare zygote, and try the modules of the old one again beside it."""
        self._current = None
        self.discard()
        self.variants.discard()
        self._failed_starts = 0 if zygote.ready else self._failed_starts + 1
        if self._failed_starts > _FAILED_START_LIMIT:
            self._closing = True
            if self.on_start_failed is not None:
                self.on_start_failed()
            return
        self._start_bare_zygote(zygote.modules)

    def _start_bare_zygote(self, modules: List[str]) -> None:
        """Start a bare zygote, now or as soon as possible; children of the old one are supervised already."""
        if self._closing or self._current is not None:
            return  # a candidate took over meanwhile
        try:
            self._current = self._launch([])
        except OSError as error:
            self.last_error = error
            process.print_line(f"zygote: {error}")
            self._loop.later(_RETRY, lambda: self._start_bare_zygote(modules))
            return
        self.park()
        if modules:
            self.preload.queue(self.preload.pending)  # a candidate that is at it makes room
            self.preload.loaded, self.preload.pending = [], list(modules)
            self._try(modules)

    def _adopt(self, orphan: ChildHandle) -> None:
        if orphan.pid == 0:
            self._on_child_exit(orphan, None, "its zygote exited during startup")
            return
        self._loop.on_exit(orphan.pid, lambda status: self._on_child_exit(orphan, status, ""))
        self._orphans.append(orphan)
        for zygote in self._zygotes:
            zygote.adopt(orphan)
        self._loop.reap()
        if orphan in self._orphans and not process.is_alive(orphan.pid):
            self._loop.later(_RETRY, lambda: self._report_lost_exit(orphan))

    def _report_lost_exit(self, orphan: ChildHandle) -> None:
        if orphan in self._orphans and not process.is_alive(orphan.pid):
            self._on_child_exit(orphan, None, "its exit status is unknown")

    # Children

    def park(self) -> None:
        """Park as many children as jobs are likely to need soon."""
        while len(self._parked) < self._demand.desired_count() and self._park_one():
            pass

    def park_if_none(self) -> None:
        """Park a child while a job is still ending, if none is parked; a second one waits until that job is over.

        A zygote cannot report an exit while it forks, which takes milliseconds if much is imported.
        """
        if not self._parked:
            self.park()

    def _park_one(self) -> bool:
        if self._closing or self._current is None:
            return False
        parked = self._start_child(self._current)
        if parked is None:
            self._loop.later(_RETRY, self.park)
            return False
        self._parked.append(parked)
        return True

    def _start_child(self, zygote: ZygoteHandle) -> Optional[ChildHandle]:
        """Request a child from a zygote; return None if descriptors or disk space run out."""
        serial = next(self._serials)
        slot = os.path.join(self._slots, str(serial))
        ours, theirs = socket.socketpair()
        child = ChildHandle(serial, slot, ours, zygote)
        try:
            os.mkdir(slot, 0o700)
            path = os.path.join(slot, host_layout.JOB_LOG)
            # Opened twice: each open file has its own offset, which shows what came from standard error.
            with open(path, "ab") as out, open(path, "ab") as err:
                fds = array.array("i", [theirs.fileno(), out.fileno(), err.fileno()])
                child.output.keep(out.fileno(), err.fileno())
                frame = wire.encode({"op": "park", "serial": serial})
                zygote.control.sendmsg([frame], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        except OSError as error:
            self.last_error = error
            process.print_line(f"park: {error}")
            ours.close()
            child.output.close()
            return None
        finally:
            theirs.close()
        self.last_error = None
        zygote.children[serial] = child
        child.listen(self._loop, lambda: self._listen(child))
        return child

    def take(self, changes: JobChanges = NO_CHANGES) -> Tuple[Optional[ChildHandle], Choice]:
        """Return the child for a job and the choice how it begins; the next child is parked when that job is ending.

        It is the parked one, unless the job changes variables that preloads read; see :func:`variants.choose`.
        """
        changed = self._renew()
        current = self._current
        choice = UNCHANGED
        if self._always_changed:
            changes = changes._replace(variables=[*changes.variables, *self._always_changed.values()])
        if current is not None and any(changes):
            choice = variants.choose(current, self.variants.ready(), changes)
        if changed is not None:
            choice = choice._replace(missing_preloads=changed)
        if choice.zygote is not None:
            taken = self._start_child(choice.zygote)
            if taken is not None:
                return self._give(taken), choice
            choice = choice._replace(restart=True)
        if choice.restart and not changes.needs_interpreter:
            self.variants.miss(changes.variables)
        return self._take_parked(), choice

    def _take_parked(self) -> Optional[ChildHandle]:
        self._demand.record_start()
        if self._trimming is None:
            self._trimming = self._loop.later(QUIET, self._trim)
        while self._parked and self._parked[0].is_peer_closed():
            self._drop(self._parked[0])
        if not self._parked:
            self._park_one()
        return self._give(self._parked.pop(0)) if self._parked else None

    def _give(self, taken: ChildHandle) -> ChildHandle:
        taken.running = True
        self._watch_exit(taken)
        self._loop.later(EXIT_CHECK_INTERVAL, lambda: self._check_running(taken))
        return taken

    def rest(self) -> None:
        """Do after a job what the next one waits for: park a child, and make the variant that the last one lacked."""
        self.park()
        self.variants.make_missing(self._current)

    def expect_changes(self, names: List[str]) -> None:
        """Record variables that jobs of this host change although their specs do not show it."""
        new = {name: VariableChange(name, None, BY_JOB, known=False) for name in names}
        self._always_changed.update(new)
        if new:
            self.variants.miss(list(self._always_changed.values()))

    def before(self) -> Dict[str, str]:
        """Return the environment in which preloads are imported."""
        return self._before

    def _watch_exit(self, one: ChildHandle) -> None:
        """Observe a job's exit without its zygote, which may be busy with a fork for milliseconds."""
        one.watch_exit(self._loop, lambda: self._on_exit_seen(one))

    def _on_exit_seen(self, one: ChildHandle) -> None:
        """Use the exit code that the job itself reported; without one, wait for its zygote's report."""
        one.unwatch_exit(self._loop)
        self._drain_messages(one)
        if one.reported_code is not None:
            self._settle(one, one.reported_code << 8, "")

    def _renew(self) -> Optional[MissingPreloads]:
        """Replace a zygote whose preloads changed on the disk, because the job would run with old packages.

        Return the preloads that the job lacks then; None if nothing changed.
        """
        old = self._current
        names = old.changed_packages() if old is not None and old.ready else []
        if old is None or not names:
            return None
        self._replace(old)
        old.retire()
        return MissingPreloads(list(old.loaded), [preload_reasons.format_changed(names)])

    def _check_running(self, one: ChildHandle) -> None:
        if one.serial in one.zygote.children and not self._closing:
            one.wake_zygote()
            self._loop.later(EXIT_CHECK_INTERVAL, lambda: self._check_running(one))

    def _trim(self) -> None:
        """Drop the children that were parked for a series of jobs, when the series is over."""
        self._trimming = None
        for extra in self._parked[max(1, self._demand.desired_count()) :]:
            self._drop(extra)
        if len(self._parked) > 1:
            self._trimming = self._loop.later(QUIET, self._trim)

    def discard(self) -> None:
        """Drop the parked children: they exit when their sockets close."""
        for parked in list(self._parked):
            self._drop(parked)

    def _drop(self, parked: ChildHandle) -> None:
        import shutil  # noqa: PLC0415 - see `startup.AFTER_START`

        self._parked.remove(parked)
        parked.close_socket(self._loop)
        parked.output.close()
        shutil.rmtree(parked.slot, ignore_errors=True)

    def _on_started(self, zygote: ZygoteHandle, header: Dict[str, Any]) -> None:
        found = zygote.children.get(header["serial"])
        if found is not None:
            found.pid = header["pid"]
            if found.running:
                self._watch_exit(found)
            if found.on_born is not None:
                found.on_born()

    def _listen(self, one: ChildHandle) -> None:
        try:
            data = one.sock.recv(65_536)
        except OSError:
            data = b""
        if not data:
            # A job may close every descriptor it has; only its end counts. A parked child that does it is no use.
            one.close_socket(self._loop)
            if one in self._parked:
                self._drop(one)
                self._loop.later(_RETRY, self.park)
            return
        for tag, message in one.split_messages(data):
            if tag == 0:
                for frame in wire.Decoder().feed(message):
                    self._on_child_frame(one, frame.header)
            elif one.on_message is not None:
                one.on_message(tag, message)

    def _drain_messages(self, one: ChildHandle) -> None:
        """Read what a child sent before its exit: messages and exit come by different channels, in any order."""
        while one.sock.fileno() >= 0:
            one.sock.setblocking(False)
            self._listen(one)

    def _on_child_frame(self, one: ChildHandle, header: Dict[str, Any]) -> None:
        if child_protocol.REPORT not in header:
            self._on_imported(one, header)
        elif isinstance(header[child_protocol.REPORT], dict):
            one.report = header[child_protocol.REPORT]

    def _on_imported(self, one: ChildHandle, header: Dict[str, Any]) -> None:
        """Take the news of a spawned child that has done its imports; its zygote imported nothing."""
        one.zygote.set_imported(header)
        if one.zygote.modules and one in self._parked and self.preload.loaded != header["loaded"]:
            self.preload.record_result(header)
            self._on_preload_done()

    def _on_child_exit(self, one: ChildHandle, status: Optional[int], reason: str) -> None:
        # Not at the first sign of the exit: if the zygote exits then, the agent reaps the child as an orphan, and
        # counts its CPU time for the next job.
        one.zygote.children.pop(one.serial, None)
        self._orphans = [orphan for orphan in self._orphans if orphan is not one]
        self._loop.unwatch_exit(one.pid)
        self._settle(one, status, reason)
        one.zygote.exit_when_idle()

    def _settle(self, one: ChildHandle, status: Optional[int], reason: str) -> None:
        if one.has_exited:
            return
        one.has_exited = True
        one.unwatch_exit(self._loop)
        self._drain_messages(one)
        if one in self._parked:
            self._drop(one)
            self._loop.later(_RETRY, self.park)
        one.notify_exit(status, reason)

    def close(self) -> None:
        """End every zygote and with them every child."""
        self._closing = True
        for zygote in list(self._zygotes):
            for one in list(zygote.children.values()):
                one.close_socket(self._loop)
                one.kill()
            process.kill([zygote.pid])
