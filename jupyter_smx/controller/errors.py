"""Errors of the controller, and functions that log them so that it continues.

Those of the records (another controller took over, a later job holds the cluster, the disk refuses), and unexpected
ones, which reach the job that waits for the task and the log.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from jupyter_smx.model.errors import SmxError, UnavailableError

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator


class FencedError(SmxError):
    """A newer controller owns the records or the agent; a process that gets this must end without another write."""

    code = "Fenced"
    status = 503


class RecordsError(UnavailableError):
    """The file of the records refuses: full disk, read-only, damaged. What was decided was not written down."""


class StaleError(SmxError):
    """The write was decided on old news: a verdict was given since, or the cluster has a higher lease."""

    code = "Stale"
    status = 409


class UnexpectedError(SmxError):
    """An error that no code raises on purpose: our fault, an engine's or the system's, never the user's."""


@contextmanager
def log_and_continue(log: logging.Logger, what: str, whose: str) -> Iterator[None]:
    """Let what cannot be done for one keep no other from its turn; the log says ``what``, with ``whose`` in it.

    :raises FencedError: another controller took over, so nothing is done for anybody any more.
    """
    try:
        yield
    except FencedError:
        raise
    except SmxError as error:
        log.warning("%s: %s", what.format(whose), error)


@contextmanager
def wrap_unexpected(log: logging.Logger, what: str) -> Iterator[None]:
    """Turn an unexpected error into one that is handled, so that no job waits for a task that died.

    A ``SmxError`` passes unchanged; any other error is logged with its traceback.

    :raises UnexpectedError: ``what``, a sentence's subject, broke off.
    """
    try:
        yield
    except SmxError:
        raise
    except Exception as error:  # the border of engines and of the system, which may raise anything
        log.exception("%s failed unexpectedly", what)
        said = str(error) or "no message"
        raise UnexpectedError(
            f"{what} failed unexpectedly ({type(error).__name__}: {said}).",
            cure="See controller.log in the data folder.",
        ) from error
