"""What managed spot saved, in the words with which SageMaker's SDK ends its waiting for a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.model.status import is_final

if TYPE_CHECKING:
    from jupyter_smx.kernel.client.client import Client
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.results.bill import Bill


def format_savings(bill: Bill, hosts: int) -> str:
    """Give the lines for a job on so many hosts, whose seconds are added up."""
    lines = [
        f"Training seconds: {round(bill.training_seconds * hosts)}",
        f"Billable seconds: {round(bill.billable_seconds * hosts)}",
    ]
    saved = bill.savings()
    if saved is not None:
        lines.append(f"Managed Spot Training savings: {saved:.1f}%")
    return "".join(f"{line}\n" for line in lines)


def format_job_savings(client: Client, job: Job) -> str:
    """Give the lines for a spot job that is over, and nothing for any other."""
    if not job.spec.spot or not is_final(job.state):
        return ""
    return format_savings(client.job_bill(job.id).bill, job.spec.instance_count())
