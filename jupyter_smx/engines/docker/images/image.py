"""Resolve an image and test whether hosts can run it, once for each id, in a short-lived container."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from jupyter_smx.engines.base import ImageMissingError, PullProgress
from jupyter_smx.engines.docker.containers import container_spec, image_parts, probe_container
from jupyter_smx.engines.docker.containers.image_parts import NO_PARTS, ImageParts, ImageUser
from jupyter_smx.engines.docker.daemon.daemon_client import NOT_FOUND, DaemonError
from jupyter_smx.engines.docker.images import agent_bytecode, image_config, opt_ml_files, python_errors, registry
from jupyter_smx.engines.docker.images.image_config import ImageConfig
from jupyter_smx.engines.docker.images.volume_probe import closed_volumes
from jupyter_smx.model.errors import RefusedError, UnavailableError
from jupyter_smx.model.python_version import MIN_PYTHON
from jupyter_smx.model.spec.image import Image
from jupyter_smx.model.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jupyter_smx.engines.docker.daemon.daemon_client import Daemon
    from jupyter_smx.engines.docker.images.image_config import ContainerReport
    from jupyter_smx.engines.docker.images.pull import ImagePuller

PYTHON_CANDIDATES = ("python3", "python", "/opt/conda/bin/python", "/usr/local/bin/python3", "/usr/bin/python3")
_VERSION_SCRIPT = (
    "import array, ctypes, fcntl, hashlib, json, mmap, pickle, resource, select, socket, subprocess, sys, zlib; "
    "print(json.dumps(list(sys.version_info[:2])))"
)
"""Prints the version if all modules exist that an agent loads and that a build of Python may omit."""
_EXEC_SCRIPT = "import os, sys; os.execvp(sys.argv[1], [sys.argv[1], '-I', '-c', sys.argv[2]])"
"""Jobs start with the image's variables for Python, agents without them: the check starts it in both ways."""
_PYTHON_TIMEOUT = 60.0
"""Time limit in seconds for the version of a Python."""
_STEP_TIMEOUT = 60.0
"""Seconds that the daemon may take to make a container, to start it, or to remove it."""
_CACHE_TIMEOUT = 0.25
"""Seconds to wait for an optional answer; an idle daemon takes a millisecond."""
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
"""Names of processor architectures by machines, and by images."""
_MISSING_STATUSES = (NOT_FOUND, 400, 301)
"""Status codes for the name of an image: it does not exist, is invalid, or is redirected."""
_SERVER_ERROR = 500
"""Lowest status code for an internal error of a daemon; Podman before 6 has no other."""
_ERROR = re.compile(r"[\w.]*(Error|Exception)\b")
_MAX_REASON = 200
"""Characters of an error message that a reason quotes."""
_NO_PROGRAM = ("no such file", "executable file not found", "not a directory", "permission denied")
_NUMBERS = re.compile(r"[0-9]+:[0-9]+")
"""A user of an image by its numbers, of which the daemon looks up none."""
_NOT_STARTED = (126, 127)
"""Exit codes of a shell that cannot start a program."""


class InspectedImage(Struct, frozen=True):
    """An image that was inspected: its id, the command of its Python, and its name at its registry."""

    id: str
    python: str
    digest: str = ""
    python_version: str = ""
    """Version of its Python, as ``3.11``."""
    config: ImageConfig = ImageConfig()
    parts: ImageParts = NO_PARTS
    """Its settings and files that count for hosts."""
    has_train: bool = True
    """True if a program ``train`` is on its PATH."""
    is_complete: bool = True
    """False if the daemon did not answer while the agent was compiled, so that the next start tries again."""

    def command(self, *words: str) -> list[str]:
        """Return the command that starts its Python with these words, through its entry point if that counts."""
        return [*self.parts.entrypoint, self.python, *words]

    def record(self, name: str) -> Image:
        """Return it as the image of a job that calls it ``name``."""
        return Image(
            name=name,
            id=self.id,
            digest=self.digest,
            user=self.config.user,
            workdir=self.config.workdir,
            entrypoint=self.config.entrypoint,
            cmd=self.config.cmd,
            has_train=self.has_train,
            python_version=self.python_version,
        )

    def is_valid(self) -> bool:
        """Return True if it is complete and none of its files was deleted from this machine meanwhile. Blocks."""
        return self.is_complete and all(Path(path).exists() for path in (self.parts.files, self.parts.archive) if path)

    def with_digest(self, name: str, told: Mapping[str, Any]) -> InspectedImage:
        """Return a copy with the digest of ``name`` at its registry, from the daemon's answer."""
        return replace(self, digest=registry.repo_digest(name, told.get("RepoDigests")))


