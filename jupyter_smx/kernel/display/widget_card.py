"""The card as an ipywidget, for front ends without our renderer; it updates while its kernel runs."""

from __future__ import annotations

from collections import deque
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

from jupyter_smx.model.errors import SmxError

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_smx.kernel.display.card import Card

WIDGET_VIEW_MIME = "application/vnd.jupyter.widget-view+json"

_TREND = 8
"""Figures in the small chart of the CPU, as in JupyterLab."""


class Actions(Protocol):
    """Actions of a card's buttons. They raise only SmxError."""

    def stop(self, job_id: str) -> object:
        """Request the job's stop."""

    def log(self, job_id: str) -> str:
        """Return the end of its log."""

    def rerun(self, job_id: str) -> object:
        """Run it once more, under a card of its own."""


class WidgetCard:
    """One card: state of the job, its progress, and buttons to stop it, read its log and run it again."""

    def __init__(self, card: Card, actions: Actions) -> None:
        import ipywidgets  # noqa: PLC0415 - a tenth of a second that only these front ends pay

        self._job = card.id
        self._trend: deque[float] = deque(maxlen=_TREND)
        self._facts = ipywidgets.HTML()
        self._progress = ipywidgets.FloatProgress(min=0.0, max=1.0, description_allow_html=False)
        self._log = ipywidgets.HTML()
        self._stop_button = self._button("Stop", "stop", lambda: actions.stop(self._job))
        self._log_button = self._button("Log", "list", lambda: self._show_log(actions.log(self._job)))
        self._rerun_button = self._button("Rerun", "repeat", lambda: actions.rerun(self._job))
        self._error = ipywidgets.HTML()
        buttons = ipywidgets.HBox([self._stop_button, self._log_button, self._rerun_button])
        self.box = ipywidgets.VBox([self._facts, self._progress, buttons, self._error, self._log])
        self.draw(card)

    def _button(self, words: str, icon: str, act: Callable[[], object]) -> Any:
        import ipywidgets  # noqa: PLC0415 - as above

        made = ipywidgets.Button(description=words, icon=icon, tooltip=f"{words}: job {self._job[:6]}")

        def click(_: object) -> None:
            try:
                act()
            except SmxError as error:
                self._error.value = f"<b>{escape(str(error))}</b>"
            else:
                self._error.value = ""

        made.on_click(click)
        return made

    def draw(self, card: Card) -> None:
        """Show a newer snapshot where the card stands; callable from any thread."""
        usage = card.summary.usage
        if usage is not None and usage.cpu_percent is not None:
            self._trend.append(usage.cpu_percent)
        self._facts.value = card.html(tuple(self._trend))
        progress = card.summary.progress
        fraction = progress.fraction if progress is not None else None
        self._progress.layout.display = "none" if fraction is None or card.is_final else ""
        self._progress.value = fraction or 0.0
        self._stop_button.layout.display = "none" if card.is_final else ""
        self._rerun_button.layout.display = "" if card.is_final else "none"

    def bundle(self, static: dict[str, Any]) -> dict[str, Any]:
        """Return the MIME bundle: these widgets, and the static form for the saved notebook."""
        view = {"version_major": 2, "version_minor": 0, "model_id": self.box.model_id}
        return {WIDGET_VIEW_MIME: view, **static}

    def _show_log(self, text: str) -> None:
        said = escape(text) if text else "<i>The log is empty.</i>"
        self._log.value = f'<pre style="max-height: 20em; overflow: auto">{said}</pre>'
