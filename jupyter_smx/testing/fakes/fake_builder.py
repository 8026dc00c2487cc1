"""A builder of environments that builds nothing: it takes simulated time and counts its requests."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from jupyter_smx.agent.code.environment_build import READY, VENV
from jupyter_smx.controller.environments.build_process import BuildError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_smx.model.spec.job_spec import PythonEnvironment


class FakeBuilder:
    """Makes folders that look ready after ``seconds``.

    ``failing`` names requirements that cannot be had. ``begun`` and ``made`` count builds by folder, ``running`` has
    those under way, ``overlaps`` those that began while the same one was under way.
    """

    def __init__(self, seconds: float = 3.0) -> None:
        self.seconds = seconds
        self.broken_requirements: set[str] = set()
        self.start_counts: Counter[str] = Counter()
        self.build_counts: Counter[str] = Counter()
        self.running_builds: list[str] = []
        self.overlaps: list[str] = []

    async def build(
        self, folder: Path, python: str, environment: PythonEnvironment, say: Callable[[str], None]
    ) -> None:
        """Take the time of a build, and fail where that is asked for."""
        del python
        self.start_counts[folder.name] += 1
        if folder.name in self.running_builds:
            self.overlaps.append(folder.name)
        self.running_builds.append(folder.name)
        try:
            for line in environment.requirements:
                say(f"Collecting {line}")
                await asyncio.sleep(self.seconds / len(environment.requirements))
        finally:
            self.running_builds.remove(folder.name)
        # The process of a real build deletes it too, a moment after the build was requested.
        (folder / READY).unlink(missing_ok=True)
        if bad := self.broken_requirements.intersection(environment.requirements):
            raise BuildError(f"--requirements: {min(bad)} cannot be installed.", field="requirements")
        interpreter = folder / VENV / "bin" / "python"
        interpreter.parent.mkdir(parents=True, exist_ok=True)
        interpreter.touch()
        (folder / READY).touch()
        self.build_counts[folder.name] += 1
