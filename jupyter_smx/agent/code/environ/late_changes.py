"""Notice in a job that its code changed a variable before it asked for a preloaded package that had read it."""

from __future__ import annotations

import os
from typing import Callable, Dict, List

from jupyter_smx.agent.code.environ import changes as environ_changes
from jupyter_smx.agent.code.environ import reads as environ_reads
from jupyter_smx.agent.code.environ.changes import BY_CODE, VariableChange


def contract_readers(names: Dict[str, str]) -> Dict[str, List[str]]:
    """Return the packages of this process that read variables of the job's contract, with the variables.

    ``names`` are the variables of the contract. A variable that only other jobs of this host have counts, too.
    """
    concerned = environ_reads.concerned({*names, *environ_reads.of_every_job()})
    changes = [VariableChange(name, os.environ.get(name), environ_changes.BY_JOB) for name in concerned]
    return environ_changes.readers(environ_reads.reads(), environ_changes.differing(changes, environ_reads.before()))


class LateChanges:
    """Compares the environment at the first use of each preloaded package with the one at the job's begin."""

    def __init__(self) -> None:
        self._begin = self._now()
        self._asked: List[str] = []
        self.readers: Dict[str, List[str]] = {}
        """Packages that the code asked for after it had changed what they read, and what that is."""

    @staticmethod
    def _now() -> Dict[object, object]:
        # Decoding all of it takes too long for the start of a job. If the code replaced the object, it has no data.
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
