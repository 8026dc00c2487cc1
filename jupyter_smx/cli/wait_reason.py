"""Print what a job waits for before its code runs, as one sentence whenever it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.kernel.client.autostart import retry_while_unavailable
from jupyter_smx.model.records.summary import summary_of
from jupyter_smx.model.status import SecondaryStatus, is_final, message_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.cli.subcommand import CliContext
    from jupyter_smx.model.records.job import Job

_COLD_START_STEPS = (SecondaryStatus.PENDING, SecondaryStatus.STARTING)
"""Steps of every cold start, whose usual sentence is no news."""


def wait_reporter(context: CliContext, job_id: str) -> Callable[[], None]:
    """Return a function that prints on stderr what a job waits for, if that has changed since the last call."""
    waiting = WaitReason()

    def report() -> None:
        if news := waiting.new_reason(retry_while_unavailable(lambda: context.client.job(job_id))):
            context.output.info(news)

    return report


class WaitReason:
    """Remembers the last reason that was printed for one job."""

    def __init__(self) -> None:
        self._last_reason = ""

    def new_reason(self, job: Job) -> str:
        """Return what a job waits for; "" if that was returned already, or its code runs, or it is over."""
        said = wait_reason(job)
        if said == self._last_reason:
            return ""
        self._last_reason = said
        return said


def wait_reason(job: Job) -> str:
    """Return what a job waits for before its first line, "" if for nothing, or only for the start of its hosts."""
    if "first_line" in job.timings or is_final(job.state):
        return ""
    if job.state in _COLD_START_STEPS and not job.cluster and job.why is not None and job.why.start == "queued":
        return job.why.sentence
    said = summary_of(job).message
    return "" if job.state in _COLD_START_STEPS and said == message_of(job.state) else said
