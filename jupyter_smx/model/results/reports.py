"""Reports on a job: why its start was warm or cold, its bill, and advice for the next run."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Difference(Struct, frozen=True, kw_only=True):
    """One warm pool that could not be reused: the field, the value that the job needs, the value of the pool."""

    pool: str
    field: str
    wanted: str
    found: str


class EngineInfo(Struct, frozen=True, kw_only=True):
    """Facts of an engine for a submitter: the machine of ``--python``'s interpreters.

    ``same_paths`` is True if its hosts see the files of the submitter's machine, so that none is sent.
    ``images`` is True if its hosts are made of the image that the job names. ``keep_alive_cap`` is the longest
    keep-alive in seconds that the administrator allows. ``aws_front`` says how jobs reach the front for clients of AWS:
    they do not, at the machine's loopback, by relays of agents, or not because all networks are isolated. A controller
    from before this field does not say it: "".
    """

    name: str
    interpreters: Literal["local", "remote"] = "local"
    same_paths: bool = True
    images: bool = False
    keep_alive_cap: int = 21_600
    aws_front: Literal["", "none", "loopback", "relay", "isolated"] = ""


class EngineNames(Struct, frozen=True, kw_only=True):
    """Names that the line of a job may have: engines, and what options of a job name on one engine.

    ``targets`` are machines that may follow the colon of ``--engine``, and ``interpreters`` named environments.
    ``options`` are the names that ``--engine-option`` may have, each with known values.
    """

    engines: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    interpreters: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()
    options: dict[str, tuple[str, ...]] = {}


class PlannedFiles(Struct, frozen=True, kw_only=True):
    """Files to be sent to hosts of another machine for a job, unless they have them already.

    ``kind`` is "variables", "source folder", "channel NAME" or "requirements", and ``name`` the variables, a path, or
    the requirements, which have no files: they are installed there. ``size`` is in bytes. ``is_partial`` is True if
    there are more files than were counted.
    """

    kind: str
    name: str
    files: int = 0
    size: int = 0
    is_partial: bool = False


class Why(Struct, frozen=True, kw_only=True):
    """Warm or cold, in one sentence, with the exact fields that differed for each pool that was passed over."""

    start: Literal["warm", "cold", "queued", "none"]
    sentence: str
    pool: str = ""
    reused_from: str = ""
    differences: tuple[Difference, ...] = ()
    isolation: str = ""
    notes: tuple[str, ...] = ()


class GroupBill(Struct, frozen=True, kw_only=True):
    """The part of a job's bill that one of its instance groups has; None where its price is not known.

    ``price_per_hour`` is that of all its hosts. A group that helps another one (``until``) is billed as long as the job
    is: its hosts are the job's until the end.
    """

    name: str
    instance_type: str
    instance_count: int
    price_per_hour: float | None
    cost: float | None
    until: str = ""


class Bill(Struct, frozen=True, kw_only=True):
    """Dollars per hour of all its hosts, the seconds that count, and the sum; None where a price is not known.

    ``training_seconds`` are those in which it ran, in all its attempts, and ``billable_seconds`` those of them that are
    charged (SageMaker's ``TrainingTimeInSeconds`` and ``BillableTimeInSeconds``, of one instance); ``retained_seconds``
    those in which its pool stood idle after it, so far. ``cost_per_step`` is what all hosts cost while one step is done
    that the job counts: ``price_per_hour`` × ``step_seconds`` / 3600; None where it counts none. ``steps`` are done.
    ``groups`` are the parts of price and sum. ``platform_usage`` is a sentence
    with the figures of the platform; only the last job of hosts that have ended has it.
    """

    price_per_hour: float | None
    billable_seconds: float
    retained_seconds: float
    cost: float | None
    steps: float | None = None
    step_seconds: float | None = None
    cost_per_step: float | None = None
    training_seconds: float = 0.0
    groups: tuple[GroupBill, ...] = ()
    platform_usage: str = ""

    def savings(self) -> float | None:
        """Return the percentage that managed spot saves, as SageMaker defines it; None before the first run."""
        if self.training_seconds <= 0:
            return None
        return (1 - self.billable_seconds / self.training_seconds) * 100


class Advice(Struct, frozen=True, kw_only=True):
    """Finding of one rule on one host: its SageMaker name, a sentence with the numbers, and a prediction.

    ``prediction`` is the benefit and its assumptions, "" if unknown. ``numbers`` are those
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
