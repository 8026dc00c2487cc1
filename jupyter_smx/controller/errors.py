"""Errors of the controller, and functions that log them so that it continues.

Those of the records (another controller took over, a later job holds the cluster, the disk refuses), and unexpected
ones, which reach the job that waits for the task and the log.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jupyter_smx.agent.errors import NO_ROOM, OUTAGE_LIMIT, find_errno, is_outage, is_temporary
from jupyter_smx.model.errors import SmxError, UnavailableError

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator


class FencedError(SmxError):
    """A newer controller owns the records or the agent; a process that gets this must end without another write."""

    code = "Fenced"
    status = 503


class EndingError(SmxError):
    """This process ends and answers no request any more; clients repeat it, as after ``FencedError``."""

    code = "Fenced"
    status = 503


class RecordsError(UnavailableError):
    """The file of the records cannot be used: full disk, read-only, damaged. The decision was not recorded."""


class StaleError(SmxError):
    """The write was decided on old news: a verdict was given since, or the cluster has a higher lease."""

    code = "Stale"
    status = 409


class UnexpectedError(SmxError):
    """An error that no code raises on purpose: our fault, an engine's or the system's, never the user's."""


_FREE_SPACE = "for free disk space"
_DISK_FIELDS = ("data_dir", "destination", "source")
"""Fields of errors about files on disks of this machine; a time-out of a network is no fault of a disk."""


def is_records_disk_full(error: SmxError) -> bool:
    """Return True if the records cannot be written because their disk is full."""
    full = find_errno(error) in NO_ROOM or "disk is full" in str(error.__cause__ or error)
    return isinstance(error, RecordsError) and full


def is_disk_outage(error: SmxError) -> bool:
    """Return True if a file system of this machine failed in a way that usually passes, so that a retry makes sense."""
    return error.field in _DISK_FIELDS and is_outage(error)


def is_outage_over(since: float, now: float) -> bool:
    """Return True if a file system that fails ``since`` a moment (seconds) has failed for too long to wait longer."""
    return now - since >= OUTAGE_LIMIT


def disk_wait(error: SmxError) -> str:
    """Return what a step waits for, as in "Finalizing waits <for free disk space>"; "" if it is no disk.

    Lists show it, so it contains no path.
    """
    if isinstance(error, RecordsError):
        return (
            _FREE_SPACE if is_records_disk_full(error) else f"for its records ({error.__cause__ or 'unknown reason'})"
        )
    if error.field not in _DISK_FIELDS or not is_temporary(error):
        return ""
    number = find_errno(error)
    return _FREE_SPACE if number in NO_ROOM else f"for the file system ({os.strerror(number)})"


@contextmanager
def log_and_continue(log: logging.Logger, what: str, whose: str) -> Iterator[None]:
    """Log an SmxError and continue with the next item; the line has ``what``, with ``whose`` in it.

    :raises FencedError: another controller took over, so this one stops.
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

    :raises UnexpectedError: ``what``, a sentence's subject, failed.
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
