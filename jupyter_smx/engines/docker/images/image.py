"""What an image is and whether hosts can be made of it: looked at once for each id, in a container for that."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from jupyter_smx.engines.base import NotHereError, Step
from jupyter_smx.engines.docker.containers import container_spec, probe_container
from jupyter_smx.engines.docker.daemon.daemon_client import NOT_THERE, DaemonError
from jupyter_smx.engines.docker.images import registry
from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.model.text import listed
from jupyter_smx.python_version import OLDEST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon
    from jupyter_smx.engines.docker.images.pull import Pulls

PYTHONS = ("python3", "python", "/opt/conda/bin/python", "/usr/local/bin/python3", "/usr/bin/python3")
_SAY = (
    "import array, ctypes, fcntl, hashlib, json, mmap, pickle, resource, select, socket, subprocess, sys, zlib; "
    "print(json.dumps(list(sys.version_info[:2])))"
)
"""Says the version, where all is there that an agent loads and that may be left out when a Python is built."""
_BOTH = "import os, sys; os.execvp(sys.argv[1], [sys.argv[1], '-I', '-c', sys.argv[2]])"
"""Jobs start with the image's variables for Python and agents without: it is seen whether it starts in both ways."""
_SECONDS = 60.0
"""Seconds that a Python may take to say which one it is."""
_STEP_SECONDS = 60.0
"""Seconds that the daemon may take to make a container, to start it, or to remove it."""
_MOMENT = 0.25
"""Seconds that somebody waits who can go on without the answer; one that is not busy takes a millisecond."""
_SAME = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
"""What machines call their processor, and what images call it."""
_NO_SUCH = (NOT_THERE, 400, 301)
"""Answers to the name of an image: there is none, there can be none, and it is no name but leads elsewhere."""
_ITS_OWN = 500
"""The least number by which a daemon says that something went wrong with itself; Podman before 6 has no other."""
_ERROR = re.compile(r"[\w.]*(Error|Exception)\b")
_GIST = 200
"""Characters of what somebody said that fit into a reason."""
_NO_PROGRAM = ("no such file", "executable file not found", "not a directory", "permission denied")


class Looked(Struct, frozen=True):
    """An image that was looked at: its id, the word that starts its Python, and what its registry calls it."""

    id: str
    python: str
    digest: str = ""
    volumes: tuple[str, ...] = ()
    """Folders that are none of the image's in its containers, but new ones, each on the disk of the daemon."""

    def called(self, name: str, told: Mapping[str, Any]) -> Looked:
        """Say of it where a registry has it under a name, which the daemon ``told``."""
        return replace(self, digest=registry.digest_of(name, told.get("RepoDigests")))


