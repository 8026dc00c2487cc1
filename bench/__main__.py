"""Print measured figures: warm starts, many jobs, memory, variables, inputs, GPUs, logs, pages, ranks, engines, AWS.

    python -m bench [warm] [round_trip] [many] [memory] [send] [s3] [input] [gpu] [log] [lab] [cards] [heterogeneous]
                    [torchrun] [docker] [ssh] [slurm] [aws [--sdk FOLDER] [--long]] [compare --other CHECKOUT]
                    [compare_pages --other CHECKOUT]
                    [--jobs 100] [--rounds 3] [--preload bare sklearn torch]

Every figure of a row comes from one run on one machine; quote the ratios, not the milliseconds.
"""

from __future__ import annotations

import argparse
import importlib

from bench.warm import PRELOADS

PARTS = (
    "warm",
    "round_trip",
    "many",
    "memory",
    "send",
    "s3",
    "input",
    "gpu",
    "log",
    "lab",
    "cards",
    "heterogeneous",
    "torchrun",
    "docker",
    "ssh",
    "slurm",
    "aws",
    "compare",
    "compare_pages",
)


def main() -> None:
    """Run the chosen parts, each in a data folder of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default all")
    parser.add_argument("--jobs", type=int, default=100, help="jobs of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--preload", nargs="*", choices=[*PRELOADS])
    parser.add_argument("--burst", type=int, default=1_000, help="jobs that are handed in at once")
    parser.add_argument("--soak", type=int, default=10_000, help="jobs over which memory is watched")
    parser.add_argument("--other", default="", help="another checkout, for compare, compare_pages and cards")
    parser.add_argument("--sdk", default="", help="a folder with SageMaker's Python SDK 2 and its packages, for aws")
    parser.add_argument("--long", action="store_true", help="wait for the end of a long job, too, for aws")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    for part in options.parts or PARTS:
        print(f"== {part}", flush=True)
        importlib.import_module(f"bench.{part}").run(options)


if __name__ == "__main__":
    main()
