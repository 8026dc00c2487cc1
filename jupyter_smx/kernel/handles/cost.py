"""``job.cost``: dollars and their parts, dollars for each step, and the savings of managed spot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.kernel.text.pages import text_page
from jupyter_smx.model.status import is_final
from jupyter_smx.model.text import format_duration, format_precise, format_usd

if TYPE_CHECKING:
    from typing_extensions import Self

    from jupyter_smx.kernel.client.client import Client
    from jupyter_smx.kernel.text.tables import Page
    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.results.reports import Bill, GroupBill


class Cost(float):
    """US dollars, a float like any other; ``bill`` has its lines, ``cost_per_step`` is dollars for one step."""

    bill: Bill

    def __new__(cls, dollars: float, bill: Bill) -> Self:
        """Make it of the sum and its lines."""
        made = super().__new__(cls, dollars)
        made.bill = bill
        return made

    @property
    def per_step(self) -> float | None:
        """US dollars for one step, while steps are done; None where the job counts none."""
        return self.bill.cost_per_step

    def __getnewargs__(self) -> tuple[float, Bill]:  # type: ignore[override]  # float's has the number only
        """Return the arguments for copies and pickles."""
        return float(self), self.bill

    def __repr__(self) -> str:
        """Write the sum, and what one step costs."""
        return ", ".join(word for word in (format_usd(float(self)), format_step_cost(self.bill)) if word)


def format_step_cost(bill: Bill) -> str:
    """Format the cost of a step with its unit, e.g. ``$0.00108 per step``; empty if it is unknown."""
    return "" if bill.cost_per_step is None else f"{format_usd(bill.cost_per_step)} per step"


def _format_amount(amount: float | None) -> str:
    return "unknown" if amount is None else format_usd(amount)


def _format_rate(price_per_hour: float) -> str:
    return f"{format_usd(price_per_hour)} per hour"


def _format_group(group: GroupBill) -> str:
    """Format one group's part, as ``data: ml.c5.xlarge × 2, $0.41 per hour, $0.0122, helps dnn``."""
    price = (
        "price unknown"
        if group.price_per_hour is None
        else f"{_format_rate(group.price_per_hour)}, {_format_amount(group.cost)}"
    )
    helps = f", helps {group.until}" if group.until else ""
    return f"{group.name}: {group.instance_type} × {group.instance_count}, {price}{helps}"


def cost_page(name: str, bill: Bill) -> Page:
    """Format the bill of a job, line by line."""
    rate = "unknown" if bill.price_per_hour is None else f"{_format_rate(bill.price_per_hour)} for all hosts"
    lines = [f"{name}: {_format_amount(bill.cost)}", f"  price: {rate}"]
    if len(bill.groups) > 1:
        lines += [f"  group {_format_group(group)}" for group in bill.groups]
    if bill.training_seconds > bill.billable_seconds:
        saved = f"{bill.savings():.1f} % saved by managed spot"
        lines.append(f"  running time: {format_duration(bill.training_seconds)}, {saved}")
    lines.append(f"  billed time: {format_duration(bill.billable_seconds)}")
    if bill.retained_seconds:
        lines.append(f"  idle time of pool: {format_duration(bill.retained_seconds)}")
    if bill.platform_usage:
        lines.append(f"  accounted: {bill.platform_usage}")
    if bill.step_seconds is not None:
        cost = format_step_cost(bill) or "cost per step unknown"
        lines.append(f"  steps: {bill.steps:g} so far, {format_precise(bill.step_seconds)} each, {cost}")
    return text_page("\n".join(lines))


def format_savings(bill: Bill, hosts: int) -> str:
    """Return the lines about savings of a job on ``hosts`` hosts, whose seconds are added up."""
    lines = [
        f"Training seconds: {round(bill.training_seconds * hosts)}",
        f"Billable seconds: {round(bill.billable_seconds * hosts)}",
    ]
    saved = bill.savings()
    if saved is not None:
        lines.append(f"Managed Spot Training savings: {saved:.1f}%")
    return "".join(f"{line}\n" for line in lines)


def format_job_savings(client: Client, job: Job) -> str:
    """Return the lines about savings of a finished spot job, and "" for any other job."""
    if not job.spec.spot or not is_final(job.state):
        return ""
    return format_savings(client.job_bill(job.id).bill, job.spec.instance_count())
