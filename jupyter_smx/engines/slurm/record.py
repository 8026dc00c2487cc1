"""The record of a cluster's allocation on this machine; separate, because decisions and actions both need it."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from jupyter_smx.model.records.cluster import HostHandle


class AllocationRecord(Struct, frozen=True, kw_only=True):
    """What was, or will be, submitted for a cluster.

    ``components`` has the number of the component of each host, in the job's order; ``nodes`` its node, once there is
    one. ``submitted_at`` is when the last submission began, ``missed_since`` since when Slurm answers and lists no job
    of the name; seconds since the epoch. ``hosts`` are those that listen. ``ends_at`` is the end of the allocation,
    ``seconds`` its time limit, ``longest`` the longest one with its options (0: no limit), and ``notice`` how many
    seconds before the end jobs get their notice. With ``renew`` the pool goes on in another one. ``is_cancelled`` is
    set before this controller cancels the job.

    With ``job_per_group`` the cluster is a batch job for each component, and ``job`` is empty. ``group_jobs`` has their
    ids in the order of the components, "" for one whose submission has begun, none for those that follow.
    """

    name: str
    components: dict[str, int]
    submitted_at: float = 0.0
    missed_since: float = 0.0
    job: str = ""
    nodes: dict[str, str] = {}
    hosts: tuple[HostHandle, ...] = ()
    ends_at: float | None = None
    seconds: float = 0.0
    longest: float = 0.0
    notice: float = 0.0
    renew: bool = False
    is_cancelled: bool = False
    job_per_group: bool = False
    group_jobs: tuple[str, ...] = ()

    def group_count(self) -> int:
        """Return the number of components."""
        return len(set(self.components.values()))

    def parent_of(self, host: str) -> str:
        """Return the name of the step parent of a host, as ``parent_name`` of the module on the nodes builds it."""
        component, job = self.component_of(host), self.job_of(host)
        return job if component is None else f"{job}+{component}"

    def component_of(self, host: str) -> int | None:
        """Return the number of a host's component of its job; None in a job without components."""
        return self.components[host] if self.group_count() > 1 and not self.job_per_group else None

    def job_of(self, host: str) -> str:
        """Return the id of a host's job, once all are submitted."""
        return self.group_jobs[self.components[host]] if self.job_per_group else self.job

    def job_ids(self) -> tuple[str, ...]:
        """Return the ids of all jobs that are known."""
        return tuple(job for job in (self.job, *self.group_jobs) if job)

    def is_submitted(self) -> bool:
        """Return True if the id of each job is known."""
        return len(self.job_ids()) == (self.group_count() if self.job_per_group else 1)

    def next_group(self) -> int | None:
        """Return the component whose job has no id yet; None where one job has all."""
        return len(self.job_ids()) if self.job_per_group else None

    def has_begun(self) -> bool:
        """Return True if the submission of the next job has begun."""
        return len(self.group_jobs) > len(self.job_ids()) if self.job_per_group else self.submitted_at > 0.0

    def with_job(self, job: str, submitted_at: float) -> AllocationRecord:
        """Add the id of the next job; "" while its submission has no answer."""
        later = replace(self, submitted_at=submitted_at, missed_since=0.0)
        return replace(later, group_jobs=(*self.job_ids(), job)) if self.job_per_group else replace(later, job=job)
