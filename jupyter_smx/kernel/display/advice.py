"""``job.advice`` and its page: what the rules found, with their numbers and what they predict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.kernel.text.pages import Page, text_page

if TYPE_CHECKING:
    from jupyter_smx.model.results.advice import JobAdvice

_NOTHING = (
    "{job}: no rule found anything. CPUBottleneck and LowGPUUtilization look at hosts whose GPUs were measured, after "
    "their patience of 50 s and 500 s."
)


def advice_sentences(found: JobAdvice) -> list[str]:
    """Give a sentence for each rule, with its prediction where there is one."""
    return [f"{one.sentence} {one.prediction}".strip() for one in found.advice]


def advice_page(found: JobAdvice) -> Page:
    """Say what the rules found, or that they found nothing."""
    return text_page("\n".join(advice_sentences(found)) or _NOTHING.format(job=found.job))
