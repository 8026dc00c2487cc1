"""Call the agent's archive on a machine, and send it there first if it is missing."""

from __future__ import annotations

import asyncio
import json
import shlex
import threading
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jupyter_smx.engines.machine import agent_zipapp
from jupyter_smx.engines.remote.machine import RUN_TIMEOUT, NoAnswerError, NotStartedError
from jupyter_smx.model.errors import RefusedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from jupyter_smx.engines.remote.machine import Completed, RemoteMachine

DEFAULT_FOLDER = "~/.local/share/jupyter_smx"
DEFAULT_PYTHON = "python3"
_NO_ARCHIVE = 97
_NO_PYTHON = 96
EXIT_FOLDER = 93
"""Exit code of a shell line that refuses the folder of hosts, as in :mod:`jupyter_smx.agent.remote.allocation`."""
CHECK_FOLDER = (
    'mkdir -p -m 700 "$r"; case $(LC_ALL=C ls -ld "$r") in d????-??-*) ;; *) false ;; esac && '
    f'[ -O "$r" ] || exit {EXIT_FOLDER}'
)
"""Shell line that creates the folder ``r``; it refuses a link, and a folder that another user owns or can write.

Where the parent is one for all users, as ``/tmp``, another user can create the folder first, with an agent in it."""
_NOT_EXECUTABLE = (126, 127)
"""Exit codes of a shell that cannot start a program."""
_SEND_TIMEOUT = 120.0
_ERROR_LENGTH = 300
_PACKING = threading.Lock()
_packed: list[bytes] = []
"""The archive once it is packed; it is the same for all machines."""
_UNPACK = "import sys,zlib;sys.stdout.buffer.write(zlib.decompress(sys.stdin.buffer.read()))"


