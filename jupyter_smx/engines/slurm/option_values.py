"""Values of ``--engine-option`` for completion: the last answers of Slurm, from this machine's disk."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from jupyter_smx.engines.slurm.parsers import Site
from jupyter_smx.model.errors import SmxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from jupyter_smx.engines.slurm.client import SlurmClient
    from jupyter_smx.engines.slurm.parsers import PartitionRow
    from jupyter_smx.engines.slurm.partition_store import PartitionStore

MIN_AGE = 600.0
"""Seconds for which an answer counts. A user presses Tab more often, and a scheduler serves many people."""


class OptionValues:
    """Holds the last answer, and queries Slurm in the background. ``clock`` returns seconds and only runs forward."""

    def __init__(self, client: SlurmClient, partitions: PartitionStore, path: Path, clock: Callable[[], float]) -> None:
        self._client = client
        self._partitions = partitions
        self._path = path
        self._clock = clock
        self._queried_at = float("-inf")
        self._site: Site | None = None
        self._task: asyncio.Task[None] | None = None

    def read(self) -> dict[str, tuple[str, ...]]:
        """Return known values by the name of the option, none before the first answer of Slurm."""
        return values_of(self._partitions.read(), self._read_site())

    def _read_site(self) -> Site:
        if self._site is None:
            self._site = Site()
            with suppress(OSError, msgspec.MsgspecError):
                self._site = msgspec.json.decode(self._path.read_bytes(), type=Site)
        return self._site

    def refresh_later(self) -> None:
        """Query Slurm in the background, unless it was queried in the last ten minutes. No connection is opened.

        A failure leaves the last answer.
        """
        if self._clock() - self._queried_at < MIN_AGE:
            return
        self._queried_at = self._clock()
        self._task = asyncio.create_task(self._refresh_quietly(), name="values of engine options")

    async def refresh_partitions(self) -> None:
        """Query the partitions, and store them.

        :raises UnavailableError: Slurm does not answer.
        """
        self._partitions.write(await self._client.partitions())

    async def _refresh(self) -> None:
        await self.refresh_partitions()
        self._site = await self._client.site(self._read_site())
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.write_bytes(msgspec.json.encode(self._site))

    async def _refresh_quietly(self) -> None:
        with suppress(SmxError):
            # A user at a Tab expects no prompt of ssh, and no connection to a machine that was left.
            if await self._client.login.is_connected():
                await self._refresh()
            else:
                self._queried_at = float("-inf")

    async def close(self) -> None:
        """Cancel a running query."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


def values_of(rows: Iterable[PartitionRow], site: Site) -> dict[str, tuple[str, ...]]:
    """Return values by the name of the option. Pure."""
    rows = [row for row in rows if row.is_up]
    gpus = [f"gpu:{row.gpu_kind}:{count}" for row in rows if row.gpu_kind for count in sorted({1, row.gpus})]
    return {
        "partition": tuple(dict.fromkeys(row.name for row in rows)),
        "account": site.accounts,
        "qos": site.qos,
        "gres": tuple(dict.fromkeys(gpus)),
        "constraint": site.features,
        "reservation": site.reservations,
        "exclusive": ("true", "false"),
        "heterogeneous": ("true", "false"),
        "renew": ("true", "false"),
    }
