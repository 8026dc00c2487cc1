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
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jupyter_smx.agent.system.processes import process_table
from jupyter_smx.engines.machine import file_lock
from jupyter_smx.engines.remote.machine import Completed
from jupyter_smx.engines.ssh import commands, failures, key_files
from jupyter_smx.engines.ssh.client import SshClient
from jupyter_smx.engines.ssh.commands import AliasConfig
from jupyter_smx.engines.ssh.failures import SessionEnd

if TYPE_CHECKING:
    from jupyter_smx.engines.ssh.commands import SshOptions
    from jupyter_smx.engines.ssh.failures import Target

_log = logging.getLogger(__name__)

_CONTROL_TIMEOUT = 5.0
"""Seconds for a question that the master, or ssh itself, answers without the machine."""
_STOP_TIMEOUT = 1.0
"""Seconds for a master to note that it ends with its last session: a controller that ends waits for it."""
_LOGIN_TIMEOUT = 20.0
"""Seconds for a login, beside the time to connect, at each machine on the route."""
_PATIENCE = float(commands.SERVER_ALIVE_INTERVAL * commands.SERVER_ALIVE_COUNT)
"""Seconds for which a master that a person opened may be silent before it is ended."""
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
        self._last_pid = 0
        self._silent_since = 0.0
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
                raise failures.closed(self.alias) from None
            raise

    def lose(self) -> None:
        """Note that the master ended."""
        self._is_up = False

    def doubt(self) -> None:
        """Note that the machine was silent: the next call of :meth:`ready` checks if the master works."""
        self._is_doubtful = True

    async def check(self, path: str = "") -> bool:
        """Return True if a master runs at the path in use, or another one; the machine itself is not asked."""
        return bool(await self._pid(path or self.path))

    async def ask(self, words: list[str], timeout: float | None = None) -> Completed:
        """Run a command that ssh, or the master on this machine, answers; ``timeout`` is five seconds by default."""
        limit = _CONTROL_TIMEOUT if timeout is None else timeout
        try:
            return await self.client.run(words, timeout=limit)
        except asyncio.TimeoutError:
            return Completed(255, b"", f"It did not answer within {limit:g} s.")

    async def close(self) -> None:
        """Stop a start that is under way, and end the master if it was opened here."""
        await self._cancel_start()
        if self._is_ours:
            await self._exit()
        self._is_up = self._is_ours = False

    async def retire(self) -> None:
        """Do as :meth:`close`, but let the master end with the last session over it, such as a person's shell."""
        await self._cancel_start()
        if self._is_ours:
            words = commands.control_words(self.alias, self.own_path, "stop", self._options)
            await self.ask(words, _STOP_TIMEOUT)
        self._is_up = self._is_ours = False

    async def _cancel_start(self) -> None:
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
            await asyncio.wait([self._opening])

    async def _establish(self) -> None:
        if self._is_up and await self._answers():
            self._is_doubtful, self._silent_since = False, 0.0
            return
        if self._is_up:
            await self._give_up()
        self._is_up = False
        config = await self._config()
        if not await self._use(config.control_path):
            async with file_lock.acquire_async(self._lock_path()):
                if not await self._use(self.own_path):
                    await self._open(config)
        self._is_up, self._is_doubtful, self._silent_since = True, False, 0.0
        self.generation += 1
        _log.info("machine=%s master connection at %s", self.alias, self.path)

    def _lock_path(self) -> Path:
        self._options.control_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Path(f"{self.own_path}.lock")

    async def _use(self, path: str) -> bool:
        """Use the master at a path; returns False if none runs there."""
        pid = await self._pid(path) if path and _exists(path) else 0
        if pid:
            self._is_ours = self._is_ours and pid == self._last_pid
            self.path, self._last_pid = path, pid
        return bool(pid)

    async def _config(self) -> AliasConfig:
        done = await self.ask(commands.config_words(self.alias, self._options))
        if done.code:
            raise failures.of_start(done.errors, self._target(AliasConfig()))
        return commands.parse_config(done.output.decode(errors="replace"))

    async def _open(self, config: AliasConfig) -> None:
        path, log = Path(self.own_path), Path(f"{self.own_path}.log")
        await self._kill(self._last_pid)  # it answers nothing, and its socket is about to be replaced
        _remove(path)
        words = commands.master_words(self.alias, path, log, self._options)
        machines = 1 + len(config.jump.split(",")) if config.jump else 1
        limit = machines * (self._options.connect_timeout + _LOGIN_TIMEOUT)
        self._is_ours = True  # from now on close() has something to end
        try:
            done = await self.client.run_logged(words, log, limit)
        except asyncio.TimeoutError:
            raise failures.no_login(self.alias, limit) from None
        if done.code or not await self._use(self.own_path):
            raise failures.of_start(done.errors, await self._described(done.errors, config))
        self._is_ours = True

    async def _described(self, errors: str, config: AliasConfig) -> Target:
        """Collect the other facts for the message about a failed start."""
        target = self._target(config)
        if "Could not resolve hostname" in errors:
            names = (self.alias, _UNKNOWN_NAME)
            ours, other = [await self.ask(commands.config_words(name, self._options)) for name in names]
            return replace(target, is_configured=commands.is_configured(ours.output.decode(), other.output.decode()))
        if "Permission denied" in errors:
            return replace(target, locked_key=key_files.find_locked_key(config.identity_files))
        return target

    def _target(self, config: AliasConfig) -> Target:
        return failures.Target(
            alias=self.alias,
            command=commands.master_command(self.alias, self.own_path, self._options),
            config=self._options.config_file or "~/.ssh/config",
            jump=config.jump,
        )

    async def _answers(self) -> bool:
        """Send a request to the machine itself: a master without a network still answers."""
        words = commands.session_words(self.alias, self.path, "true", self._options)
        try:
            done = await self.client.run(words, timeout=self._options.connect_timeout)
        except asyncio.TimeoutError:
            return False
        end = failures.session_end(done)
        if end is SessionEnd.UNCERTAIN:
            return await self.check()
        return end is not SessionEnd.NO_MASTER

    async def _give_up(self) -> None:
        """End a master that does not answer. If a person opened it with a code, it gets time to answer again.

        :raises UnavailableError: it gets more time, or is at the path of the user's own sessions.
        """
        now = asyncio.get_running_loop().time()
        self._silent_since = self._silent_since or now
        may_end = self._is_ours or (self.path == self.own_path and now - self._silent_since >= _PATIENCE)
        if not may_end and await self.check():
            command = commands.exit_command(self.alias, self.path, self._options)
            raise failures.silent_connection(self.alias, command)
        await self._exit()

    async def _exit(self) -> None:
        """End the master at our path."""
        pid = self._last_pid or await self._pid(self.own_path)
        await self.ask(commands.control_words(self.alias, self.own_path, "exit", self._options))
        if pid and not await _has_ended(pid):
            await self._kill(pid)
        self._last_pid = 0

    async def _kill(self, pid: int) -> None:
        """Kill a master at our path that does not exit, such as one stopped by a signal."""
        if pid and _is_master(pid, self.own_path):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            await _has_ended(pid)

    async def _pid(self, path: str) -> int:
        done = await self.ask(commands.control_words(self.alias, path, "check", self._options))
        found = _PID.search(done.errors)
        return int(found[1]) if found and not done.code else 0


def _exists(path: str) -> bool:
    return Path(path).exists()


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _is_master(pid: int, path: str) -> bool:
    """Return True if a process is the master at a path, which is in its title; a PID may have been reused."""
    try:
        return os.fsencode(path) in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


async def _has_ended(pid: int) -> bool:
    """Wait for the end of a process that is no child of ours, for up to two seconds; returns False if it runs on.

    A zombie has ended: the first process of a container need not be one that reaps others.
    """
    for _ in range(_END_CHECKS):
        if process_table.read_process(pid) is None:
            return True
        await asyncio.sleep(_END_INTERVAL)
    return False


def _retrieve_exception(opening: asyncio.Task[None]) -> None:
    # Callers may have been cancelled: asyncio would log an error that nothing retrieved.
    if not opening.cancelled():
        opening.exception()