class Account:
    """One account of one machine: the folder of its hosts, and the interpreter that runs the archive.

    ``is_checked`` lets each command refuse a folder that is not this user's alone. ``python_cure`` is the advice where
    the interpreter is missing, "" for that of the SSH engine. ``data_dir`` is the data folder of this machine, which
    has the archive after the first use; without one each process packs it.
    """

    def __init__(
        self,
        machine: RemoteMachine,
        folder: str = "",
        python: str = "",
        *,
        is_checked: bool = False,
        python_cure: str = "",
        data_dir: Path | None = None,
    ) -> None:
        self.machine = machine
        self.folder = folder or DEFAULT_FOLDER
        self.python = python or DEFAULT_PYTHON
        self._check = CHECK_FOLDER if is_checked else ":"
        self._python_cure = python_cure
        self._data_dir = data_dir

    async def ask(self, verb: str, question: Mapping[str, Any], timeout: float = RUN_TIMEOUT) -> dict[str, Any]:
        """Send one request to :mod:`jupyter_smx.agent.remote.commands`, and return its answer.

        :raises RefusedError: the machine cannot do the request; the text has the reason.
        :raises UnavailableError: the machine cannot be reached, or does not answer within ``timeout`` seconds. It is a
            NotStartedError if the request did not run there.
        """
        data = json.dumps({"machine": self.machine.name, **question}).encode()
        done = await self.machine.run(self.command(verb), data, timeout)
        if done.code == _NO_ARCHIVE:
            try:
                await self._send_archive()
            except NoAnswerError as error:  # what may have run is not the question
                raise NotStartedError(error.message, rule=error.rule, cure=error.cure, transient=True) from error
            done = await self.machine.run(self.command(verb), data, timeout)
        if done.code == EXIT_FOLDER:
            self._raise_folder_refusal()
        return read_answer(self.machine.name, self.python, done, self._python_cure)

    async def stream(self, verb: str, question: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Send a request whose answer takes long; yield the lines of its progress, and the answer at the end.

        :raises RefusedError, UnavailableError: as :meth:`ask`.
        """
        await self.ask("observe", {"clusters": []})  # sends the archive, and raises the machine's error
        data = json.dumps({"machine": self.machine.name, **question}).encode()
        async with self.machine.open(self.command(verb)) as process:
            assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - both are pipes
            process.stdin.write(data + b"\n")
            await process.stdin.drain()
            async for line in process.stdout:
                frame = _frame(line)
                if frame is not None:
                    _raise_refusal(frame)
                    yield frame
        if process.returncode:
            raise UnavailableError(f"{self.machine.name} ended the command {verb}.", transient=True)

    def command(self, verb: str, *words: str) -> str:
        """Return the shell command that runs a request there; its exit code shows what is missing for that."""
        name = shlex.quote(agent_zipapp.file_name())
        more = "".join(f" {shlex.quote(word)}" for word in words)
        return _in_shell(
            f"r={_folder_word(self.folder)}; p={_path_word(self.python)}; cd /; "
            f'command -v "$p" >/dev/null || exit {_NO_PYTHON}; {self._check}; '
            f'test -f "$r"/{name} || exit {_NO_ARCHIVE}; '
            f'exec "$p" -I "$r"/{name} remote {verb} "$r"{more}'
        )

    async def _send_archive(self) -> None:
        """Send the archive compressed, since it is stored as it is; concurrent calls do no harm.

        :raises RefusedError: it cannot be written there.
        :raises UnavailableError: the machine cannot be reached.
        """
        name = shlex.quote(agent_zipapp.file_name())
        command = _in_shell(
            f"umask 077; r={_folder_word(self.folder)}; p={_path_word(self.python)}; cd /; "
            f'{self._check}; t="$r"/.archive.$$; '
            f'mkdir -p "$r" && "$p" -I -c {shlex.quote(_UNPACK)} > "$t" && mv "$t" "$r"/{name} '
            '|| { c=$?; rm -f "$t"; exit $c; }'
        )
        archive = await asyncio.to_thread(packed_archive, self._data_dir)
        done = await self.machine.run(command, archive, _SEND_TIMEOUT)
        if done.code == EXIT_FOLDER:
            self._raise_folder_refusal()
        if done.code:
            full = "no space left" in done.errors.lower() or "quota" in done.errors.lower()
            raise RefusedError(
                f"{self.machine.name}: the agent cannot be written to {self.folder} there ({_last_words(done)}).",
                field="engine",
                value=self.machine.name,
                rule="Hosts have their folders there, and the agent is one file of 3 MiB.",
                cure="Free some space there." if full else "Make the folder writable, or set another folder.",
                transient=full,
            )

    def _raise_folder_refusal(self) -> None:
        raise RefusedError(
            f"{self.machine.name}: the folder {self.folder} there cannot be used.",
            field="engine",
            value=self.machine.name,
            rule="It must be a folder of yours, not a link, that no other user can write.",
            cure="Remove it or correct its mode, or set another folder.",
        )


def read_answer(machine: str, python: str, done: Completed, python_cure: str = "") -> dict[str, Any]:
    """Parse the output of a request; startup files of a shell may have printed something before. Pure.

    ``python_cure`` is the advice if the interpreter is missing, "" for that of the SSH engine.

    :raises RefusedError: the machine refuses, or cannot run the agent.
    :raises UnavailableError: it gave no answer.
    """
    frames = [frame for line in done.output.splitlines() if (frame := _frame(line)) is not None]
    for frame in frames[-1:]:
        _raise_refusal(frame)
        answer: dict[str, Any] = frame.get("answer", {})
        return answer
    if done.code in (_NO_PYTHON, *_NOT_EXECUTABLE):
        raise RefusedError(
            f"{machine}: there is no Python {python!r}.",
            field="engine",
            value=machine,
            rule="An agent needs Python 3.8 or newer on the machine, and nothing else.",
            cure=python_cure
            or f"Install it there, or set its path: c.SshEngine.machines = {{{machine!r}: {{'python': '/PATH'}}}}",
        )
    raise UnavailableError(
        f"{machine} gave no answer: the command ended with exit code {done.code} ({_last_words(done)}).", transient=True
    )


def _frame(line: bytes) -> dict[str, Any] | None:
    try:
        frame = json.loads(line)
    except ValueError:
        return None
    return frame if isinstance(frame, dict) else None


def _raise_refusal(frame: Mapping[str, Any]) -> None:
    for name, kind in (("refused", RefusedError), ("unavailable", UnavailableError)):
        if name in frame:
            raise kind(**frame[name])


def _last_words(done: Completed) -> str:
    lines = [line.strip() for line in done.errors.splitlines() if line.strip()]
    return (lines or ["it printed nothing"])[-1][:_ERROR_LENGTH]


def _in_shell(script: str) -> str:
    """Return a command that runs a script in a POSIX shell, whatever the account's login shell is."""
    return f"exec sh -c {shlex.quote(script)}"


def _folder_word(folder: str) -> str:
    """Quote a folder for a shell, but for a ``~`` at its beginning."""
    return '"$HOME"' + shlex.quote(folder[1:]) if folder == "~" or folder.startswith("~/") else shlex.quote(folder)


_path_word = _folder_word


def packed_archive(data_dir: Path | None = None) -> bytes:
    """Return the agent's archive, compressed. The first call of this process reads or packs it; others wait. Blocks."""
    with _PACKING:
        if not _packed:
            _packed.append(zlib.compress(_read_archive(data_dir), 6))
        return _packed[0]


def _read_archive(data_dir: Path | None) -> bytes:
    """Read the archive of the data folder, or pack one in memory where that folder cannot be used."""
    if data_dir is not None:
        with suppress(OSError):
            return agent_zipapp.write_archive(data_dir).read_bytes()
    return agent_zipapp.pack(agent_zipapp.add_bytecode(agent_zipapp.members()))
