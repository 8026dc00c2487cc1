"""Output for the kernel's user: MIME bundles in a front end, lines of text in a terminal."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

from jupyter_smx.kernel.display.card import MIME, Card
from jupyter_smx.kernel.display.widget_card import WidgetCard
from jupyter_smx.kernel.front_end import uses_widgets

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.kernel.display.widget_card import Actions


class CardLike(Protocol):
    """A card, of a job or of an array."""

    @property
    def id(self) -> str:
        """Return the id of its job or array."""

    @property
    def is_final(self) -> bool:
        """Return True if no further change can come."""

    def bundle(self) -> dict[str, Any]:
        """Return the MIME bundle."""

    def line(self) -> str:
        """Format it in one line."""


class Screen:
    """Shows cards and pages of one shell. ``shell`` is None in a plain Python process, where nothing is shown.

    ``style`` is one of :data:`~jupyter_smx.kernel.front_end.STYLES`. ``records_id`` returns the ID of the records, by
    which a page finds that its server does not have the jobs of this kernel.
    """

    def __init__(self, shell: Any, actions: Actions, records_id: Callable[[], str] = str) -> None:
        self.style = "auto"
        self._shell = shell
        self._actions = actions
        self._records_id = records_id
        self._widgets: dict[str, WidgetCard] = {}
        self._lock = threading.Lock()
        self._closed: set[str] = set()
        self._starting: set[str] = set()
        """IDs of the jobs and arrays whose start card has no successor yet."""

    @property
    def has_front_end(self) -> bool:
        """Return True for a front end that draws displays (a kernel), False for text only (a terminal)."""
        return getattr(self._shell, "kernel", None) is not None

    def show_start(self, card: CardLike) -> None:
        """Show a card until :meth:`show` replaces it by one with the same id; a terminal shows nothing."""
        if self.has_front_end:
            self._starting.add(card.id)
            self._publish(self._bundle(card), transient={"display_id": _display_id(card)})

    def show(self, card: CardLike) -> None:
        """Put a new card under the running cell; in a terminal, its line."""
        if self.has_front_end:
            bundle = self._bundle(card)
            if isinstance(card, Card) and uses_widgets(self.style, self._shell.user_ns):
                made = self._widgets[card.id] = WidgetCard(card, self._actions)
                bundle = made.bundle(bundle)
            how = {"update": True} if card.id in self._starting else {}
            self._starting.discard(card.id)
            self._publish(bundle, transient={"display_id": _display_id(card)}, **how)
        elif self._shell is not None:
            print(card.line())  # noqa: T201 - what the user reads in a terminal

    def update(self, card: CardLike) -> None:
        """Redraw a card in its place, from any thread; the card of a finished job is final."""
        if not self.has_front_end:
            return
        with self._lock:
            if card.id in self._closed:
                return
            bundle = self._bundle(card)
            made = self._widgets.get(card.id)
            if made is not None and isinstance(card, Card):
                made.draw(card)
                bundle = made.bundle(bundle)
            if card.is_final:
                self._closed.add(card.id)
                self._widgets.pop(card.id, None)
            if made is None or card.is_final:
                # Widgets update in place; their saved text only has to be correct at the end.
                self._publish(bundle, transient={"display_id": _display_id(card)}, update=True)

    def is_closed(self, card_id: str) -> bool:
        """Return True if the final card of a job or an array was drawn; no later one replaces it."""
        with self._lock:
            return card_id in self._closed

    def show_page(self, text: str, html: str) -> None:
        """Show a page that no card belongs to."""
        if self.has_front_end:
            self._publish({"text/plain": text, "text/html": html})
        else:
            print(text)  # noqa: T201 - what the user reads in a terminal

    def _bundle(self, card: CardLike) -> dict[str, Any]:
        bundle = card.bundle()
        bundle[MIME]["records_id"] = self._records_id()
        return bundle

    def _publish(self, bundle: dict[str, Any], **how: Any) -> None:
        self._shell.display_pub.publish(bundle, **how)


def _display_id(card: CardLike) -> str:
    return f"smx-{card.id}"
