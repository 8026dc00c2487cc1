"""Capabilities of engines; those of engines that are missing or partly installed are empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.engines.base import DEFAULT_OBSERVE_INTERVAL, Capabilities
from jupyter_smx.model.errors import SmxError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from jupyter_smx.engines.base import Engine
    from jupyter_smx.model.records.cluster import Cluster
    from jupyter_smx.model.spec.job_spec import JobSpec


def capabilities_of(engine_of: Callable[[str], Engine], engine: str) -> Capabilities:
    """Return the capabilities of an engine."""
    try:
        return engine_of(engine).capabilities
    except SmxError:
        return Capabilities()


def observe_interval_of(engine_of: Callable[[str], Engine], engine: str) -> float:
    """Return the seconds between two observations of an engine's hosts."""
    try:
        return float(engine_of(engine).observe_interval)
    except SmxError:
        return DEFAULT_OBSERVE_INTERVAL


def slots_of(engine_of: Callable[[str], Engine], engine: str) -> int | None:
    """Return the maximum number of an engine's hosts at once; None without a limit of its own."""
    try:
        return engine_of(engine).slots()
    except SmxError:
        return None


def isolating_engines(engine_of: Callable[[str], Engine], engines: Collection[str]) -> list[str]:
    """Name the engines that can close the network of their hosts."""
    return [engine for engine in engines if capabilities_of(engine_of, engine).network_isolation]


def image_arguments(spec: JobSpec) -> dict[str, tuple[str, ...]]:
    """Return the keywords for an engine's methods for images; none for a job that follows no setting of its image."""
    settings = spec.image_settings()
    return {"settings": settings} if settings else {}


def split_by_engine(
    engine_of: Callable[[str], Engine], clusters: Iterable[Cluster], engine: str
) -> tuple[tuple[Cluster, ...], tuple[Cluster, ...]]:
    """Part clusters into those of an engine, and those of others whose hosts share its machine with them."""
    mine: list[Cluster] = []
    others: list[Cluster] = []
    for cluster in clusters:
        if cluster.key.engine == engine:
            mine.append(cluster)
        elif capabilities_of(engine_of, cluster.key.engine).bounded_by_machine:
            others.append(cluster)
    return tuple(mine), tuple(others)