class _PythonSearch(Struct, frozen=True):
    """An image that is searched for a Python: as which user, "" for its own, and through which entry point."""

    name: str
    image: str
    user: str
    entrypoint: tuple[str, ...] = ()
    workdir: str = ""
    image_user: str = ""
    """The image's own user as ``uid:gid``; "" if it is root, or not known."""


class Images:
    """The images of one daemon; remembers those that were looked at, for all daemons: an id never means another."""

    cache: ClassVar[dict[str, InspectedImage]] = {}

    def __init__(
        self,
        daemon: Daemon,
        labels: Mapping[str, str],
        user: Callable[[], str],
        seconds: float = _PYTHON_TIMEOUT,
        *,
        pulls: ImagePuller | None = None,
        data_dir: Path | None = None,
        can_own_files: Callable[[int], bool] = lambda _uid: True,
    ) -> None:
        self._daemon = daemon
        self._pulls = pulls
        self._labels = dict(labels)
        self._user = user
        self._seconds = seconds
        self._data_dir = data_dir
        self._can_own_files = can_own_files
        self._arch = ""
        self._copy_lock = asyncio.Lock()
        self._compile_locks: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()
        self.under_way: set[str] = set()
        """Names of the containers that look at an image now."""

    async def resolve(
        self, name: str, say: Callable[[PullProgress], None], settings: Sequence[str] = ()
    ) -> InspectedImage:
        """Find an image as :meth:`inspect` does, after a download if it is missing and downloads are allowed.

        :raises RefusedError: it cannot be downloaded, or hosts cannot use it; transient if its registry is unavailable.
        :raises UnavailableError: the daemon does not answer.
        """
        try:
            return await self._resolve(name, say, settings)
        except RefusedError as problem:
            meant = "" if problem.transient else await self._suggest(name)
            if not meant:
                raise
            raise problem.with_cure(f"{meant} {problem.cure}") from problem

    async def _resolve(self, name: str, say: Callable[[PullProgress], None], settings: Sequence[str]) -> InspectedImage:
        pulls = self._pulls
        if pulls is None or not name:
            return await self.inspect(name, say, settings)
        if pulls.is_due(name):
            await pulls.pull(name, say, is_here=await self._is_present(name))
        try:
            return await self.inspect(name, say, settings)
        except ImageMissingError:
            if not pulls.can_pull(name):
                raise
        await pulls.pull(name, say)
        return await self.inspect(name, say, settings)

    async def peek(self, name: str, settings: Sequence[str] = ()) -> InspectedImage | None:
        """Find an image as :meth:`inspect` does; None if it would be downloaded first.

        :raises RefusedError: it does not exist and may not be downloaded, or hosts cannot use it.
        :raises UnavailableError: the daemon does not answer.
        """
        try:
            return await self.inspect(name, lambda _step: None, settings)
        except ImageMissingError:
            if self._pulls is None or not self._pulls.can_pull(name):
                raise
            return None

    async def inspect(
        self, name: str, say: Callable[[PullProgress], None], settings: Sequence[str] = ()
    ) -> InspectedImage:
        """Find an existing image by its name or id, and check that hosts can use it.

        ``settings`` are those of the image that count for its hosts.

        :raises RefusedError: it does not exist, or hosts cannot use it.
        :raises UnavailableError: the daemon does not answer.
        """
        if not name:
            raise RefusedError(
                "image: no image is named.",
                field="image",
                rule="Each host of the docker engine is a container and needs an image.",
                cure="Set --image, or ask the administrator to set DockerEngine.image.",
            )
        try:
            told = await self._daemon.get(_inspect_path(name))
        except DaemonError as problem:
            raise self._missing_error(name, problem) from problem
        key = _cache_key(told["Id"], settings)
        found = self.cache.get(key)
        if found is None or not await asyncio.to_thread(found.is_valid):
            await self._check_machine(name, told)
            found = self.cache[key] = await self._examine(name, told, settings, say)
        return found.with_digest(name, told)

    async def _examine(
        self, name: str, told: Mapping[str, Any], settings: Sequence[str], say: Callable[[PullProgress], None]
    ) -> InspectedImage:
        say(PullProgress("Looking for Python in the image"))
        config, image = image_config.parse_config(told), str(told["Id"])
        entrypoint = config.entrypoint if image_parts.ENTRYPOINT in settings else ()
        volumes = _volumes(name, told)
        user = "" if image_parts.USER in settings else self._user()
        search = _PythonSearch(name, image, user, entrypoint, config.workdir)
        if entrypoint and not user:
            search = replace(search, image_user=await self._find_image_user(search, config.user))
        python, report = await self._find_python(search)
        parts = ImageParts(
            entrypoint,
            config.workdir,
            volumes=volumes,
            has_bytecode=report.has_bytecode,
            # An entry point may set more variables.
            has_usual_python=not entrypoint
            and image_parts.is_usual_python(image_config.variable_names(told), has_bytecode=report.has_bytecode),
        )
        if image_parts.USER in settings:
            parts = replace(parts, user=self._checked_user(name, report))
        archive: str | None = ""
        # The containers of an entry point have an /opt/ml of their own.
        if (report.has_files or entrypoint) and self._data_dir is not None:
            say(PullProgress("Copying the files that the image has in /opt/ml"))
            parts = replace(parts, files=await self._provide_files(image, self._data_dir))
        if agent_bytecode.is_needed(report.magic) and self._data_dir is not None:
            say(PullProgress(f"Compiling the agent for Python {report.python_version}"))
            archive = await self._compile_agent(search, python, report.magic, self._data_dir)
            parts = replace(parts, archive=archive or "")
        return InspectedImage(
            image,
            python,
            python_version=report.python_version,
            config=config,
            parts=replace(parts, closed_volumes=await self._closed_volumes(image, python, parts)),
            has_train=report.has_train,
            is_complete=archive is not None,
        )

    async def _find_image_user(self, search: _PythonSearch, name: str) -> str:
        """Return the image's user ``name`` as ``uid:gid``, so that its entry point has an ``/opt/ml`` of its own.

        A container without the entry point reports the numbers of a name. Return "" for root, if no container reports
        them, and for Podman, which gives the folder to the user itself.

        :raises RefusedError: the container gives no output for too long; transient.
        """
        if _NUMBERS.fullmatch(name):
            return name
        if not name or self._daemon.kind.podman:
            return ""
        try:
            _python, report = await self._find_python(replace(search, entrypoint=()))
        except RefusedError as problem:
            if problem.transient:
                raise
            return ""  # only the entry point may put a Python on PATH
        return report.user.numbers() if report.user else ""

    def _checked_user(self, name: str, report: ContainerReport) -> ImageUser:
        if report.user is None:
            raise self._problem(name).unknown_user()
        if not self._can_own_files(report.user.uid):
            raise self._problem(name).unowned_user(report.user.numbers(), self._user())
        return report.user

    async def _closed_volumes(self, image: str, python: str, parts: ImageParts) -> tuple[str, ...]:
        if not parts.volumes:
            return ()
        user = parts.user_numbers() or self._user()
        return await closed_volumes(self._daemon, self.under_way, (image, python), parts.volumes, user, self._labels)

    async def _provide_files(self, image: str, data_dir: Path) -> str:
        config = probe_container.container_config(image, ["true"], self._user(), self._labels, self._daemon.kind)
        async with self._copy_lock:  # two names, or settings, of one image may be examined at the same time
            return await opt_ml_files.provide(self._daemon, self.under_way, data_dir, image, config, _STEP_TIMEOUT)

    async def _compile_agent(self, search: _PythonSearch, python: str, magic: str, data_dir: Path) -> str | None:
        target, words = agent_bytecode.archive_path(data_dir, search.image, magic), [*search.entrypoint, python]
        config = probe_container.container_config(search.image, words, search.user, self._labels, self._daemon.kind)
        if search.entrypoint:
            probe_container.prepare_entrypoint(config, search.workdir, self._daemon.kind, search.image_user)
        # Two names, or settings, of one image may be examined at the same time; other images do not wait for it.
        async with self._compile_locks.setdefault(target, asyncio.Lock()):
            return await agent_bytecode.provide(self._daemon, self.under_way, target, magic, words, config)

    def _problem(self, name: str) -> python_errors.ImageProblem:
        return python_errors.ImageProblem(name, self._daemon.kind.program)

    async def cached(self, name: str, settings: Sequence[str] = ()) -> InspectedImage | None:
        """Return the current image of a name; None if that takes longer than a moment, or it was not inspected."""
        if not name or (self._pulls is not None and self._pulls.is_due(name)):
            return None
        try:
            told = await self._daemon.get(_inspect_path(name), _CACHE_TIMEOUT)
        except (DaemonError, UnavailableError):
            return None
        found = self.cache.get(_cache_key(told["Id"], settings))
        return None if found is None else found.with_digest(name, told)

    async def _is_present(self, name: str) -> bool:
        try:
            await self._daemon.get(_inspect_path(name))
        except DaemonError:
            return False
        return True

    async def _suggest(self, name: str) -> str:
        """Return a hint with an existing image whose name is similar to a missing one."""
        try:
            rows: list[dict[str, Any]] = await self._daemon.call(lambda api: api.images())
        except (DaemonError, UnavailableError):
            return ""
        known = [tag for row in rows for tag in row.get("RepoTags") or () if not tag.startswith("<none>")]
        return registry.suggest_image(name, known)

    def _missing_error(self, name: str, problem: DaemonError) -> RefusedError | UnavailableError:
        if problem.status not in _MISSING_STATUSES:
            return self._daemon.operation_error("look at an image", problem)
        if problem.status != NOT_FOUND:
            return _bad_name_error(name, problem.message)
        kind = self._daemon.kind
        return ImageMissingError(
            f"image: {name!r} is not an image of {kind.name} at {self._daemon.url}.",
            field="image",
            value=name,
            rule=f"Hosts need an image that this daemon has; {kind.program} images lists them.",
            cure=f"Get it with {kind.program} pull, {kind.program} load or {kind.program} build -t {name}, or use "
            "another image.",
        )

    async def _check_machine(self, name: str, told: Mapping[str, Any]) -> None:
        system, arch = told.get("Os") or "linux", told.get("Architecture") or ""
        if not self._arch:
            self._arch = str((await self._daemon.version()).get("Arch") or "")
        mine = _ARCHITECTURES.get(self._arch, self._arch)
        if system == "linux" and _ARCHITECTURES.get(arch, arch) in ("", mine):
            return
        pull = f"{self._daemon.kind.program} pull --platform linux/{mine}"
        raise RefusedError(
            f"image: {name!r} is for {system}/{arch}.",
            field="image",
            value=name,
            rule=f"This machine runs only linux/{mine}.",
            cure=f"Use an image for linux/{mine}, with {pull}.",
        )

    async def _find_python(self, search: _PythonSearch) -> tuple[str, ContainerReport]:
        """Return the command of the first usable Python of an image, and what its container reports.

        :raises RefusedError: it has none, or another one comes first for the user of the image.
        """
        seen: dict[tuple[int, str], list[str]] = {}
        for word in PYTHON_CANDIDATES:
            code, words = await self._run_python(search, word)
            if code == NOT_FOUND or (search.entrypoint and code in _NOT_STARTED):
                continue
            version = _version(words) if code == 0 else (0, 0)
            if version >= MIN_PYTHON:
                report = image_config.parse_report(words)
                if search.user and report.may_hide_python:
                    await self._check_closed_python(search, report.executable)
                return word, replace(report, python_version=f"{version[0]}.{version[1]}")
            if search.entrypoint and version == (0, 0):
                raise self._problem(search.name).entrypoint_ended(search.entrypoint, code, _key_line(words))
            said = f"Python {version[0]}.{version[1]}" if code == 0 else f"exit code {code}, {_key_line(words)}"
            seen.setdefault((code, said), []).append(word)
        if search.user and not any(code == 0 for code, _said in seen):
            await self._check_closed_python(search)
        raise self._problem(search.name).no_python(seen, PYTHON_CANDIDATES)

    async def _check_closed_python(self, search: _PythonSearch, usable: str = "") -> None:
        """Look once more, as the user of the image itself. ``usable`` is the Python that the user of jobs finds.

        :raises RefusedError: that user finds a Python that the user of jobs cannot use.
        """
        own = replace(search, user="")
        for word in PYTHON_CANDIDATES:
            code, words = await self._run_python(own, word)
            if code == 0 and _version(words) >= MIN_PYTHON:
                report = image_config.parse_report(words)
                if usable and report.executable in ("", usable):
                    return
                can_follow = report.user is not None and self._can_own_files(report.user.uid)
                program = report.executable if usable else word
                raise self._problem(search.name).closed_python(program, search.user, report, can_follow=can_follow)

    async def _run_python(self, search: _PythonSearch, word: str) -> tuple[int, str]:
        """Start one Python; return its exit code and last output, 404 if the program does not exist.

        :raises RefusedError: it gives no output for too long; transient.
        :raises UnavailableError: the daemon starts no container at all, or does not answer.
        """
        words = [*search.entrypoint, word, "-c", _EXEC_SCRIPT, word, f"{image_config.REPORT_SCRIPT}\n{_VERSION_SCRIPT}"]
        config = probe_container.container_config(search.image, words, search.user, self._labels, self._daemon.kind)
        if search.entrypoint:
            probe_container.prepare_entrypoint(config, search.workdir, self._daemon.kind, search.image_user)
        async with probe_container.Probe(self._daemon, self.under_way, _STEP_TIMEOUT) as probe:
            try:
                await probe.start(config)
                code = await probe.wait_exit(self._seconds)
                said = await self._daemon.call(lambda api: api.logs(probe.name, stdout=True, stderr=True, tail=5))
            except asyncio.TimeoutError:
                # If the daemon answers this, the program takes long, or the whole machine is slow.
                await self._daemon.inspect(probe.name)
                if search.entrypoint:
                    problem = self._problem(search.name).entrypoint_timeout(search.entrypoint, self._seconds)
                    raise problem from None
                raise self._timeout_error(search.name, word) from None
            except DaemonError as problem:
                # The daemon uses the same message if it lacks a permission itself, but without naming a program.
                if word in problem.message and any(sign in problem.message.lower() for sign in _NO_PROGRAM):
                    return NOT_FOUND, ""
                if search.entrypoint and search.entrypoint[0] in problem.message:
                    raise self._problem(search.name).entrypoint_failed(search.entrypoint, problem.message) from problem
                # Not about the program: the same error comes with any image, as when it may not create control groups.
                if problem.status >= _SERVER_ERROR and word not in problem.message:
                    what = f"start a container of image {search.name}"
                    raise self._daemon.operation_error(what, problem) from problem
                return problem.status, problem.message
        return code, said.decode(errors="replace").strip()

    def _timeout_error(self, name: str, word: str) -> RefusedError:
        run = f"{self._daemon.kind.program} run --rm --entrypoint {word} {name} --version"
        return RefusedError(
            f"image: {word} of {name!r} did not report its Python version within {format_duration(self._seconds)}.",
            field="image",
            value=name,
            rule="Each image is tested once, in a short-lived container, before hosts use it.",
            cure=f"This machine may be busy; the controller will try again. To try the same, run {run}.",
            transient=True,
        )


