"""Why a start was warm or cold: the answer that every job carries."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Difference(Struct, frozen=True, kw_only=True):
    """One warm pool that was there and could not be taken: the field, what the job wants, what the pool has."""

    pool: str
    field: str
    wanted: str
    found: str


class Why(Struct, frozen=True, kw_only=True):
    """Warm or cold, in one sentence, with the exact fields that differed for each pool that was passed over."""

    start: Literal["warm", "cold", "queued", "none"]
    sentence: str
    pool: str = ""
    reused_from: str = ""
    differences: tuple[Difference, ...] = ()
    isolation: str = ""
    notes: tuple[str, ...] = ()
