"""The inputs of one job: staged before it starts, monitored if they are lazy, and removed with the job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from jupyter_smx.agent.job.end_on_error import ends_job_on_error
from jupyter_smx.agent.paths import input_folder
from jupyter_smx.agent.stores import digest
from jupyter_smx.agent.system.processes import process
from jupyter_smx.agent.system.processes.forked_task import ForkedTask

if TYPE_CHECKING:
    from jupyter_smx.agent.channels.channel_types import ChannelCapabilities
    from jupyter_smx.agent.frames import ChannelSpec, CompleteSpec
    from jupyter_smx.agent.host.host import Host
    from jupyter_smx.agent.system.processes.event_loop import Timer

_PATIENCE = 10.0
"""Seconds that the end of a job waits for the description of a lazy channel."""


class Inputs:
    """The inputs of a job, and their descriptions for the record."""

    def __init__(self, host: Host, spec: CompleteSpec, break_off: Callable[[Exception], None]) -> None:
        self._host = host
        # The end of the job may wait for work here, so an unexpected error must abort the job instead of blocking it.
        self.abort = break_off
        self._channels: List[ChannelSpec] = spec["channels"]
        self._descriptions: Dict[str, Dict[str, Any]] = {}
        self._lazy: List[str] = []
        self._servers: List[int] = []
        self._describe_task: Optional[ForkedTask] = None
        self._waiter: Optional[Callable[[], None]] = None
        self._timeout: Optional[Timer] = None
        self.notes: List[str] = []
        kind, host_info = spec["kind"], host.info
        self._folders = {one["name"]: input_folder(host_info, kind, one) for one in self._channels}
        self._capabilities: Optional[ChannelCapabilities] = None
        if self._channels:
            self._capabilities = host.channel_capabilities(spec["environment"])

    def descriptions(self) -> List[Dict[str, Any]]:
        """Return the descriptions of all channels, in their order."""
        return [self._descriptions[one["name"]] for one in self._channels if one["name"] in self._descriptions]

    def stage(self) -> Dict[str, Any]:
        """Download and present everything that needs no mount; to be called in a forked task."""
        # Only jobs with inputs need them; see `startup.AFTER_START`.
        from jupyter_smx.agent.channels import stage_in  # noqa: PLC0415 - as said
        from jupyter_smx.agent.channels.channel_types import ChannelCapabilities  # noqa: PLC0415 - as said

        limit, known = self._limit(), self._host.input_hashes
        means = self._capabilities or ChannelCapabilities()
        return stage_in.stage(self._channels, self._folders, self._host.hidden, limit, known, means)

    def _limit(self) -> int:
        return self._host.config.input_hash_limit << 20

    def present(self, staged: Dict[str, Any]) -> str:
        """Mount what was staged; return an error message, or ""."""
        self._lazy, self.notes = staged["lazy"], staged["notes"]
        self._record(staged)
        objects = [request for request in staged["mounts"] if request["how"] == "objects"]
        try:
            self._host.mounts.mount_all(
                [request for request in staged["mounts"] if request not in objects],
                self._capabilities.store if self._capabilities else "",
            )
            for request in objects:
                self._serve(request)
        except OSError as error:
            return f"host: an input cannot be presented: {error.filename}: {error.strerror}."
        return ""

    def _serve(self, request: Dict[str, Any]) -> None:
        from jupyter_smx.agent.stores import fuse_mount  # noqa: PLC0415 - see `startup.AFTER_START`

        pid = fuse_mount.start_mount(request)
        self._host.mounts.add(request["target"])
        self._servers.append(pid)

        def ended(status: int) -> None:
            if pid in self._servers:
                self._servers.remove(pid)  # its PID may be reused, and must not be killed
                self.notes.append(
                    f"channel {request['channel']}: the process that reads it exited before the job "
                    f"(status {status}); see agent.log of the host."
                )

        self._host.loop.on_exit(pid, ended)

    def _record(self, result: Dict[str, Any]) -> None:
        self._descriptions.update((one["channel"], one) for one in result["inputs"])
        digest.remember_digests(self._host.input_hashes, result["fresh"])

    # Beside the job

    def describe_lazy(self) -> None:
        """List the content of lazy channels, after the job has started."""
        if self._lazy:
            self._describe_task = ForkedTask(self._host.loop, self._describe, self._on_described)

    def _describe(self) -> Dict[str, Any]:
        from jupyter_smx.agent.channels import stage_in  # noqa: PLC0415 - see `startup.AFTER_START`

        others = sum(one["files"] for one in self._descriptions.values() if one["method"] == "content")
        return stage_in.describe_lazy(self._lazy, self._folders, self._limit(), self._host.input_hashes, others)

    @ends_job_on_error
    def _on_described(self, result: Optional[Dict[str, Any]], error: str) -> None:
        self._describe_task = None
        if result is None:
            self._record_undescribed(f"It could not be looked at ({error}).")
        else:
            self._record(result)
        self._notify_waiter()

    def _record_undescribed(self, reason: str) -> None:
        for name in self._lazy:
            self._descriptions.setdefault(name, dict(digest.unknown_description(name), reason=reason))

    def call_when_described(self, done: Callable[[], None]) -> None:
        """Call when nothing is looked at any more; the job is over."""
        self._waiter = done
        if self._describe_task is None:
            self._notify_waiter()
        else:
            self._timeout = self._host.loop.later(_PATIENCE, self._on_timeout)

    @ends_job_on_error
    def _on_timeout(self) -> None:
        if self._describe_task is not None:
            self._describe_task.cancel()
            self._describe_task = None
            self._record_undescribed(f"It could not be looked at within {_PATIENCE:.0f} s of the job's end.")
        self._notify_waiter()

    def _notify_waiter(self) -> None:
        if self._timeout is not None and self._waiter is not None:
            self._timeout.cancel()
        waiting, self._waiter = self._waiter, None
        if waiting is not None:
            waiting()

    def close(self) -> None:
        """Stop descriptions and servers: the job is over."""
        servers, self._servers = self._servers, []
        process.kill(servers)
        if self._describe_task is not None:
            self._describe_task.cancel()
            self._describe_task = None
