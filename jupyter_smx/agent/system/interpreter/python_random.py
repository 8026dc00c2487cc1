"""Note which generators of Python's :mod:`random` were made without a seed while a zygote imported its modules."""

from __future__ import annotations

import random
import weakref
from typing import Any, Callable, Dict, List

_METHODS = ("seed", "getstate", "setstate")
_GLOBAL: random.Random = random._inst  # noqa: SLF001 - what the module's functions use


class PythonGenerators:
    """Generators of :class:`random.Random` and its subclasses that have entropy of the system for a seed.

    A generator is one of them from a call of ``seed()`` without a value, to the next call with one. A state that is set
    counts as given, unless it was read from one of these generators.
    """

    def __init__(self) -> None:
        self._unseeded: Dict[int, "weakref.ref[random.Random]"] = {}
        self._states: List[Any] = []
        self._originals: Dict[str, Callable[..., Any]] = {}

    def begin(self) -> None:
        """Watch all generators, and take Python's global one for unseeded."""
        self._originals = {name: getattr(random.Random, name) for name in _METHODS}
        # setattr, since type checkers take methods for constants.
        setattr(random.Random, "seed", self._seed_method())  # noqa: B010
        setattr(random.Random, "getstate", self._getstate_method())  # noqa: B010
        setattr(random.Random, "setstate", self._setstate_method())  # noqa: B010
        self._bind_global_functions()
        self._note(_GLOBAL, is_unseeded=True)

    def end(self) -> None:
        """Watch no longer; the generators that are known now are the ones to seed again."""
        for name, method in self._originals.items():
            setattr(random.Random, name, method)
        self._originals = {}
        self._states = []
        self._bind_global_functions()

    def is_global_seeded(self) -> bool:
        """Return True if something gave Python's global generator a seed."""
        return id(_GLOBAL) not in self._unseeded

    def reseed(self) -> None:
        """Seed the global generator, and those without a seed, with new entropy of the system."""
        random.seed()
        for reference in list(self._unseeded.values()):
            generator = reference()
            if generator is not None and generator is not _GLOBAL:
                generator.seed()

    @staticmethod
    def _bind_global_functions() -> None:
        """Bind the functions of the module to the methods of the current class."""
        for name in _METHODS:
            setattr(random, name, getattr(_GLOBAL, name))

    def _note(self, generator: random.Random, *, is_unseeded: bool) -> None:
        key = id(generator)
        if is_unseeded:
            self._unseeded[key] = weakref.ref(generator, lambda _gone: self._unseeded.pop(key, None))
        else:
            self._unseeded.pop(key, None)

    def _seed_method(self) -> Callable[..., None]:
        original = self._originals["seed"]

        def seed(generator: random.Random, a: Any = None, version: int = 2) -> None:
            original(generator, a, version)
            self._note(generator, is_unseeded=a is None)

        return seed

    def _getstate_method(self) -> Callable[..., Any]:
        original = self._originals["getstate"]

        def getstate(generator: random.Random) -> Any:
            state = original(generator)
            if id(generator) in self._unseeded:
                self._states.append(state)
            return state

        return getstate

    def _setstate_method(self) -> Callable[..., None]:
        original = self._originals["setstate"]

        def setstate(generator: random.Random, state: Any) -> None:
            original(generator, state)
            self._note(generator, is_unseeded=state in self._states)

        return setstate