class Images:
    """The images of one daemon; remembers those that were looked at, for all daemons: an id never means another."""

    known: ClassVar[dict[str, Looked]] = {}

    def __init__(
        self,
        daemon: Daemon,
        labels: Mapping[str, str],
        user: Callable[[], str],
        seconds: float = _SECONDS,
        *,
        pulls: Pulls | None = None,
    ) -> None:
        self._daemon = daemon
        self._pulls = pulls
        self._labels = dict(labels)
        self._user = user
        self._seconds = seconds
        self._arch = ""
        self.under_way: set[str] = set()
        """Names of the containers that look at an image now."""

    async def obtain(self, name: str, say: Callable[[Step], None]) -> Looked:
        """Find an image as :meth:`look` does; one that is not there is downloaded first, where that may be.

        :raises RefusedError: it cannot be had, or hosts cannot be made of it; transient where its registry is away.
        :raises UnavailableError: the daemon does not answer.
        """
        try:
            return await self._obtain(name, say)
        except RefusedError as problem:
            meant = "" if problem.transient else await self._meant(name)
            if not meant:
                raise
            raise problem.with_cure(f"{meant} {problem.cure}") from problem

    async def _obtain(self, name: str, say: Callable[[Step], None]) -> Looked:
        pulls = self._pulls
        if pulls is None or not name:
            return await self.look(name, say)
        if pulls.is_due(name):
            await pulls.fetch(name, say, is_here=await self._is_here(name))
        try:
            return await self.look(name, say)
        except NotHereError:
            if not pulls.may_have(name):
                raise
        await pulls.fetch(name, say)
        return await self.look(name, say)

    async def glimpse(self, name: str) -> Looked | None:
        """Find an image as :meth:`look` does; None where it would be downloaded first.

        :raises RefusedError: it is not there and may not be downloaded, or hosts cannot be made of it.
        :raises UnavailableError: the daemon does not answer.
        """
        try:
            return await self.look(name, lambda _step: None)
        except NotHereError:
            if self._pulls is None or not self._pulls.may_have(name):
                raise
            return None

    async def look(self, name: str, say: Callable[[Step], None]) -> Looked:
        """Find an image that is there by its name or id, and see that hosts can be made of it.

        :raises RefusedError: it is not there, or hosts cannot be made of it.
        :raises UnavailableError: the daemon does not answer.
        """
        if not name:
            raise RefusedError(
                "image: no image is named.",
                field="image",
                rule="Each host of the docker engine is a container, which is made of an image.",
                cure="Name one with --image, or let the administrator set DockerEngine.image.",
            )
        try:
            told = await self._daemon.glance(_page(name))
        except DaemonError as problem:
            raise self._not_there(name, problem) from problem
        found = self.known.get(told["Id"])
        if found is None:
            await self._check_machine(name, told)
            say(Step("Looking for Python in the image"))
            volumes = _volumes(name, told)
            found = Looked(told["Id"], await self._find_python(name, told["Id"]), volumes=volumes)
            self.known[found.id] = found
        return found.called(name, told)

    async def recall(self, name: str) -> Looked | None:
        """Say which image a name means now; None where that takes longer than a moment, or it was not looked at."""
        if not name or (self._pulls is not None and self._pulls.is_due(name)):
            return None
        try:
            told = await self._daemon.glance(_page(name), _MOMENT)
        except (DaemonError, UnavailableError):
            return None
        found = self.known.get(told["Id"])
        return None if found is None else found.called(name, told)

    async def _is_here(self, name: str) -> bool:
        try:
            await self._daemon.glance(_page(name))
        except DaemonError:
            return False
        return True

    async def _meant(self, name: str) -> str:
        """Say which image that is there is called much like one that is not."""
        try:
            rows: list[dict[str, Any]] = await self._daemon.ask(lambda api: api.images())
        except (DaemonError, UnavailableError):
            return ""
        known = [tag for row in rows for tag in row.get("RepoTags") or () if not tag.startswith("<none>")]
        return registry.meant(name, known)

    def _not_there(self, name: str, problem: DaemonError) -> RefusedError | UnavailableError:
        if problem.status not in _NO_SUCH:
            return self._daemon.trouble("look at an image", problem)
        if problem.status != NOT_THERE:
            return _no_name(name, problem.words)
        kind = self._daemon.kind
        return NotHereError(
            f"image: {name!r} is not an image of {kind.name} at {self._daemon.url}.",
            field="image",
            value=name,
            rule=f"Hosts are made of images that this daemon has; {kind.program} images lists them.",
            cure=f"Bring it there with {kind.program} pull, {kind.program} load or {kind.program} build -t {name}, "
            "or name another one.",
        )

    async def _check_machine(self, name: str, told: Mapping[str, Any]) -> None:
        system, arch = told.get("Os") or "linux", told.get("Architecture") or ""
        if not self._arch:
            self._arch = str((await self._daemon.version()).get("Arch") or "")
        mine = _SAME.get(self._arch, self._arch)
        if system == "linux" and _SAME.get(arch, arch) in ("", mine):
            return
        pull = f"{self._daemon.kind.program} pull --platform linux/{mine}"
        raise RefusedError(
            f"image: {name!r} is made for {system}/{arch}.",
            field="image",
            value=name,
            rule=f"This machine runs linux/{mine} and nothing else.",
            cure=f"Name an image for linux/{mine}; {pull} chooses it.",
        )

    async def _find_python(self, name: str, image: str) -> str:
        seen: dict[tuple[int, str], list[str]] = {}
        for word in PYTHONS:
            code, words = await self._try(name, image, word)
            if code == NOT_THERE:
                continue
            version = _version(words) if code == 0 else (0, 0)
            if version >= OLDEST:
                return word
            said = f"Python {version[0]}.{version[1]}" if code == 0 else f"exit code {code}, {_gist(words)}"
            seen.setdefault((code, said), []).append(word)
        raise self._without_python(name, seen)

    def _without_python(self, name: str, seen: Mapping[tuple[int, str], list[str]]) -> RefusedError:
        """Refuse an image for what was ``seen`` of its Pythons: exit code and words, of those that these start."""
        failed = next((words[0] for (code, _said), words in seen.items() if code), "")
        found = "; ".join(f"{listed(words, most=len(words))}: {said}" for (_code, said), words in seen.items())
        return RefusedError(
            f"image: {name!r} has no Python that hosts can be run with"
            + (f" ({found})." if found else f" (none of {', '.join(PYTHONS)} is there)."),
            field="image",
            value=name,
            rule=f"An agent needs Python {OLDEST[0]}.{OLDEST[1]} or newer, and nothing else.",
            cure=self._shows(name, failed)
            if failed
            else "Name an image that has one on its PATH, or add it: RUN apt-get install -y python3.",
        )

    def _shows(self, name: str, word: str) -> str:
        return (
            f"{self._daemon.kind.program} run --rm --entrypoint {word} {name} -c 'import ctypes, zlib' says more; "
            "variables of the image, as PYTHONHOME, may be meant for another Python."
        )

    async def _try(self, name: str, image: str, word: str) -> tuple[int, str]:
        """Start one Python; gives its exit code and last words, 404 where there is no such program.

        :raises RefusedError: it says nothing for too long, which it may not do another time.
        :raises UnavailableError: the daemon starts no container at all, or does not answer.
        """
        words = [word, "-c", _BOTH, word, _SAY]
        config = probe_container.config(image, words, self._user(), self._labels, self._daemon.kind)
        async with probe_container.Probe(self._daemon, self.under_way, _STEP_SECONDS) as probe:
            try:
                await probe.start(config)
                code = await probe.ended(self._seconds)
                said = await self._daemon.ask(lambda api: api.logs(probe.name, stdout=True, stderr=True, tail=5))
            except asyncio.TimeoutError:
                # The daemon answers others meanwhile: it is the program that takes long, or the whole machine.
                await self._daemon.inspect(probe.name)
                raise self._too_slow(name, word) from None
            except DaemonError as problem:
                # Of what a daemon may not do itself it says the same, and names no program.
                if word in problem.words and any(sign in problem.words.lower() for sign in _NO_PROGRAM):
                    return NOT_THERE, ""
                # Nothing about the program: it would say so of any image, as one does that may make no control group.
                if problem.status >= _ITS_OWN and word not in problem.words:
                    raise self._daemon.trouble(f"start a container of image {name}", problem) from problem
                return problem.status, problem.words
        return code, said.decode(errors="replace").strip()

    def _too_slow(self, name: str, word: str) -> RefusedError:
        run = f"{self._daemon.kind.program} run --rm --entrypoint {word} {name} --version"
        return RefusedError(
            f"image: {word} of {name!r} took longer than {self._seconds:g} s to say which Python it is.",
            field="image",
            value=name,
            rule="That is tried once for each image, in a short-lived container, before hosts are made of it.",
            cure=f"It is tried again, for this machine may be busy; {run} tries the same.",
            transient=True,
        )


