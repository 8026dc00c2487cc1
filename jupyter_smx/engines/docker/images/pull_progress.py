"""Progress of an image download, from the lines of the daemon's stream. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

_CACHED, _PULLED = "Already exists", "Pull complete"
_DOWNLOADED_STATES = ("Verifying Checksum", "Download complete", "Extracting", _PULLED, _CACHED)
_WAITING_STATES = ("Pulling fs layer", "Waiting")
_DOWNLOADING = "Downloading"
_LAYER_STATES = (*_WAITING_STATES, _DOWNLOADING, *_DOWNLOADED_STATES)
"""States of layers; other lines have ids as well, which are tags."""
_MAX_LAYERS = 1_000
"""Layers; an image has 127 at most, and larger numbers are ignored."""
_MIB = 1 << 20
_SMALL_DOWNLOAD = 10 * _MIB


class _Layer(Struct):
    status: str = ""
    received: int = 0
    size: int = 0


class LayerProgress:
    """Progress of the layers of an image during a download."""

    def __init__(self) -> None:
        self._layers: dict[str, _Layer] = {}

    def update(self, line: Mapping[str, Any]) -> None:
        """Process one line; ignore unknown ones."""
        said, name = str(line.get("status", "")), str(line.get("id", ""))
        known = self._layers.get(name)
        if not name or (known is None and (said not in _LAYER_STATES or len(self._layers) >= _MAX_LAYERS)):
            return
        layer = self._layers.setdefault(name, _Layer())
        layer.status = said
        told = line.get("progressDetail")
        if said == _DOWNLOADING and isinstance(told, dict):
            layer.received, layer.size = _count(told.get("current")), max(layer.size, _count(told.get("total")))
        elif said in _DOWNLOADED_STATES:
            layer.received = layer.size

    def is_downloading(self) -> bool:
        """Return True if a layer is being downloaded: all layers of an up-to-date image exist already."""
        return any(layer.status != _CACHED for layer in self._layers.values())

    def format_progress(self) -> str:
        """Format the progress: ``3 of 7 layers (2 were here), 114 of 458 MiB``."""
        layers = [*self._layers.values()]
        if not layers:
            return "contacting its registry"
        here = sum(layer.status == _CACHED for layer in layers)
        done = here + sum(layer.status == _PULLED for layer in layers)
        reused = f" ({here} {'was' if here == 1 else 'were'} here)" if here else ""
        return f"{done} of {len(layers)} layers{reused}{self._format_amount(layers)}"

    @staticmethod
    def _format_amount(layers: list[_Layer]) -> str:
        open_ones = [layer for layer in layers if layer.status not in _DOWNLOADED_STATES]
        if not open_ones:
            return ", unpacking" if any(layer.status not in (_PULLED, _CACHED) for layer in layers) else ""
        got, size = sum(layer.received for layer in layers), sum(layer.size for layer in layers)
        if not size:
            return ""
        # The daemon reports the sizes of the other layers only when their download begins.
        least = "" if all(layer.size for layer in open_ones) else "at least "
        digits = 0 if size >= _SMALL_DOWNLOAD else 1
        return f", {got / _MIB:.{digits}f} of {least}{size / _MIB:.{digits}f} MiB"


def _count(value: object) -> int:
    return max(0, value) if isinstance(value, int) else 0
