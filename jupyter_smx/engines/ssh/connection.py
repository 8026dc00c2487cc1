"""Sessions and streams of one machine over its master connection."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_smx.agent import wire
from jupyter_smx.engines.ssh import client, commands, failures
from jupyter_smx.engines.ssh.failures import SessionEnd
from jupyter_smx.engines.ssh.master import Master
from jupyter_smx.engines.ssh.session import LongSession
from jupyter_smx.engines.ssh.slots import SessionSlots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from jupyter_smx.engines.remote.machine import Completed
    from jupyter_smx.engines.ssh.commands import SshOptions

    Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_ANSWER_WITHIN = 8.0
"""Seconds for the first answer of an agent; the controller cancels ``connect`` after ten."""
_RETRY_DELAYS = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Seconds until a session is asked for again that sshd refused; the last one is repeated."""
_PROBE = wire.encode({"id": 0, "op": "ping"})
_CONNECTED = b"+"


class SshConnection:
    """Runs commands and opens streams on the machine ``alias``, with at most eight sessions at once.

    ``relay_command`` returns the command that connects its input and output to a socket of the machine, after the byte
    ``+``. It is used if sshd forwards no sockets; without it no stream can be opened there.
    """

    def __init__(self, alias: str, options: SshOptions, relay_command: Callable[[str], str] | None = None) -> None:
        commands.check_alias(alias)
        self.name = alias
        self._options = options
        self._relay_command = relay_command
        self._master = Master(alias, options)
        self._slots = SessionSlots()
        self._generation = 0
        self._forwards: dict[str, Path] = {}
        self._forwarding = asyncio.Lock()
        self._relays: set[asyncio.Task[None]] = set()

    async def run(self, command: str, data: bytes = b"", timeout: float = 20.0) -> Completed:
        """Run a line of the account's shell with ``data`` as its input.

        ``timeout`` is in seconds, and counts from when the master runs. At the limit the session ends; the command on
        the machine gets no signal. A command that ends by a signal there has the code 255.

        :raises RefusedError: ssh cannot connect until a person changes something.
        :raises NotStartedError: it cannot connect now, or sshd allows no further session; nothing was run.
        :raises NoAnswerError: the command did not end in time, or the connection ended; it may have run.
        """
        await self._ready()
        loop = asyncio.get_running_loop()
        deadline, lost = loop.time() + timeout, 0
        for delay in _delays():
            done, end = await self._run_once(command, data, deadline - loop.time(), timeout)
            if end is SessionEnd.COMMAND:
                break
            if end is SessionEnd.NO_MASTER:
                lost += 1
                self._master.lose()
                if lost > 1:
                    raise failures.not_kept(self.name)
                await self._ready()
                deadline = loop.time() + timeout
            elif loop.time() + delay > deadline:
                raise failures.no_session(self.name)
            else:
                await asyncio.sleep(delay)
        return done

    @asynccontextmanager
    async def open(self, command: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """Open a session for a long command, whose ``stdin`` and ``stdout`` are used meanwhile; it ends with the block.

        ``stdout`` begins with the command's own output; its error output is dropped. An error of the block is replaced
        by the one of ssh if the connection ended.

        :raises RefusedError, UnavailableError: as :meth:`run`.
        """
        session = await self._open_session(command)
        try:
            try:
                yield session.process
            except Exception as error:
                if session.reader.at_eof() and not await self._master.check():
                    self._master.lose()
                    raise failures.connection_lost(self.name) from error
                raise
            if session.reader.at_eof() and await session.wait_end() == failures.SSH_FAILED:
                await self._check_connection()
        finally:
            await self._end_session(session)

    async def connect(self, socket: str) -> Streams:
        """Open a stream to the agent that listens at a unix socket of the machine.

        Neither ssh nor sshd reports if a process listens there, and an agent is silent until it gets a request. So the
        first request is one that an agent refuses before the greeting; the answer is not part of the stream.

        :raises RefusedError: as :meth:`run`.
        :raises UnavailableError: no agent listens there now, or as :meth:`run`.
        """
        for _ in range(2):
            await self._ready()
            if stream := await self._forwarded(socket):
                return stream
            if not await self._master.check():
                self._master.lose()
            elif socket in self._forwards:
                break
        if self._relay_command is None:
            raise failures.no_listener(self.name)
        return await self._relayed(self._relay_command(socket))

    async def disconnect(self, socket: str) -> None:
        """Forget a socket of the machine at which no agent will listen again. Open streams stay."""
        local = self._forwards.pop(socket, None)
        if local is not None:
            await self._control_forward("cancel", local, socket)
            local.unlink(missing_ok=True)

    def shell_words(self, command: str) -> list[str]:
        """Build the command for a person's terminal that runs ``command`` there, where ssh may ask for a code."""
        return commands.terminal_words(self.name, self._master.path, command, self._options)

    async def check_master(self) -> bool:
        """Return True if a master connection runs; the machine itself is not asked."""
        return await self._master.check()

    async def close(self) -> None:
        """End the streams over sessions, and the master if this object opened it."""
        await self._end_relays()
        await self._master.close()
        self._forget_forwards()

    async def retire(self) -> None:
        """Do the same as :meth:`close`, but keep others' sessions over the master; it exits with the last one."""
        await self._end_relays()
        await self._master.retire()
        self._forget_forwards()

    async def _end_relays(self) -> None:
        for relay in self._relays:
            relay.cancel()
        await asyncio.gather(*self._relays, return_exceptions=True)

    def _forget_forwards(self) -> None:
        for local in self._forwards.values():
            local.unlink(missing_ok=True)
        self._forwards.clear()

    async def _ready(self) -> None:
        await self._master.ready()
        if self._generation != self._master.generation:
            self._generation = self._master.generation
            self._forget_forwards()
            self._slots.reset()

    # Short commands

    async def _run_once(
        self, command: str, data: bytes, remaining: float, timeout: float
    ) -> tuple[Completed, SessionEnd]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + remaining
        await self._take_slot(remaining)
        try:
            words = commands.session_words(self.name, self._master.path, command, self._options)
            done = await self._master.client.run(words, data, deadline - loop.time())
            end = failures.session_end(done)
            if end is SessionEnd.NO_SESSION:
                self._slots.lower()
        except asyncio.TimeoutError:
            self._master.doubt()
            raise failures.no_answer(self.name, timeout) from None
        finally:
            self._slots.release()
        if end is SessionEnd.UNCERTAIN:
            await self._check_connection()
            end = SessionEnd.COMMAND
        return done, end

    async def _take_slot(self, timeout: float) -> None:
        try:
            await asyncio.wait_for(self._slots.acquire(), timeout)
        except asyncio.TimeoutError:
            raise failures.no_session(self.name) from None

    # Long ones

    async def _open_session(self, command: str) -> LongSession:
        """Open a session that holds a slot; :meth:`_end_session` ends both."""
        timeout = self._options.connect_timeout + _ANSWER_WITHIN
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        for delay in _delays():
            await self._ready()
            words = commands.session_words(self.name, self._master.path, commands.announced(command), self._options)
            session = await self._start_session(words, timeout)
            if session is not None:
                return session
            if loop.time() + delay > deadline:
                break
            await asyncio.sleep(delay)
        raise failures.no_session(self.name)

    async def _start_session(self, words: list[str], timeout: float) -> LongSession | None:
        """Start a session; returns None if nothing was run there and it may be asked for again."""
        await self._take_slot(timeout)
        async with AsyncExitStack() as undo:
            undo.callback(self._slots.release)
            session = await LongSession.start(self._master.client, words)
            undo.push_async_callback(session.close)
            try:
                end = await asyncio.wait_for(session.wait_opened(), timeout)
            except asyncio.TimeoutError:
                self._master.doubt()
                raise failures.no_answer(self.name, timeout) from None
            if end is None:
                undo.pop_all()
                return session
            if end is SessionEnd.NO_SESSION:
                self._slots.lower()
            elif end is SessionEnd.NO_MASTER:
                self._master.lose()
            else:
                await self._check_connection()
                raise failures.no_shell(self.name, await session.errors())
            return None

    async def _end_session(self, session: LongSession) -> None:
        try:
            await session.close()
        finally:
            self._slots.release()

    async def _check_connection(self) -> None:
        """Check that the master runs after a command ended in a way that may be its own or the connection's.

        :raises UnavailableError: it does not.
        """
        if not await self._master.check():
            self._master.lose()
            raise failures.connection_lost(self.name)

    # Streams

    async def _forwarded(self, socket: str) -> Streams | None:
        """Open a stream over a socket of this machine that the master forwards; None if its other end is closed."""
        local = await self._forward(socket)
        if local is None:
            return None
        try:
            reader, writer = await asyncio.open_unix_connection(local, limit=client.STREAM_LIMIT)
        except OSError:
            self._forwards.pop(socket, None)
            return None
        async with AsyncExitStack() as undo:
            undo.callback(writer.close)
            writer.write(_PROBE)
            try:
                await asyncio.wait_for(wire.read(reader), _ANSWER_WITHIN)
            except asyncio.TimeoutError:
                self._master.doubt()
                raise failures.no_answer(self.name, _ANSWER_WITHIN) from None
            except (OSError, asyncio.IncompleteReadError, wire.WireError):
                return None
            undo.pop_all()
        return reader, writer

    async def _forward(self, socket: str) -> Path | None:
        """Have the master forward a local socket, once for each socket of the machine; None if it does not run."""
        async with self._forwarding:
            if socket in self._forwards:
                return self._forwards[socket]
            local = commands.forward_path(Path(self._master.own_path), socket)
            # A master that existed before may still forward it.
            for verb in ("forward", "cancel", "forward"):
                if verb == "forward":
                    local.unlink(missing_ok=True)
                done = await self._control_forward(verb, local, socket)
                if local.exists():
                    self._forwards[socket] = local
                    return local
            if await self._master.check():
                raise failures.not_forwarded(self.name, done.errors)
            return None

    async def _control_forward(self, verb: str, local: Path, socket: str) -> Completed:
        words = commands.forward_words(self.name, self._master.path, verb, (local, socket), self._options)
        return await self._master.ask(words)

    async def _relayed(self, command: str) -> Streams:
        """Open a stream over a session of its own, for a machine whose sshd forwards no sockets."""
        limit = self._slots.stream_limit()
        if len(self._relays) >= limit:
            raise failures.no_streams(self.name, limit)
        async with AsyncExitStack() as undo:
            session = await self._open_session(command)
            undo.push_async_callback(self._end_session, session)
            try:
                first = await asyncio.wait_for(session.reader.read(1), _ANSWER_WITHIN)
            except asyncio.TimeoutError:
                raise failures.no_answer(self.name, _ANSWER_WITHIN) from None
            if first != _CONNECTED:
                raise failures.no_listener(self.name, await session.errors())
            undo.pop_all()
        relay = asyncio.get_running_loop().create_task(self._keep(session), name=f"ssh relay {self.name}")
        self._relays.add(relay)
        relay.add_done_callback(self._relays.discard)
        return session.reader, session.writer

    async def _keep(self, session: LongSession) -> None:
        """Hold the slot of a stream until it is closed at either end."""
        try:
            await session.process.wait()
        finally:
            await self._end_session(session)


def _delays() -> Iterator[float]:
    return itertools.chain(_RETRY_DELAYS, itertools.repeat(_RETRY_DELAYS[-1]))
