"""What the figures of a job say about how it could run better, by the rules of SageMaker's profiler."""

from __future__ import annotations

from msgspec import Struct


class Advice(Struct, frozen=True, kw_only=True):
    """One rule that found something on one host: its SageMaker name, a sentence with the numbers, and a prediction.

    ``prediction`` says what would be gained and what that assumes, "" where nothing can be said. ``numbers`` are those
    of both, by name: shares from 0 to 1, percents, seconds, US dollars.
    """

    rule: str
    host: str
    sentence: str
    prediction: str = ""
    numbers: dict[str, float] = {}


class JobAdvice(Struct, frozen=True, kw_only=True):
    """All that the rules found in one run of a job; more may come until ``is_final``."""

    job: str
    advice: tuple[Advice, ...] = ()
    is_final: bool = False
