"""A driver's library for ``pynvml``: its C functions, filling the module's own structures; no GPU is behind it.

The answers have the shapes that NVML documents. They were written by hand, not recorded: no GPU was at hand.
"""

# ruff: noqa: N802 - the names are those of the functions of the library

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pynvml as nvml

if TYPE_CHECKING:
    from collections.abc import Sequence

MIB = 1 << 20
NOT_AVAILABLE = (1 << 64) - 1


@dataclass
class Card:
    """A GPU, or a part of one; ``fails`` maps names of functions to what they return instead.

    As a whole it is ``busy`` (percent); of its memory its processes have ``used``, and the driver ``reserved``.
    """

    uuid: str
    name: str = "NVIDIA H100 80GB HBM3"
    total: int = 81_559 * MIB
    compute: dict[int, int] = field(default_factory=dict)
    graphics: dict[int, int] = field(default_factory=dict)
    samples: list[tuple[int, int, int]] = field(default_factory=list)
    parts: list[Card | None] = field(default_factory=list)
    fails: dict[str, int] = field(default_factory=dict)
    busy: int = 0
    used: int = 0
    reserved: int = 0


class Driver:
    """The library; handles are 1, 2, 3, … for GPUs and their parts."""

    def __init__(self, cards: Sequence[Card]) -> None:
        self.cards = list(cards)
        self.handles: list[Card] = [*cards, *(part for card in cards for part in card.parts if part is not None)]
        self.asked_since: list[int] = []
        self.init = nvml.NVML_SUCCESS
        self.inits = 0

    def __getattr__(self, name: str) -> Any:
        known = getattr(type(self), f"do_{name}", None)
        if known is None:
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            card = self._card(arguments[0]) if arguments and isinstance(arguments[0], nvml.c_nvmlDevice_t) else None
            if card is not None and name in card.fails:
                return card.fails[name]
            found: int = known(self, *([card, *arguments[1:]] if card is not None else arguments))
            return found

        return call

    def _card(self, handle: Any) -> Card:
        return self.handles[ctypes.cast(handle, ctypes.c_void_p).value - 1]  # type: ignore[operator]

    def _give(self, card: Card, handle: Any) -> int:
        number = ctypes.c_void_p(self.handles.index(card) + 1)
        ctypes.memmove(ctypes.addressof(handle._obj), ctypes.addressof(number), ctypes.sizeof(number))
        return int(nvml.NVML_SUCCESS)

    def do_nvmlInitWithFlags(self, _flags: int) -> int:
        self.inits += 1
        return self.init

    def do_nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = len(self.cards)
        return int(nvml.NVML_SUCCESS)

    def do_nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:
        card = self.cards[index.value]
        return card.fails.get("handle") or self._give(card, handle)

    def do_nvmlDeviceGetMigMode(self, card: Card, current: Any, pending: Any) -> int:
        current._obj.value = pending._obj.value = int(bool(card.parts))
        return int(nvml.NVML_SUCCESS)

    def do_nvmlDeviceGetMaxMigDeviceCount(self, card: Card, count: Any) -> int:
        count._obj.value = len(card.parts)
        return int(nvml.NVML_SUCCESS)

    def do_nvmlDeviceGetMigDeviceHandleByIndex(self, card: Card, index: Any, handle: Any) -> int:
        part = card.parts[index.value]
        return int(nvml.NVML_ERROR_NOT_FOUND) if part is None else self._give(part, handle)

    def do_nvmlDeviceGetUUID(self, card: Card, buffer: Any, _size: Any) -> int:
        buffer.value = card.uuid.encode()
        return int(nvml.NVML_SUCCESS)

    def do_nvmlDeviceGetName(self, card: Card, buffer: Any, _size: Any) -> int:
        buffer.value = card.name.encode()
        return int(nvml.NVML_SUCCESS)

    def do_nvmlDeviceGetMemoryInfo(self, card: Card, memory: Any) -> int:
        memory._obj.total, memory._obj.used = card.total, card.used + card.reserved
        return int(nvml.NVML_SUCCESS)

    def do_nvmlDeviceGetMemoryInfo_v2(self, card: Card, memory: Any) -> int:
        memory._obj.total, memory._obj.used, memory._obj.reserved = card.total, card.used, card.reserved
        return int(nvml.NVML_SUCCESS)

    def do_nvmlDeviceGetUtilizationRates(self, card: Card, rates: Any) -> int:
        rates._obj.gpu = card.busy
        return int(nvml.NVML_SUCCESS)

    def do_nvmlDeviceGetComputeRunningProcesses_v3(self, card: Card, count: Any, rows: Any) -> int:
        return self._processes(card.compute, count, rows)

    def do_nvmlDeviceGetGraphicsRunningProcesses_v3(self, card: Card, count: Any, rows: Any) -> int:
        return self._processes(card.graphics, count, rows)

    @staticmethod
    def _processes(running: dict[int, int], count: Any, rows: Any) -> int:
        if count._obj.value < len(running):
            count._obj.value = len(running)
            return int(nvml.NVML_ERROR_INSUFFICIENT_SIZE)
        for row, (pid, used) in zip(rows or (), running.items(), strict=False):
            row.pid, row.usedGpuMemory = pid, used
        count._obj.value = len(running)
        return int(nvml.NVML_SUCCESS)

    def do_nvmlDeviceGetProcessUtilization(self, card: Card, rows: Any, count: Any, since: Any) -> int:
        found = [sample for sample in card.samples if sample[1] > since.value]
        if not found:
            return int(nvml.NVML_ERROR_NOT_FOUND)
        if rows is None:
            self.asked_since.append(since.value)
            count._obj.value = len(found)
            return int(nvml.NVML_ERROR_INSUFFICIENT_SIZE)
        for row, (pid, at, percent) in zip(rows, found, strict=False):
            row.pid, row.timeStamp, row.smUtil = pid, at, percent
        return int(nvml.NVML_SUCCESS)
