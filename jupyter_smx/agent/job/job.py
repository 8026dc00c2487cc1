"""One job on this host: ``staging → running → archiving → ended``; each step is stored or sent before the next.

The top of :class:`Job` lists the steps after the exit of the job's process.
"""

from __future__ import annotations

import errno
import functools
import math
import os
import signal
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from jupyter_smx.agent import wire
from jupyter_smx.agent.code import packages, sourcedir, variable_reason
from jupyter_smx.agent.code.environ import job_changes
from jupyter_smx.agent.contract import failure, script
from jupyter_smx.agent.forkserver import child_protocol
from jupyter_smx.agent.host import notice
from jupyter_smx.agent.host.end_record import cause_of
from jupyter_smx.agent.host.job_entry import JobEntry
from jupyter_smx.agent.host.termination import Termination
from jupyter_smx.agent.job import continuous, log_cause, machine_opt_ml, mirror_task, working_folder
from jupyter_smx.agent.job.end_on_error import ends_job_on_error
from jupyter_smx.agent.job.end_record_writer import DISK_RETRY, EndRecordWriter
from jupyter_smx.agent.job.inputs import Inputs
from jupyter_smx.agent.job.orphans import Orphans
from jupyter_smx.agent.job.output_packing import OutputPacking
from jupyter_smx.agent.job.replaced_folders import ReplacedFolders
from jupyter_smx.agent.job.stall_watchdog import StallWatchdog
from jupyter_smx.agent.paths import output_folders
from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.agent.system.isolation import host_cleanup
from jupyter_smx.agent.system.processes.forked_task import ForkedTask
from jupyter_smx.agent.system.resources import disk, memory
from jupyter_smx.agent.telemetry import sampler

if TYPE_CHECKING:
    from jupyter_smx.agent.channels.checkpoint import FileStamps
    from jupyter_smx.agent.forkserver.handles import ChildHandle
    from jupyter_smx.agent.frames import ArtifactEntry, CompleteSpec, EndRecord, JobView, MissingPreloadsView
    from jupyter_smx.agent.host.host import Host
    from jupyter_smx.agent.job.controller_clock import ControllerClock
    from jupyter_smx.agent.system.processes.event_loop import Timer
    from jupyter_smx.agent.system.resources.log_limit import LogLimit

    Done = Callable[[], None]
    """Called once when a step of the shutdown is over, whatever its result."""


_CANNOT_EXECUTE = 126 << 8
"""Wait status of a shell that found a program and could not start it."""


def _sentence(error: str) -> str:
    """Return the error of a forked task with a full stop."""
    return error if error.endswith(".") else error + "."


