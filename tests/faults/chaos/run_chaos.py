"""Run a loop, bursts or a soak from the command line; the exit code is 1 where something does not hold."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import chaos_namespaces

if TYPE_CHECKING:
    from collections.abc import Sequence

MARGIN = 420.0
"""Seconds for the start, for the wait until all jobs are final, and for the end."""
_SECONDS_A_JOB = 2.0
_SECONDS_A_KILL = 10.0


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("loop", "bursts", "soak"))
    parser.add_argument("--minutes", type=float, default=1.0, help="of a loop")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=2_000, help="jobs of bursts and of a soak")
    parser.add_argument("--kills", type=int, default=120, help="of the controller, in bursts")
    return parser.parse_args(words)


def _limit(asked: argparse.Namespace) -> float:
    """Give the seconds after which the whole run is ended."""
    if asked.what == "loop":
        return float(asked.minutes) * 60.0 + MARGIN
    return asked.count * _SECONDS_A_JOB + asked.kills * _SECONDS_A_KILL + MARGIN


def _act(asked: argparse.Namespace, folder: Path) -> int:
    # Imported here, since outside the namespaces nothing of the product is needed; and from this checkout.
    sys.path.insert(0, str(Path(__file__).parents[3]))
    import chaos_bursts  # noqa: PLC0415
    from chaos_loop import ChaosLoop  # noqa: PLC0415
    from chaos_world import ChaosWorld  # noqa: PLC0415

    world = ChaosWorld(folder, asked.seed)
    if asked.what == "loop":
        found = ChaosLoop(world).run(asked.minutes * 60.0)
    elif asked.what == "bursts":
        found = chaos_bursts.submit_under_kills(world, asked.count, asked.kills)
    else:
        found = chaos_bursts.soak(world, asked.count)
    for sentence in found:
        sys.stdout.write(f"BROKEN (seed {asked.seed}): {sentence}\n")
    return 1 if found else 0


def main(words: Sequence[str]) -> int:
    """Enter the namespaces, or act there."""
    asked = _parse(words)
    if chaos_namespaces.is_inside():
        return chaos_namespaces.run_inside(partial(_act, asked), asked.minutes)
    return chaos_namespaces.enter([__file__, *words], _limit(asked))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
