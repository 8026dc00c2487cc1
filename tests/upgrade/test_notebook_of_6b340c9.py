"""A notebook that 6b340c9 executed: its saved cards are valid, and what draws cards today writes the same."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import nbformat
import pytest
from msgspec import convert, to_builtins
from nbconvert import HTMLExporter
from recorded_data import FIXTURE

from jupyter_smx.kernel.display.card import MIME
from jupyter_smx.model.records.job import JobSummary
from jupyter_smx.model.spec.array import ArraySummary

CARDS = ("fit", "squares", "grid", "broken")


@pytest.fixture(scope="module")
def notebook() -> Any:
    """Give the executed notebook."""
    return nbformat.read(FIXTURE / "cards.ipynb", as_version=4)


@pytest.fixture(scope="module")
def cards(notebook: Any) -> dict[str, Any]:
    """Give the MIME bundles of the cards, by the base name of their job or array."""
    bundles = [output.data for cell in notebook.cells for output in cell.outputs if MIME in output.get("data", {})]
    return {bundle[MIME]["name"].partition("-")[0]: bundle for bundle in bundles}


class Balanced(HTMLParser):
    """Reads HTML, and gives its text; each element must be closed in its turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_kind_of_output_is_still_that_of_cards() -> None:
    assert MIME == "application/vnd.jupyter-smx.card+json"


def test_the_notebook_is_valid_and_has_each_card(notebook: Any, cards: dict[str, Any]) -> None:
    nbformat.validate(notebook)
    assert tuple(cards) == CARDS


@pytest.mark.parametrize("name", CARDS)
def test_the_html_of_a_card_is_valid_and_complete(name: str, cards: dict[str, Any]) -> None:
    reader = Balanced()
    reader.feed(cards[name]["text/html"])
    assert reader.open == []
    assert cards[name][MIME]["name"] in reader.text


@pytest.mark.parametrize("name", CARDS)
def test_what_a_card_holds_is_what_records_of_today_have(name: str, cards: dict[str, Any]) -> None:
    card = cards[name][MIME]
    if name == "grid":
        # The end of an array is newer than the card.
        assert to_builtins(convert(card["array"], ArraySummary)) == card["array"] | {"ended_at": None}
    else:
        # So is the time of the last change.
        assert to_builtins(convert(card["summary"], JobSummary)) == card["summary"] | {"modified_at": 0.0}


def test_the_notebook_becomes_a_page(notebook: Any) -> None:
    page, _ = HTMLExporter().from_notebook_node(notebook)
    for words in ("Completed after", "3 of 3 done", "KeyError", "jp-smx-card"):
        assert words in page
