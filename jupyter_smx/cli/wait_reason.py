"""What a job waits for before its code runs, as one sentence whenever that is news."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.kernel.client.retry import through_outage
from jupyter_smx.model.records.summary import summary_of
from jupyter_smx.model.status import SecondaryStatus, is_final, message_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.cli.subcommand import Desk
    from jupyter_smx.model.records.job import Job

_ORDINARY = (SecondaryStatus.PENDING, SecondaryStatus.STARTING)
"""Steps of every cold start, whose usual sentence is no news."""


def teller(desk: Desk, job_id: str) -> Callable[[], None]:
    """Give what tells on stderr what a job waits for, each time that it is called and there is news."""
    waiting = Waiting()

    def tell() -> None:
        if news := waiting.news(through_outage(lambda: desk.client.job(job_id))):
            desk.output.say(news)

    return tell


class Waiting:
    """Remembers what was told of one job."""

    def __init__(self) -> None:
        self._told = ""

    def news(self, job: Job) -> str:
        """Say what a job waits for; "" where that was said already, or its code runs, or it is over."""
        said = waits_for(job)
        if said == self._told:
            return ""
        self._told = said
        return said


def waits_for(job: Job) -> str:
    """Say what stands between a job and its first line, "" where nothing does or its hosts only come up."""
    if "first_line" in job.timings or is_final(job.state):
        return ""
    if job.state is SecondaryStatus.PENDING and job.why is not None and job.why.start == "queued":
        return job.why.sentence
    said = summary_of(job).message
    return "" if job.state in _ORDINARY and said == message_of(job.state) else said