def _no_name(name: str, words: str) -> RefusedError:
    """Refuse what no image can be called: to build or download it fails as well."""
    scheme, rest, _ = name.partition("://")
    return RefusedError(
        f"image: {name!r} cannot be the name of an image{f' ({words})' if words else ''}.",
        field="image",
        value=name,
        rule=registry.NAMES,
        cure=f"Leave out {scheme}://." if rest else "Correct it.",
    )


def _page(name: str) -> str:
    """Say where the daemon tells of an image."""
    return f"/images/{quote(name, safe='/:@')}/json"


def _gist(words: str) -> str:
    """Choose the line that says most: what Python calls an error, or else the last one."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return next(filter(_ERROR.match, reversed(lines)), lines[-1] if lines else "it said nothing")[:_GIST]


def _version(words: str) -> tuple[int, int]:
    """Find the version among the last words of a container, which may say more at its end."""
    for line in reversed(words.splitlines()):
        with suppress(ValueError, TypeError):
            major, minor = json.loads(line)
            return int(major), int(minor)
    return (0, 0)


def _volumes(name: str, told: Mapping[str, Any]) -> tuple[str, ...]:
    """Read which volumes an image declares.

    :raises RefusedError: one of them would lie among what is a job's own, which is renewed for each.
    """
    found = tuple(sorted((told.get("Config") or {}).get("Volumes") or ()))
    for path in container_spec.among_jobs_own(found):
        raise RefusedError(
            f"image: {name!r} declares a volume at {path!r}.",
            field="image",
            value=name,
            rule="What lies in the folders of /opt/ml is a job's own, and goes with it; a volume there cannot.",
            cure="Build it without that VOLUME, which an image that is built on this one cannot take back.",
        )
    return found


def looked_at(image: str) -> Looked:
    """Give what is known of an image, by its id; one that nobody looked at is taken for one like most."""
    return Images.known.get(image) or Looked(image, PYTHONS[0])
