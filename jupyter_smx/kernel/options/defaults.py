"""What ``%smx config`` shows and sets: options that the magics of this kernel take where a line has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traitlets import Enum, HasTraits, Unicode

from jupyter_smx.kernel.front_end import STYLES
from jupyter_smx.kernel.text.pages import table_page
from jupyter_smx.model import duration
from jupyter_smx.model.errors import ValidationError, suggest_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.kernel.text.pages import Page


class Defaults(HasTraits):
    """Mixed into the magics, so that ``c.SmxMagics.keep_alive`` in ``ipython_config.py`` sets them for every kernel."""

    engine = Unicode("", help="Engine of jobs whose line has no --engine.").tag(config=True)
    image = Unicode("", help="Image of jobs whose line names none, on an engine that has images.").tag(config=True)
    instance_type = Unicode("", help="Instance type of jobs whose line names none.").tag(config=True)
    keep_alive = Unicode("", help="How long hosts stay warm where a line does not say it: 600, 10m, 1h.").tag(
        config=True
    )
    card = Enum(
        STYLES,
        "auto",
        help="How cards are drawn: mime (live in JupyterLab), widget (ipywidgets, for VS Code, Colab and others), "
        "or auto, which looks at who started the kernel.",
    ).tag(config=True)

    def configured_options(self) -> dict[str, str]:
        """Give the options of jobs that are set, by name."""
        return {name: getattr(self, name) for name in _OPTIONS if getattr(self, name)}

    def set_options(self, words: list[str]) -> None:
        """Set them from words like ``keep_alive=10m``; nothing after the ``=`` takes one back. All of them or none.

        :raises ValidationError: another name, no ``=``, or a value that cannot be used.
        """
        for name, value in [_parse_assignment(word) for word in words]:
            setattr(self, name, value or _BUILT_IN[name] if name == "card" else value)

    def page(self) -> Page:
        """List them with their values."""
        rows = [
            (name, getattr(self, name) or built_in, "this kernel" if getattr(self, name) not in ("", built_in) else "")
            for name, built_in in _BUILT_IN.items()
        ]
        return table_page(("OPTION", "DEFAULT", "SET BY"), rows)


_BUILT_IN = {"engine": "local", "image": "", "instance_type": "local", "keep_alive": "0", "card": "auto"}
_OPTIONS = ("engine", "image", "instance_type", "keep_alive")
NAMES = tuple(_BUILT_IN)


def defaults_for_line(defaults: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, list[str]]:
    """Choose those that stand for options which a line does not have; ``given`` are the ones that it has."""
    left = {name: [value] for name, value in defaults.items() if name not in given}
    if "group" in given:
        left.pop("instance_type", None)  # groups name their own types
    if (given.get("engine") or left.get("engine") or [_BUILT_IN["engine"]])[0] == _BUILT_IN["engine"]:
        left.pop("image", None)  # its hosts are made of none
    return left


def _parse_assignment(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    name = name.removeprefix("--").replace("-", "_")
    if name not in NAMES:
        raise ValidationError(
            f"%smx config: {name} has no default that can be set.",
            field="line",
            value=word,
            rule=f"There are {', '.join(NAMES)}.",
            cure=suggest_names(name, NAMES),
        )
    if not equals:
        raise ValidationError(
            f"%smx config: {word!r} has no =.", field="line", value=word, cure=f"For example {name}=…."
        )
    if name == "keep_alive" and value:
        duration.parse(value)
    if name == "card" and value and value not in STYLES:
        raise ValidationError(
            f"%smx config: card={value} is no way to draw a card.",
            field="card",
            value=value,
            rule=f"There are {', '.join(STYLES)}.",
            cure=suggest_names(value, STYLES),
        )
    return name, value
