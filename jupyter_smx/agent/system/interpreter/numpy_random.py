"""Find numpy's generators that were made without a seed while a zygote imported its modules, and seed them again.

Their types are compiled, so seeds that are passed to them cannot be observed. But numpy draws all entropy of the
system by ``secrets.randbits``, so the draws during the imports are known. A generator has no seed if its state
follows from such a draw.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional, Set

_SOURCE = "numpy.random.bit_generator"
_BLOCK = 624
"""Draws after which a Mersenne Twister has another state."""
_BLOCKS = 64
"""States of a Mersenne Twister that are compared; a module that draws more numbers at its import is not known."""
_KEY = 8
"""Numbers of a state by which it is known."""
_STEPS = 1 << 20
"""Draws of SFC64 that are made again at most."""


class NumpyGenerators:
    """Numpy's random states, bit generators and seed sequences that have entropy of the system for a seed."""

    def __init__(self) -> None:
        self._drawn: Set[int] = set()
        self._original: Optional[Callable[[int], int]] = None
        self._sequences: List[Any] = []
        self._bit_generators: List[Any] = []
        self._random_states: List[Any] = []
        self._expanded: Set[int] = set()
        self._twister_states: Set[bytes] = set()

    def begin(self) -> None:
        """Note what numpy draws from the system, and take its global generator for unseeded."""
        import secrets  # noqa: PLC0415 - a zygote without preloads need not carry it

        original = self._original = secrets.randbits

        def randbits(k: int) -> int:
            number = original(k)
            self._drawn.add(number)
            return number

        self._replace(randbits)
        if "numpy.random.mtrand" in sys.modules:
            sys.modules["numpy.random"].seed()

    def end(self) -> None:
        """Note no longer, and find the generators to seed again."""
        if self._original is not None:
            self._replace(self._original)
        source = sys.modules.get(_SOURCE)
        if source is None:
            return
        state_type = sys.modules["numpy.random.mtrand"].RandomState
        for found in _instances((source.SeedSequence, source.BitGenerator, state_type)):
            if isinstance(found, source.SeedSequence):
                if self._is_drawn(found):
                    self._sequences.append(found)
            elif isinstance(found, source.BitGenerator):
                if self._is_unseeded(found):
                    self._bit_generators.append(found)
            elif self._is_unseeded(_bit_generator(found)):
                self._random_states.append(found)

    def is_global_seeded(self) -> bool:
        """Return True if something gave numpy's global generator a seed."""
        states = sys.modules.get("numpy.random.mtrand")
        if states is None or _SOURCE not in sys.modules:  # numpy before 1.17 does not show its draws
            return False
        return not self._is_unseeded(_bit_generator(states._rand))  # noqa: SLF001 - no public name

    def reseed(self) -> None:
        """Seed the global generator, and those without a seed, with new entropy of the system."""
        if "numpy.random.mtrand" in sys.modules:
            sys.modules["numpy.random"].seed()
        fresh: Dict[int, int] = {}
        for sequence in self._sequences:
            # Those of one family stay one: a sequence and what was spawned from it.
            entropy = fresh.setdefault(sequence.entropy, _entropy(4 * sequence.pool_size))
            counted = {"pool_size": sequence.pool_size, "n_children_spawned": sequence.n_children_spawned}
            sequence.__init__(entropy, spawn_key=sequence.spawn_key, **counted)
        for generator in self._bit_generators:
            # Without a sequence, as after ``seed()``, it draws itself.
            generator.state = type(generator)(_seed_sequence(generator)).state
        for state in self._random_states:
            state.set_state(dict(state.get_state(legacy=False), has_gauss=0, gauss=0.0))

    @staticmethod
    def _replace(function: Callable[[int], int]) -> None:
        for name in ("secrets", _SOURCE):
            if name in sys.modules:
                setattr(sys.modules[name], "randbits", function)  # noqa: B010 - type checkers take it for a constant

    def _is_drawn(self, sequence: Any) -> bool:
        entropy = getattr(sequence, "entropy", None)
        return isinstance(entropy, int) and entropy in self._drawn

    def _is_unseeded(self, generator: Any) -> bool:
        """Return True if the state of a bit generator follows from entropy that was drawn."""
        if type(generator).__name__ == "MT19937":
            # ``seed()`` of a random state draws again, and drops the sequence of its beginning.
            self._expand(type(generator))
            return _key(generator) in self._twister_states
        sequence = _seed_sequence(generator)
        return self._is_drawn(sequence) and _follows(generator, type(generator)(sequence))

    def _expand(self, twister: Any) -> None:
        """Compute the states of Mersenne Twisters that were seeded with what was drawn since the last call."""
        for number in self._drawn - self._expanded:
            fresh = twister(sys.modules[_SOURCE].SeedSequence(number))
            for _ in range(_BLOCKS):
                self._twister_states.add(_key(fresh))
                fresh.random_raw(_BLOCK, output=False)
        self._expanded |= self._drawn


def _entropy(size: int) -> int:
    return int.from_bytes(os.urandom(size), "big")


def _instances(kinds: Any) -> Iterator[Any]:
    """Find all objects of some types; not by ``isinstance`` alone, which runs code of proxies."""
    return (one for one in gc.get_objects() if issubclass(type(one), kinds))


def _seed_sequence(generator: Any) -> Any:
    return getattr(generator, "_seed_seq", None)  # public since numpy 1.25


def _bit_generator(state: Any) -> Any:
    return getattr(state, "_bit_generator", None)


def _follows(generator: Any, fresh: Any) -> bool:
    """Return True if a bit generator has the state of ``fresh``, one of the same type, or a later state of it."""
    ours, theirs = generator.state["state"], fresh.state["state"]
    for constant in ("inc", "key"):  # of PCG64 and Philox; draws do not change them
        if constant in ours:
            return _equal(ours[constant], theirs[constant])
    if type(generator).__name__ == "SFC64":
        ahead = int(ours["state"][-1]) - int(theirs["state"][-1])
        if 0 < ahead <= _STEPS:
            fresh.random_raw(ahead, output=False)
            theirs = fresh.state["state"]
    return all(_equal(ours[name], theirs[name]) for name in ours)


def _key(twister: Any) -> bytes:
    """Return the beginning of the state of a Mersenne Twister, which is enough to identify it."""
    key: bytes = twister.state["state"]["key"][:_KEY].tobytes()
    return key


def _equal(one: Any, other: Any) -> bool:
    return bool((one == other).all()) if hasattr(one, "all") else bool(one == other)