def _bad_name_error(name: str, words: str) -> RefusedError:
    """Refuse what no image can be called: to build or download it fails as well."""
    scheme, rest, _ = name.partition("://")
    return RefusedError(
        f"image: {name!r} is not a valid image name{f' ({words})' if words else ''}.",
        field="image",
        value=name,
        rule=registry.NAME_RULE,
        cure=f"Remove {scheme}://." if rest else "Correct it.",
    )


def _inspect_path(name: str) -> str:
    """Return the path of the daemon's description of an image."""
    return f"/images/{quote(name, safe='/:@')}/json"


def _key_line(words: str) -> str:
    """Return the most useful line: Python's line of an error, or else the last one."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return next(filter(_ERROR.match, reversed(lines)), lines[-1] if lines else "no output")[:_MAX_REASON]


def _version(words: str) -> tuple[int, int]:
    """Find the version in the last output of a container, which may print more at its end."""
    for line in reversed(words.splitlines()):
        with suppress(ValueError, TypeError):
            major, minor = json.loads(line)
            return int(major), int(minor)
    return (0, 0)


def _volumes(name: str, told: Mapping[str, Any]) -> tuple[str, ...]:
    """Read which volumes an image declares.

    :raises RefusedError: one of them lies in a job's own folders, which are renewed for each job.
    """
    found = tuple(sorted((told.get("Config") or {}).get("Volumes") or ()))
    for path in container_spec.job_volumes(found):
        raise RefusedError(
            f"image: {name!r} declares a volume at {path!r}.",
            field="image",
            value=name,
            rule="Files below /opt/ml are deleted with their job, but a volume there would keep them.",
            cure="Rebuild the image without this VOLUME; an image based on it cannot remove it.",
        )
    return found


def _cache_key(image: str, settings: Sequence[str]) -> str:
    return " ".join([image, *sorted(settings)])


def cached_inspection(image: str, settings: Sequence[str] = ()) -> InspectedImage:
    """Return the result of an image's inspection, by its id; a default if it was not inspected."""
    return Images.cache.get(_cache_key(image, settings)) or InspectedImage(image, PYTHON_CANDIDATES[0])
