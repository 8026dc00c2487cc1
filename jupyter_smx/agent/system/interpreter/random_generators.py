"""Make each job's random numbers unique, also from generators that imported modules made without a seed.

A generator seeded with entropy of the system would draw the same numbers in each job of a zygote, unlike in separate
programs. A generator that was given a seed keeps its state: it draws the same numbers in every program.
"""

from __future__ import annotations

import os
import sys

from jupyter_smx.agent.system.interpreter.numpy_random import NumpyGenerators
from jupyter_smx.agent.system.interpreter.python_random import PythonGenerators

_python, _numpy = PythonGenerators(), NumpyGenerators()
_SMALLEST_DRAWN_SEED = 1 << 32
"""Seeds that torch draws have 53 bits, so one in two million is smaller; seeds that users set mostly are."""


def begin_watching() -> None:
    """Watch the generators that are made from now on; for a process that imports for jobs to come."""
    _python.begin()
    _numpy.begin()


def end_watching() -> None:
    """Find the generators that were made without a seed. To be called before the garbage collector is frozen."""
    _python.end()
    _numpy.end()


def seeded_library() -> str:
    """Name the library whose global generator was given a seed by an import, '' if there is none.

    A job that does not import that module would have the seed as well.
    """
    if _python.is_global_seeded():
        return "random"
    if _numpy.is_global_seeded():
        return "numpy.random"
    generator = getattr(sys.modules.get("torch"), "default_generator", None)
    if generator is not None and generator.initial_seed() < _SMALLEST_DRAWN_SEED:
        return "torch"
    return ""


def reseed() -> None:
    """Reseed the generators of this process, so that no other child of the same zygote draws the same numbers."""
    _python.reseed()
    _numpy.reseed()
    generator = getattr(sys.modules.get("torch"), "default_generator", None)
    if generator is not None:
        # torch.seed() walks all devices and takes ten times as long.
        generator.manual_seed(int.from_bytes(os.urandom(7), "big"))
