"""Estimate how far the clock of a host is ahead of the controller's, from requests and their answers. Pure.

An answer has the host's time at some moment between the request and the answer. So the difference of the clocks is
known up to half of the round trip, and the shortest round trip gives the best estimate.
"""

from __future__ import annotations

from msgspec import Struct

RESOLUTION = 0.001
"""Seconds; a smaller difference of two clocks means nothing."""


class HostClock(Struct, frozen=True):
    """Seconds by which a host's clock is ahead, and by how many seconds that may be wrong."""

    ahead: float
    error: float

    def seconds(self) -> float:
        """Return the difference in seconds: 0.0 if the clocks may be the same."""
        return 0.0 if abs(self.ahead) <= self.error else self.ahead


def measure_host_clock(remote: float, sent: float, received: float, elapsed: float) -> HostClock:
    """Read one answer: ``remote`` is its clock; ``sent`` and ``received`` are of the controller's.

    ``elapsed`` seconds passed meanwhile by a clock that is never set. The other one may have been set between the two,
    or the machine may have slept: then the error is as large.
    """
    earliest, latest = min(sent, received - elapsed), max(received, sent + elapsed)
    return HostClock(remote - (earliest + latest) / 2, (latest - earliest) / 2 + RESOLUTION)


def best_host_clock(known: HostClock | None, new: HostClock) -> HostClock:
    """Return the better of two estimates; the new one if both cannot be true, because a clock was set or ran fast."""
    if known is None or new.error <= known.error:
        return new
    return new if abs(new.ahead - known.ahead) > new.error + known.error else known
