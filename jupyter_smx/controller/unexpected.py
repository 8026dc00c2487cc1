"""What nobody foresaw: an error of ours to whoever waits for it, and in the log with the place where it happened."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from jupyter_smx.model.errors import SmxError

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator


class UnexpectedError(SmxError):
    """Something was raised that nobody raises on purpose: our fault, an engine's or the system's, never the user's."""


@contextmanager
def wrap_unexpected(log: logging.Logger, what: str) -> Iterator[None]:
    """Let nobody wait for ever for a task that died: what is raised inside on purpose passes, all else is told.

    :raises UnexpectedError: ``what``, a sentence's subject, broke off.
    """
    try:
        yield
    except SmxError:
        raise
    except Exception as error:  # the border of engines and of the system, which may raise anything
        log.exception("%s broke off", what)
        said = str(error) or "without a word"
        raise UnexpectedError(
            f"{what} broke off ({type(error).__name__}: {said}).", cure="The controller's log says where."
        ) from error