class Job(JobEntry):
    """One job on this host: its state, and the steps from its inputs to the record of its end."""

    def _shutdown_steps(self) -> Tuple[Callable[[Done], None], ...]:
        """Return the steps after the exit of the job's process, in their order; :meth:`_shut_down` takes them.

        A job whose code never ran takes the last two only. One whose step fails takes the last only (:meth:`abort`).
        """
        return (
            self._wait_for_orphans,
            self._collect_replaced_folders,
            self._flush_checkpoints,
            self._flush_outputs,
            self._name_leftovers,
            self._pack_artifacts,
            self._record_packages,
            self._wait_for_digests,
            self._kill_helpers,
            self._write_record,
        )

    @ends_job_on_error
    def _shut_down(self, index: int = 0) -> None:
        """Take a step of the shutdown, and the next one when it calls back."""
        self._shutdown_steps()[index](functools.partial(self._shut_down, index + 1))

    def _end_without_run(self) -> None:
        """Take the last steps of the shutdown: the job's code never ran."""
        self._shut_down(self._shutdown_steps().index(self._kill_helpers))

    def __init__(
        self, host: Host, job: str, lease: int, spec: CompleteSpec, received: float, clock: ControllerClock
    ) -> None:
        self.host = host
        self.id = job
        self.lease = lease
        self.spec = spec
        self.phase = "staging"
        self._clock = clock
        self._machine_files = machine_opt_ml.list_files() if host.lacks_opt_ml() else {}
        self.at: Dict[str, Optional[float]] = {"received": clock.translate(received)}
        self.at.update(awake=None, first_line=None, exited=None, ended=None)
        self.child: Optional[ChildHandle] = None
        self.termination = Termination(host.loop, host.orphan_pids, self._cannot_be_killed)
        self.errors: List[str] = []
        self.left_behind: List[str] = []
        self._artifacts: List[ArtifactEntry] = []
        self.report: Dict[str, Any] = {}
        self.status: Optional[int] = None
        self._output_ends = (0, 0)
        """Offsets in the log after the last byte of stdout and of stderr."""
        self._stage_task: Optional[ForkedTask] = None
        self._stall_watchdog = StallWatchdog(host.loop, self._shutdown_task)
        self._inputs = Inputs(host, spec, self.abort)
        self._replaced = ReplacedFolders(host, job, self.abort)
        self._package_report = packages.NO_PACKAGES
        self._missing_preloads: MissingPreloadsView = {"modules": [], "reasons": []}
        """Preloads that it does not find, and why."""
        self._puts_code = False
        self._limit_timer: Optional[Timer] = None
        self._limit_at = math.inf
        """When its limit is over, by a monotonic clock."""
        self._watch: Optional[int] = None
        self._sampler = sampler.Sampler(
            host.loop, host.spool.path(job), host.folder.ml, self._roots, self._on_sample, clock.now
        )
        self._sent_log_size = 0
        self._log_limit: Optional[LogLimit] = None
        self._checkpoints = mirror_task.checkpoint_task(host, job, spec)
        self._restored_files: FileStamps = {}
        self._oom_counter = memory.OomCounter()
        self._oom_before = self._oom = 0
        self._reported = False
        self._waits_for_disk = False
        self._record_writer = EndRecordWriter(host, job, self._on_record_written, self.abort)
        # By the names that this host has for them, where they can be taken by a rename.
        self._outputs = output_folders(spec, host.info._replace(base=host.folder.ml))
        self._continuous = continuous.continuous_outputs(host, job, spec, self._outputs)
        self._packing = OutputPacking(host, job, self._outputs, self._send_disk_wait, self.abort)

    # Start

    @ends_job_on_error
    def start(self) -> None:
        """Make room where the disk is full, copy the inputs and a large folder of code, if there are any, and run.

        A disk that is mounted read-only is waited for.
        """
        if self.phase != "staging":
            return  # it was stopped while it waited for the disk
        self.host.link_opt_ml()
        if disk.is_read_only(self.host.spool.root):
            self._send_disk_wait(disk.format_wait(errno.EROFS, ()))
            self.host.loop.later(DISK_RETRY, self.start)
            return
        self._send_disk_wait("")
        if disk.is_full(self.host.folder.trash):
            # What deletes the leavings of the last job may not have come far, and this one would find no room.
            self._stage_task = ForkedTask(
                self.host.loop, lambda: host_cleanup.empty_trash(self.host.folder), self._has_room
            )
        else:
            self._prepare()

    @ends_job_on_error
    def _has_room(self, _result: Optional[Dict[str, Any]], _error: str) -> None:
        self._stage_task = None
        self._prepare()

    def _prepare(self) -> None:
        is_large = sourcedir.is_slow_copy(self.spec["source_dir"], self.host.folder.trees)
        self._puts_code = is_large and self._code_folder().startswith(self.host.folder.ml)
        if not self.spec["channels"] and not self._puts_code and not self._checkpoints.has_store():
            self._launch()
            return
        os.makedirs(self.host.spool.path(self.id), mode=0o700)
        places = self.host.disks(self.id)
        self._stage_task = ForkedTask(
            self.host.loop, lambda: disk.with_disk_errors(self._stage, places), self._on_staged
        )

    def _stage(self) -> Dict[str, Any]:
        """Stage the code, the inputs and the checkpoints; to be called in a forked task."""
        source = self.spec["source_dir"]
        if self._puts_code and source:
            sourcedir.copy_tree(source, self.host.folder.trees, self._code_folder())
        return dict(self._inputs.stage(), checkpoints=self._checkpoints.restore())

    def _code_folder(self) -> str:
        """Return the folder of the job's code by its path for this process, to which a folder can be renamed."""
        return script.code_target_folder(self.spec, self.host.info, self.host.folder.ml)

    @ends_job_on_error
    def _on_staged(self, result: Optional[Dict[str, Any]], error: str) -> None:
        self._stage_task = None
        if result is None:
            self._refuse(_sentence(error))
            return
        os.rmdir(self.host.spool.path(self.id))
        trouble = self._inputs.present(result)
        if trouble:
            self._refuse(trouble)
            return
        self._restored_files = result["checkpoints"]
        self._launch()

    def _refuse(self, sentence: str) -> None:
        self.errors.append(sentence)
        self.report["refused"] = sentence
        self._end_without_run()

    def _launch(self) -> None:
        fork_server = self.host.fork_server
        changes = job_changes.changes_of(self.spec, self.host.info, fork_server.before())
        taken, choice = fork_server.take(changes)
        if taken is None:
            trouble = fork_server.last_error
            why = disk.format_error(trouble, self.host.disks(self.id)) if trouble else "Ask again, or for another host."
            self._refuse(f"host: no process could be parked for this job. {why}")
            return
        self.child = self.termination.child = taken
        taken.on_message, taken.on_exit, taken.on_born = (
            self._on_child_message,
            self._on_exit,
            self.termination.send_sigterm,
        )
        folder = self.host.spool.adopt(taken.slot, self.id)
        code: Dict[str, Any] = {}
        if not self._puts_code:
            code.update(trees=self.host.folder.trees, target=self._code_folder())
        self._missing_preloads = choice.missing_preloads.view()
        if self.spec["source_dir"]:
            code["home"] = sourcedir.home_of(self.spec["source_dir"], self.host.folder.trees)
        code["installs"] = job_changes.install_in_script(self.spec, self.host.info)
        code["disk_patience"] = self.host.config.disk_patience
        frame = wire.encode({"spec": self.spec, "folder": folder, "restart": choice.restart, **code})
        self.phase = "running"
        self._sampler.start(taken.pid)
        taken.send(self.host.loop, memoryview(frame), self._on_send_failed)
        self._oom_before = self._oom_counter.find()
        self._watch = self.host.logs.add(os.path.join(folder, host_layout.JOB_LOG), self._on_log_growth)
        self._on_log_growth()  # what it wrote before it was watched is no event
        self._checkpoints.start(self._restored_files)
        self._continuous.start()
        if self.spec["max_run"]:
            self._limit_timer = self.host.loop.later(self.spec["max_run"], self._on_max_run)
            self._limit_at = time.monotonic() + self.spec["max_run"]
        self._inputs.describe_lazy()

    def _on_send_failed(self, error: OSError) -> None:
        # It may be half way in: nothing may run from it, and its end is the job's.
        self.errors.append(f"host: the job's process did not receive its request ({error}).")
        self.report["refused"] = self.errors[-1]
        self.termination.kill()

    # News of the child

    def _on_child_message(self, tag: int, data: bytes) -> None:
        if tag == child_protocol.FIRST_LINE_TAG:
            _tag, awake, first_line = child_protocol.FIRST_LINE.unpack(data)
            self.at.update(awake=self._clock.translate(awake), first_line=self._clock.translate(first_line))
            moments = {name: self.at[name] for name in ("received", "awake", "first_line")}
            self.send_event("first_line", at=moments, missing_preloads=self._missing_preloads)
        elif tag == child_protocol.DISK_WAIT_TAG:
            _tag, number = child_protocol.DISK_WAIT.unpack(data)
            self._send_disk_wait(disk.format_wait(number, self.host.disks(self.id)) if number else "")
        elif tag == child_protocol.CODE_EXIT_TAG:
            self._reported = True
            self.host.fork_server.park_if_none()
            self._sampler.finish()

    def _send_disk_wait(self, reason: str) -> None:
        """Send that the job waits for a disk, and why; "" where it waits no longer."""
        if reason or self._waits_for_disk:
            self._waits_for_disk = bool(reason)
            self.send_event("disk_wait", reason=reason)

    def _roots(self) -> List[int]:
        return [self.child.pid, *self.host.orphan_pids()] if self.child is not None and self.child.pid else []

    def _on_sample(self, now: Dict[str, float]) -> None:
        self.send_event("sampled", total=self.host.spool.size(self.id, host_layout.SAMPLES), now=now)

    def _on_log_growth(self) -> None:
        total = self.host.spool.size(self.id)
        if total != self._sent_log_size:
            self._sent_log_size = total
            if 0 < self.host.config.log_limit < total:
                self._limit_log(total)
            self.send_event("grew", total=total)

    def _limit_log(self, size: int) -> None:
        from jupyter_smx.agent.system.resources.log_limit import LogLimit  # noqa: PLC0415 - few jobs print so much

        if self._log_limit is None:
            path = self.host.spool.path(self.id, host_layout.JOB_LOG)
            self._log_limit = LogLimit(path, self.host.config.log_limit)
        self._log_limit.apply(size)

    def send_event(self, event: str, **fields: Any) -> None:
        """Send an event of this job to the connected controller."""
        self.host.send_event(dict(fields, event=event, job=self.id, lease=self.lease))

    # Stop

    def stop(self, grace: float, cause: str) -> None:
        """End it: SIGTERM to everything it started, ``grace`` seconds after the first time SIGKILL. Idempotent."""
        if self.phase == "staging":
            self.termination.cause = cause
            self.phase = "archiving"
            if self._stage_task is None:
                self._end_without_run()
            else:
                self._stage_task.cancel_and_wait(self._end_without_run)
        elif self.phase == "running":
            self.termination.request(grace, cause)
        elif self.phase == "archiving":
            self._stall_watchdog.start(cause)

    def interrupt(self, grace: float) -> None:
        """End it within ``grace`` seconds, because its machine is taken away.

        If the job's own limit ends before the machine, that is the cause: an allocation may be as long as the limit.
        """
        seconds = self.host.notice_seconds
        has_just_exited = self.phase == "archiving" and notice.came_with_exit(self.at["exited"], self._clock.now())
        if self.phase in ("staging", "running") or has_just_exited:
            self.errors.append(f"host: the machine was taken away; its notice came {seconds:g} s before.")
            cause = "max_runtime" if self._limit_at - time.monotonic() <= seconds else "interrupted"
            self.termination.cause = self.termination.cause or (cause if has_just_exited else "")
            self.stop(grace, cause)

    def _on_max_run(self) -> None:
        self.stop(float(self.spec.get("grace", self.host.config.grace)), "max_runtime")

    # End

    @ends_job_on_error
    def _cannot_be_killed(self) -> None:
        """End a job although its own process still exists; later messages of that process are ignored."""
        child: ChildHandle = self.child  # type: ignore[assignment]
        child.on_exit = child.on_message = None
        child.on_born = child.kill  # it would find in its socket what to run
        who = f"process {child.pid} cannot be killed" if child.pid else "the process of the job did not start"
        self.host.unusable_reason = f"{who}; this host ends."
        self.left_behind.append(self.host.unusable_reason)
        self._on_exit(None, "the job's process cannot be ended")

    @ends_job_on_error
    def _on_exit(self, status: Optional[int], reason: str) -> None:
        self.status = status
        self._sampler.close(self.child.cpu)  # type: ignore[union-attr]
        self._output_ends = self.child.output.ends()  # type: ignore[union-attr]
        self.at["exited"] = self._clock.now()
        self.phase = "archiving"
        self.termination.cancel()
        self._stall_watchdog.start(self.termination.cause)
        if self._limit_timer is not None:
            self._limit_timer.cancel()
        if reason:
            self.errors.append(f"host: {reason}.")
            self.report["refused"] = self.errors[-1]
        self._send_disk_wait("")  # its process may have been killed while it waited
        self.send_event("exited", at=self.at["exited"])
        self._read_end_cause(status)
        times = (self.at["awake"], self.at["exited"])
        pause = notice.exit_pause(*times, status) if self.host.config.signals_jobs else 0.0
        self.host.loop.later(pause, self._shut_down) if pause else self._shut_down()

    def _read_end_cause(self, status: Optional[int]) -> None:
        """Find out, before anything is removed, what only this host can see of an end."""
        self._oom = self._oom_counter.read() - self._oom_before if self.child is not None else 0
        if status is not None and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGBUS:
            # Memory that a file on a full disk backs: shared memory, mostly.
            self.report["remark"] = disk.format_full_disk(self.host.disks(self.id))

    # Shutdown, in the order of its steps

    @ends_job_on_error
    def _add_and_continue(self, sentences: List[str], done: Done, more: List[str]) -> None:
        """Add what a step reports to the job's sentences; then the step is over."""
        sentences += more
        done()

    def _wait_for_orphans(self, done: Done) -> None:
        collect = functools.partial(self._add_and_continue, self.left_behind, done)
        Orphans(self.host, self.abort, collect).terminate(were_told=bool(self.termination.cause))

    def _shutdown_task(self) -> Optional[ForkedTask]:
        tasks = (self._replaced.task, self._checkpoints.final_task, self._continuous.final_task, self._packing.task)
        return next(filter(None, tasks), None)

    def _collect_replaced_folders(self, done: Done) -> None:
        self._replaced.collect(functools.partial(self._on_collected, done))

    def _on_collected(self, done: Done, error: str) -> None:
        self.errors += [error] if error else []
        if error and self.status == 0:
            self.report["refused"] = error  # the code completed, but its outputs may be lost
        done()

    def _flush_checkpoints(self, done: Done) -> None:
        self._checkpoints.finish(functools.partial(self._add_and_continue, self.errors, done))

    def _flush_outputs(self, done: Done) -> None:
        self._continuous.finish(functools.partial(self._add_and_continue, self.errors, done))

    def _name_leftovers(self, done: Done) -> None:
        """Record the files that are not collected, and name them in the log."""
        folder = self.host.folder
        files = machine_opt_ml.list_files() if self.host.lacks_opt_ml() else {}
        paths = machine_opt_ml.new_files(self._machine_files, files)
        in_working_folder = working_folder.describe(self.spec, self.host.info, folder.ml, folder.trees)
        in_root = working_folder.describe_root(self.spec, self.host.info, folder)
        uncollected = machine_opt_ml.describe(self.spec, paths, self.host.missing_opt_ml())
        found = [*filter(None, (in_working_folder, in_root, uncollected))]
        self.left_behind += found
        self._append_to_log(found)
        done()

    def _append_to_log(self, sentences: List[str]) -> None:
        """Append sentences to the log, unless it ends with the reason of a failure, where front ends look for that."""
        if self.status == 0 and not self.termination.cause:
            working_folder.append_sentences(self.host.spool.path(self.id, host_layout.JOB_LOG), sentences)

    def _pack_artifacts(self, done: Done) -> None:
        self._on_log_growth()
        self._read_report()
        if not self.termination.cause:
            log_cause.add_log_cause(
                self._facts(), self.host.spool.path(self.id, host_layout.JOB_LOG), self._output_ends
            )
        if self._packing.has_work():
            self._packing.start(functools.partial(self._on_packed, done))
        else:
            done()

    def _read_report(self) -> None:
        """Take the report that the job's process sent or wrote at its end; without one, record the reason."""
        report = self.host.spool.report(self.id, self.child.report)  # type: ignore[union-attr]
        self.report = dict(report or {}, **{name: value for name, value in self.report.items() if value})
        self.host.fork_server.expect_changes(self.report.get("missing_preloads", {}).get("variables", []))
        if report is None and self.at["awake"] is None and self.status == child_protocol.EXIT_NOT_READY << 8:
            why = disk.format_full_disk(self.host.disks(self.id)) or "Its log has details."
            self.report["refused"] = f"host: the job's process could not make itself ready. {why}"
        if self.status == _CANNOT_EXECUTE and not (self.report.get("failure") or self.report.get("exception")):
            self.report["failure"] = disk.format_noexec(self.host.folder.ml)
        if report is None and self._reported:
            self.errors.append("host: the job's report was lost, with its exception and variables; see its log.")
        if report is None and self.status == 0 and not self.termination.cause:
            why = "its report was lost" if self._reported else variable_reason.LEFT_EARLY
            said = f"was not kept, because {why}."
            self.errors += [variable_reason.format_reason(name, said) for name in self.spec["receive"]]

    def _on_packed(self, done: Done, result: Optional[Dict[str, Any]], error: str, was_aborted: bool) -> None:
        if result is None:
            self.errors.append(f"host: the job's outputs could not be stored: {_sentence(error)}")
            if self.status == 0:
                # The code completed, but its outputs are lost: that is no success.
                self.report["refused"] = self.errors[-1]
                if was_aborted:
                    self.termination.cause = self.termination.cause or self._stall_watchdog.abort_cause
        else:
            self.errors += result["errors"]
            self._append_to_log(result["errors"])
            self._artifacts = result["artifacts"]
        done()

    def _record_packages(self, done: Done) -> None:
        """Find out which packages the job imported; mostly that is in the index already."""
        self.host.packages.find(self.report.get("imported") or {}, functools.partial(self._on_packages, done))

    @ends_job_on_error
    def _on_packages(self, done: Done, found: packages.PackageReport) -> None:
        self._package_report = found
        done()

    def _wait_for_digests(self, done: Done) -> None:
        self._inputs.call_when_described(done)

    def _kill_helpers(self, done: Done) -> None:
        """Kill the processes that a forked task which was cut short left behind, as those that fetch objects."""
        if self.phase == "ended":
            return
        self.phase = "archiving"
        if self.host.unusable_reason:  # the host ends with those that are left, which were waited for already
            done()
        else:
            Orphans(self.host, self.abort, lambda _sentences: done()).terminate(were_told=True)

    def _write_record(self, _done: Optional[Done] = None) -> None:
        """Release what the job has, write and send the record of its end, and make the host ready for the next job."""
        if self.phase == "ended":
            return
        if self._watch is not None:
            self.host.logs.remove(self._watch)
        self._inputs.close()
        self._stall_watchdog.stop()
        if self.child is not None:
            self._remove_leftovers()
        self.at["ended"] = self._clock.now()
        self._record_writer.write(self.record())

    def _on_record_written(self, told: Dict[str, Any]) -> None:
        self._stall_watchdog.stop()
        self.phase = "ended"
        self._packing.is_over = True
        self.send_event("ended", **told)
        self.host.finish_job(self, self.spec)

    def _remove_leftovers(self) -> None:
        try:
            self.left_behind += self.host.remove_leftovers()
        except Exception as error:  # noqa: BLE001 - border: a job may leave anything, and its record must come
            why = f"{type(error).__name__}: {error}"
            self.host.unusable_reason = f"host: files of job {self.id} cannot be removed ({why})."
            self.left_behind.append(self.host.unusable_reason)

    def abort(self, error: Exception) -> None:
        """End the job and its host after an unexpected error: their state is unknown."""
        self._checkpoints.cancel()
        sentence = f"host: this job could not be finished ({type(error).__name__}: {error})."
        self.host.unusable_reason = sentence
        self.errors.append(sentence)
        self.report = {"refused": sentence}
        if self.phase == "ended":
            self.host.shut_down(sentence, code=4)
        else:
            self._artifacts = []
            self._write_record()

    def end_with_host(self, reason: str) -> None:
        """Write the record of a job whose host ends before it does; the host kills its processes."""
        if self.phase == "ended":
            return
        if self._record_writer.pending is not None:
            self._record_writer.write_last(self._record_writer.pending)
            return
        self.termination.cause = self.termination.cause or ("interrupted" if self.host.is_noticed else "stopped")
        self.errors.append(f"host: {reason}.")
        self.at["ended"] = self._clock.now()
        self._artifacts = []
        self._record_writer.write_last(self.record())

    def view(self) -> JobView:
        """Return the job's part of the answer to ``hello``."""
        log, samples = self.host.spool.size(self.id), self.host.spool.size(self.id, host_layout.SAMPLES)
        return {"phase": self.phase, "lease": self.lease, "log": log, "samples": samples, "at": self.at}

    def _facts(self, fate: str = "") -> failure.Facts:
        return failure.Facts(self.host.folder.ml, self.spec, self.host.info, self.report, self.status, fate)

    def _all_missing_preloads(self) -> MissingPreloadsView:
        """Return the missing preloads of the host, and those that only the job's process found."""
        seen = self.report.get("missing_preloads", {})
        return {
            "modules": list(dict.fromkeys([*self._missing_preloads["modules"], *seen.get("modules", [])])),
            "reasons": list(dict.fromkeys([*self._missing_preloads["reasons"], *seen.get("reasons", [])])),
        }

    def record(self) -> EndRecord:
        """Return the record of the end, as it is written and sent."""
        status = self.status
        refused = bool(self.report.get("refused"))
        killed = self.report.get("killed") == signal.SIGKILL
        cause = cause_of(status, self.termination.cause, refused=refused, oom=self._oom > 0, killed=killed)
        fate = memory.format_oom_kill(self.child.peak) if cause == "memory" and self.child else ""
        exited = status is not None and os.WIFEXITED(status)
        errors = self.errors + [text for text in self.report.get("errors", []) if text not in self.errors]
        if self._oom > 0 and cause != "memory":
            errors.append(memory.format_other_oom_kills(self._oom))
        if refused and self.report["refused"] not in errors:
            errors.append(self.report["refused"])
        return {
            "job": self.id,
            "lease": self.lease,
            "host": self.host.config.host,
            "cause": cause,
            "exit_code": os.WEXITSTATUS(status) if exited and not refused else None,  # type: ignore[arg-type]
            "signal": os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None,
            **failure.failure_fields(self._facts(fate)),
            "exception": self.report.get("exception"),
            "at": self.at,
            "log": self.host.spool.size(self.id),
            "samples": self.host.spool.size(self.id, host_layout.SAMPLES),
            "usage": self._sampler.peak,
            "artifacts": self._artifacts,
            "received": self.report.get("received", {}),
            "errors": errors,
            "left_behind": self.left_behind,
            "modules": [name for name in self._package_report.installed if name != "cloudpickle" and name[0] != "_"],
            "packages": self._package_report.packages,
            "own_modules": self._package_report.own,
            "missing_preloads": self._all_missing_preloads(),
            "inputs": self._inputs.descriptions(),
            "hash_seed": self.spec["environment"].get("PYTHONHASHSEED", os.environ.get("PYTHONHASHSEED", "")),
            "notes": self._package_report.notes + self._inputs.notes + self._checkpoints.notes + self._continuous.notes,
        }
