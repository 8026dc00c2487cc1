"""The master connection to one machine: found, opened by ourselves, checked, and closed.

A master that a person opened is used: at the path of the user's own configuration (``ControlPath``), or at ours by the
command that errors name. Only a master that this object opened is closed by it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_smx.engines.machine import file_lock
from jupyter_smx.engines.remote.machine import Completed
from jupyter_smx.engines.ssh import commands, failures
from jupyter_smx.engines.ssh.client import SshClient
from jupyter_smx.model.errors import RefusedError, UnavailableError

if TYPE_CHECKING:
    from jupyter_smx.engines.ssh.commands import AliasConfig, SshOptions
    from jupyter_smx.engines.ssh.failures import Target

_log = logging.getLogger(__name__)

_CONTROL_TIMEOUT = 10.0
"""Seconds for a question that the master, or ssh itself, answers without the machine."""
_LOGIN_TIMEOUT = 20.0
"""Seconds for a login, beside the time to connect, at each machine on the way."""
_END_CHECKS, _END_INTERVAL = 100, 0.02
"""Looks at a master after its exit was requested, and seconds between them."""
_UNKNOWN_NAME = "smx-unknown.invalid"
_PID = re.compile(r"pid=(\d+)")


class Master:
    """Keeps a master running; :meth:`ready` is called before each use, and takes no time if nothing is wrong.

    ``path`` is the control socket in use. ``generation`` counts the masters that were found or opened.
    """

    def __init__(self, alias: str, options: SshOptions) -> None:
        self.alias = alias
        self.client = SshClient(options)
        self.own_path = str(commands.control_path(alias, options))
        self.path = self.own_path
        self.generation = 0
        self._options = options
        self._is_up = False
        self._is_doubtful = False
        self._is_ours = False
        self._opening: asyncio.Task[None] | None = None

    async def ready(self) -> None:
        """Wait until a master runs. Callers share one start, which goes on if a caller is cancelled.

        :raises RefusedError: ssh cannot connect until a person changes something.
        :raises UnavailableError: it cannot connect now.
        """
        if self._is_up and not self._is_doubtful:
            return
        if self._opening is None or self._opening.done():
            self._opening = asyncio.get_running_loop().create_task(self._establish(), name=f"ssh {self.alias}")
            self._opening.add_done_callback(_retrieve_exception)
        opening = self._opening
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            if opening.cancelled():  # by close()
                raise UnavailableError(f"The connection to {self.alias} is closed.", transient=True) from None
            raise

    def lose(self) -> None:
        """Note that the master ended."""
        self._is_up = False

    def doubt(self) -> None:
        """Note that the machine was silent: the next call of :meth:`ready` asks whether the master works."""
        self._is_doubtful = True

    async def check(self, path: str = "") -> bool:
        """Return True if a master runs at the path in use, or another one; the machine itself is not asked."""
        return bool(await self._pid(path or self.path))

    async def ask(self, words: list[str]) -> Completed:
        """Run a command that ssh, or the master on this machine, answers."""
        try:
            return await self.client.run(words, timeout=_CONTROL_TIMEOUT)
        except asyncio.TimeoutError:
            return Completed(255, b"", f"It did not answer within {_CONTROL_TIMEOUT:g} s.")

    async def close(self) -> None:
        """Stop a start that is under way, and end the master if it was opened here."""
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
            await asyncio.wait([self._opening])
        if self._is_up and self._is_ours:
            await self._exit()
        self._is_up = self._is_ours = False

    async def _establish(self) -> None:
        if self._is_up and await self._answers():
            self._is_doubtful = False
            return
        if self._is_up:
            await self._give_up()
        self._is_up = self._is_ours = False
        config = await self._config()
        if not await self._use(config.control_path):
            async with file_lock.acquire_async(self._lock_path()):
                if not await self._use(self.own_path):
                    await self._open(config)
        self._is_up, self._is_doubtful = True, False
        self.generation += 1
        _log.info("machine=%s master connection at %s", self.alias, self.path)

    def _lock_path(self) -> Path:
        self._options.control_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Path(f"{self.own_path}.lock")

    async def _use(self, path: str) -> bool:
        if not path or not await self.check(path):
            return False
        self.path = path
        return True

    async def _config(self) -> AliasConfig:
        done = await self.ask(commands.config_words(self.alias, self._options))
        if done.code:
            raise failures.of_start(done.errors, self._target(""))
        return commands.parse_config(done.output.decode(errors="replace"))

    async def _open(self, config: AliasConfig) -> None:
        path, log = Path(self.own_path), Path(f"{self.own_path}.log")
        _remove(path)  # what a master left that was killed
        words = commands.master_words(self.alias, path, log, self._options)
        machines = 1 + len(config.jump.split(",")) if config.jump else 1
        limit = machines * (self._options.connect_timeout + _LOGIN_TIMEOUT)
        try:
            done = await self.client.run_logged(words, log, limit)
        except asyncio.TimeoutError:
            raise failures.no_answer(self.alias, limit) from None
        if done.code or not await self.check(self.own_path):
            raise failures.of_start(done.errors, await self._described(done.errors, config.jump))
        self.path, self._is_ours = self.own_path, True

    async def _described(self, errors: str, jump: str) -> Target:
        if "Could not resolve hostname" not in errors:
            return self._target(jump)
        ours, other = [
            await self.ask(commands.config_words(name, self._options)) for name in (self.alias, _UNKNOWN_NAME)
        ]
        return self._target(jump, commands.is_configured(ours.output.decode(), other.output.decode()))

    def _target(self, jump: str, is_configured: bool = True) -> Target:
        return failures.Target(
            alias=self.alias,
            command=commands.master_command(self.alias, self.own_path, self._options),
            config=self._options.config_file or "~/.ssh/config",
            jump=jump,
            is_configured=is_configured,
        )

    async def _answers(self) -> bool:
        """Ask the machine itself: a master whose network is gone still answers."""
        words = commands.session_words(self.alias, self.path, "true", self._options)
        try:
            done = await self.client.run(words, timeout=self._options.connect_timeout)
        except asyncio.TimeoutError:
            return False
        end = failures.session_end(done)
        if end is failures.SessionEnd.UNCERTAIN:
            return await self.check()
        return end is not failures.SessionEnd.NO_MASTER

    async def _give_up(self) -> None:
        """End a master that does not answer, unless it belongs to the user's own sessions."""
        if await self.check() and self.path != self.own_path:
            command = commands.exit_command(self.alias, self.path, self._options)
            raise failures.silent_connection(self.alias, command)
        await self._exit()

    async def _exit(self) -> None:
        pid = await self._pid(self.path)
        with contextlib.suppress(RefusedError, UnavailableError):
            await self.ask(commands.control_words(self.alias, self.path, "exit", self._options))
        if pid:
            await _wait_end(pid)

    async def _pid(self, path: str) -> int:
        done = await self.ask(commands.control_words(self.alias, path, "check", self._options))
        found = _PID.search(done.errors)
        return int(found[1]) if found and not done.code else 0


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


async def _wait_end(pid: int) -> None:
    """Wait for the end of a process that is no child of ours, for up to two seconds."""
    for _ in range(_END_CHECKS):
        try:
            os.kill(pid, 0)
        except OSError:
            return
        await asyncio.sleep(_END_INTERVAL)


def _retrieve_exception(opening: asyncio.Task[None]) -> None:
    # Callers may have been cancelled: asyncio would log an error that nothing retrieved.
    if not opening.cancelled():
        opening.exception()
