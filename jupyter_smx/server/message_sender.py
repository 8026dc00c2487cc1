"""Send messages by e-mail, chat or webhook through apprise, while no page of JupyterLab is open."""

from __future__ import annotations

import asyncio
import logging
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from logging import Logger

    from jupyter_smx.server.pending_messages import Message, PendingMessages

POLL_INTERVAL = 1.0
"""Seconds between two checks whether a message is due; a check sends no request."""

LINES = 10
"""Maximum lines of one message; the rest is only counted."""

_NOISY_LOGGERS = ("apprise", "urllib3")

_READABLE_BY_OTHERS = stat.S_IRGRP | stat.S_IROTH


def read_addresses(urls: Sequence[str], file: str, log: Logger) -> list[str]:
    """Return the addresses of the configuration and of its file, which has one in a line; they are secrets."""
    found = [url.strip() for url in urls]
    if file:
        path = Path(file).expanduser()
        try:
            found += [line.strip() for line in path.read_text("utf-8").splitlines()]
            if path.stat().st_mode & _READABLE_BY_OTHERS:
                log.warning("jupyter_smx: message_urls_file is readable by other users; run: chmod 600 %s", path)
        except (OSError, UnicodeDecodeError) as error:
            log.warning("jupyter_smx: message_urls_file cannot be read (%s); its messages are not sent.", error)
    return [url for url in found if url and not url.startswith("#")]


class MessageSender:
    """Sends the due messages of the outbox. A message that cannot be sent is only logged."""

    def __init__(
        self,
        outbox: PendingMessages,
        urls: Sequence[str],
        call: Callable[[], None],
        log: Logger,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._pending = outbox
        self._urls = tuple(urls)
        self._call = call
        self._log = log
        self._now = now

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            await asyncio.sleep(POLL_INTERVAL)
            try:
                await self._send_due()
            except Exception:  # noqa: BLE001
                # The border of the task: no caller awaits it. The text of the error may contain an address.
                self._log.error("jupyter_smx: a message could not be sent.")

    async def _send_due(self) -> None:
        now = self._now()
        if self._pending.add_ending_pools(now):
            self._call()
        message = self._pending.take_due(now)
        if message is not None:
            for sentence in await asyncio.to_thread(send, message, self._urls):
                self._log.warning("jupyter_smx: %s", sentence)


def send(message: Message, urls: Sequence[str]) -> list[str]:
    """Send one message to all addresses, and give a sentence for each that did not take it; none has the address."""
    try:
        import apprise  # noqa: PLC0415 - optional, and slow to import
    except ImportError:
        return ["message_urls is set, but apprise is not installed: pip install 'jupyter-smx[notify]'."]
    for name in _NOISY_LOGGERS:
        # Their own log lines contain addresses, and paths that are keys.
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    left = len(message.lines) - LINES
    body = "\n".join((*message.lines[:LINES], *([f"and {left} more"] if left > 0 else [])))
    refusals = []
    for number, url in enumerate(urls, 1):
        target = apprise.Apprise.instantiate(url)
        if target is None:
            refusals.append(f"Address {number} of {len(urls)} in message_urls is not supported by apprise.")
        elif not target.notify(body=body, title=message.title):
            refusals.append(f"Address {number} of {len(urls)} in message_urls rejected the message.")
    return refusals
