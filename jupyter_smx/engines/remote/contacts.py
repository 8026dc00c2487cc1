"""Last answers of machines, and since when others have been silent, so that a machine that is off delays no launch."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jupyter_smx.engines.remote.machine import NoAnswerError, NoSessionError
from jupyter_smx.model.errors import RefusedError, SmxError, UnavailableError
from jupyter_smx.model.text import format_moment

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

FRESH = 1.0
"""Seconds for which a machine that answered is not asked again."""
WAIT = 3.0
"""Seconds that a machine has for its answer while another one has answered."""


class Contact(Struct, frozen=True):
    """The last contact with a machine.

    ``called_at`` is on a monotonic clock. ``error`` is why it was silent, ``since`` the seconds since the epoch at
    which its silence was first noted; without an error it answered.
    """

    called_at: float
    error: SmxError | None = None
    since: float = 0.0


class Contacts:
    """Checks if machines answer, with one request at a time for each, which all callers share.

    ``ask`` calls one machine and raises if it does not answer. ``clock`` is monotonic; ``wall_clock`` returns seconds
    since the epoch.
    """

    def __init__(
        self,
        ask: Callable[[str], Coroutine[Any, Any, object]],
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._wall_clock = wall_clock
        self._contacts: dict[str, Contact] = {}
        self._questions: dict[str, asyncio.Task[object]] = {}

    def is_silent(self, machine: str) -> bool:
        """Return True if the last contact with a machine failed."""
        known = self._contacts.get(machine)
        return known is not None and known.error is not None

    def has_answered(self, machine: str) -> bool:
        """Return True if a machine answered at its last contact."""
        known = self._contacts.get(machine)
        return known is not None and known.error is None

    def silent_since(self, machine: str) -> str:
        """Return since when a machine has not answered, or could not be used; "" if its last contact succeeded."""
        known = self._contacts.get(machine)
        return "" if known is None or known.error is None else self._moment(known)

    def unreachable_reason(self, machine: str) -> str:
        """Return since when a machine is not reachable, and why; "" if it answered last, or was never asked."""
        known = self._contacts.get(machine)
        if known is None or known.error is None:
            return ""
        what = "cannot be used" if isinstance(known.error, RefusedError) else "is not reachable"
        return f"{machine} {what} since {self._moment(known)}: {known.error.message}"

    def dated(self, machine: str, error: SmxError) -> SmxError:
        """Add to a machine's error since when it is not reachable, if that is noted and the error is no refusal."""
        known = self._contacts.get(machine)
        if known is None or known.error is None or isinstance(error, RefusedError):
            return error
        words = f"Not reachable since {self._moment(known)}: {error.message}"
        more = {"field": error.field, "value": error.value, "rule": error.rule, "cure": error.cure}
        return type(error)(words, **more, transient=error.transient)

    def note_answer(self, machine: str) -> None:
        """Note that a machine answered."""
        self._contacts[machine] = Contact(self._clock())

    def note_error(self, machine: str, error: SmxError) -> None:
        """Note why a machine did not answer; the lack of a free session is an answer."""
        if isinstance(error, NoSessionError):
            self.note_answer(machine)
            return
        before = self._contacts.get(machine)
        since = before.since if before is not None and before.error is not None else self._wall_clock()
        self._contacts[machine] = Contact(self._clock(), error, since)

    async def refresh(self, machines: Iterable[str]) -> None:
        """Call the machines that have not answered within the last second.

        Do not wait for a machine that was silent before, and at most three seconds for another one, if any of them
        answers. Their calls continue, and the next call finds the answers.

        :raises UnavailableError: none of them answers; the first such error, with since when.
        :raises RefusedError: none of them can be used; the error of the first one.
        """
        names = [*machines]
        were_silent = {name for name in names if self.is_silent(name)}
        questions = {name: self._question(name) for name in names if not self._is_fresh(name)}
        first = [question for name, question in questions.items() if name not in were_silent]
        if first:
            await asyncio.wait(first, timeout=WAIT)
        await self._wait_for_one(names, questions)
        answered = [name for name in names if self._answers(name, questions)]
        for name, question in questions.items():
            if answered and self._is_open(name, question) and name not in were_silent:
                words = f"{name} did not answer within {WAIT:g} s."
                self.note_error(name, NoAnswerError(words, transient=True))
        if not answered and names:
            raise self._last_error(names)

    async def close(self) -> None:
        """End the questions that are under way."""
        questions = [*self._questions.values()]
        for question in questions:
            question.cancel()
        await asyncio.gather(*questions, return_exceptions=True)

    async def _wait_for_one(self, names: list[str], questions: dict[str, asyncio.Task[object]]) -> None:
        """Wait until a machine has answered, or none is asked any more."""
        while not any(self._answers(name, questions) for name in names):
            pending = [question for name, question in questions.items() if self._is_open(name, question)]
            if not pending:
                return
            await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)

    def _answers(self, name: str, questions: dict[str, asyncio.Task[object]]) -> bool:
        return self.has_answered(name) and (name not in questions or not self._is_open(name, questions[name]))

    def _is_fresh(self, machine: str) -> bool:
        is_pending = machine in self._questions
        return (
            self.has_answered(machine) and not is_pending and self._clock() - self._contacts[machine].called_at < FRESH
        )

    def _question(self, machine: str) -> asyncio.Task[object]:
        if machine not in self._questions:
            question = asyncio.get_running_loop().create_task(self._ask(machine), name=f"contact {machine}")
            self._questions[machine] = question
            question.add_done_callback(partial(self._note_end, machine))  # before those of callers that wait for it
        return self._questions[machine]

    def _is_open(self, machine: str, question: asyncio.Task[object]) -> bool:
        """Return True until the end of a question is noted, which is a moment after that of its task."""
        return self._questions.get(machine) is question

    def _note_end(self, machine: str, question: asyncio.Task[object]) -> None:
        del self._questions[machine]
        error = asyncio.CancelledError() if question.cancelled() else question.exception()
        if error is None:
            self.note_answer(machine)
        elif isinstance(error, SmxError):
            self.note_error(machine, error)
        else:
            self.note_error(machine, UnavailableError(f"{machine} cannot be asked ({error!r}).", transient=True))

    def _last_error(self, machines: Iterable[str]) -> SmxError:
        """Choose the error if no machine answered; prefer one that may be transient, so that the job waits."""
        errors = {name: error for name in machines if (error := self._contacts[name].error) is not None}
        waits = [name for name, error in errors.items() if not isinstance(error, RefusedError)]
        name = next(iter(waits or errors))
        return self.dated(name, errors[name])

    def _moment(self, known: Contact) -> str:
        return format_moment(known.since, self._wall_clock())
