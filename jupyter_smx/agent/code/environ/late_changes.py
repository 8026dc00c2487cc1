"""Notice in a job that its code changed a variable before it asked for a preloaded package that had read it."""

from __future__ import annotations

import os
from typing import Callable, Dict, List

from jupyter_smx.agent.code.environ import changes as environ_changes
from jupyter_smx.agent.code.environ import reads as environ_reads
from jupyter_smx.agent.code.environ.changes import BY_CODE, VariableChange


def contract_readers(names: Dict[str, str]) -> Dict[str, List[str]]:
    """Give the packages of this process that read what the contract of its job changes, and what that is.

    ``names`` are the variables of the contract; what other jobs of this host find and this one does not is one, too.
    """
    concerned = environ_reads.concerned({*names, *environ_reads.of_every_job()})
    changes = [VariableChange(name, os.environ.get(name), environ_changes.BY_JOB) for name in concerned]
    return environ_changes.readers(environ_reads.reads(), environ_changes.differing(changes, environ_reads.before()))


class LateChanges:
    """What the code of a job changes itself, compared when it asks for a preloaded package for the first time."""

    def __init__(self) -> None:
        self._begin = self._now()
        self._asked: List[str] = []
        self.readers: Dict[str, List[str]] = {}
        """Packages that the code asked for after it had changed what they read, and what that is."""

    @staticmethod
    def _now() -> Dict[object, object]:
        # To decode all of it takes longer than the start of a job may; where the code put another object there is none.
        return dict(getattr(os.environ, "_data", {}))

    def around(self, then: Callable[[str], None]) -> Callable[[str], None]:
        """Make a function that compares for a package and calls ``then``, whose own changes do not count."""

        def check(package: str) -> None:
            self.check(package)
            before = self._now()
            then(package)
            self._forgive(before)

        return check

    def _forgive(self, before: Dict[object, object]) -> None:
        now = self._now()
        for name in before.keys() | now.keys():
            if before.get(name) != now.get(name):
                self._begin.pop(name, None)
                self._begin.update({name: now[name]} if name in now else {})

    def check(self, package: str) -> None:
        """Compare, for a package that is asked for now and all that it needs."""
        before, now = tuple(self._asked), self._now()
        self._asked.append(package)
        if now == self._begin:
            return
        names = {name for name in {*now, *self._begin} if now.get(name) != self._begin.get(name)}
        texts = environ_reads.concerned(map(os.fsdecode, names))  # type: ignore[arg-type]
        changes = [VariableChange(name, os.environ.get(name), BY_CODE, imported=before) for name in texts]
        needed = [one for one in environ_reads.reads() if package in one.users]
        self.readers.update(environ_changes.readers(needed, environ_changes.differing(changes, environ_reads.before())))
