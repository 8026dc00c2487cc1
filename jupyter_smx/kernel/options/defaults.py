"""Default options of a kernel: the traits of ``SmxMagics``, and what ``%smx config`` shows and sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traitlets import Enum, HasTraits, Int, TraitError, TraitType

from jupyter_smx.kernel.front_end import LOG_LIMIT, STYLES
from jupyter_smx.kernel.text.tables import table_page
from jupyter_smx.model.errors import ValidationError, suggest_names
from jupyter_smx.model.options.convert import to_field
from jupyter_smx.model.options.table import ROWS, TABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_smx.kernel.text.tables import Page
    from jupyter_smx.model.options.option import Kind, Option


class OptionTrait(TraitType[str, Any]):
    """The default of one option, as text; a number from a configuration file is written as text."""

    default_value = ""
    info_text = "the value of the option, as on the line of %%train"

    def __init__(self, option: Option) -> None:
        super().__init__(help=f"Default of {option.spelling}: {option.help}.")
        self.option = option
        self.tag(config=True)

    def validate(self, obj: HasTraits, value: Any) -> str:
        """Return the text of a value.

        :raises TraitError: the option does not take it.
        """
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if not isinstance(text, str):
            self.error(obj, value)
        try:
            check_default(self.option, text)
        except ValidationError as error:
            from jupyter_smx.model.options.spelling import respell  # noqa: PLC0415 - only errors need it

            raise TraitError(str(respell(error, "configuration"))) from None
        return text


def check_default(option: Option, text: str) -> None:
    """Check a default as if it were on a line; "" stands for no default.

    :raises ValidationError: the option does not take it.
    """
    if text and option.is_plain:
        to_field(option, text)


class _OptionTraits(HasTraits):
    """A trait for each configurable option of the table."""

    locals().update({option.name: OptionTrait(option) for option in TABLE if option.configurable})


class Defaults(_OptionTraits):
    """Mixin of the magics, so that ``c.SmxMagics.keep_alive`` in ``ipython_config.py`` sets it for every kernel."""

    card = Enum(
        STYLES,
        "auto",
        help="How cards are drawn: mime (live in JupyterLab), widget (ipywidgets, for VS Code, Colab and others), "
        "or auto, which chooses by the program that started the kernel.",
    ).tag(config=True)

    log_limit = Int(
        LOG_LIMIT,
        min=0,
        help="Bytes of a job's log that a cell shows: the first and the last lines of a longer one. 0 shows all of it, "
        "as fast as a Jupyter server takes it.",
    ).tag(config=True)

    def configured_options(self) -> dict[str, str]:
        """Return the options that have a default here, by name."""
        return {name: getattr(self, name) for name in OPTION_NAMES if getattr(self, name)}

    def set_options(self, words: list[str]) -> None:
        """Set defaults from words like ``keep_alive=10m``; nothing after the ``=`` removes one. All of them or none.

        :raises ValidationError: an unknown name, one that is given twice, no ``=``, or a wrong value.
        """
        values: dict[str, str] = {}
        for name, value in map(_parse_assignment, words):
            if name in values:
                raise ValidationError(
                    f"%smx config: {name} is given twice: {values[name]} and {value}.",
                    field=name,
                    value=value,
                    rule="Use it once.",
                    cure="Remove one.",
                )
            values[name] = value
        for name, value in values.items():
            setattr(self, name, value or "auto" if name == "card" else value)

    def page(self) -> Page:
        """List the defaults with their values."""
        rows = [
            (name, getattr(self, name) or _built_in(name), "this kernel" if self._is_set(name) else "")
            for name in NAMES
        ]
        return table_page(("OPTION", "DEFAULT", "SET BY"), rows)

    def _is_set(self, name: str) -> bool:
        return getattr(self, name) not in ("", _built_in(name))


OPTION_NAMES = tuple(option.name for option in TABLE if option.configurable)
NAMES = (*OPTION_NAMES, "card")


def _built_in(name: str) -> str:
    return "auto" if name == "card" else ROWS[name].shown_default()


def defaults_for_line(kind: Kind, defaults: Mapping[str, str], typed: Mapping[str, Any]) -> dict[str, list[str]]:
    """Choose the defaults for a line of one magic that has the options ``typed``."""
    chosen = {name: [value] for name, value in defaults.items() if name not in typed and kind in ROWS[name].kinds}
    if "instance_groups" in typed:
        chosen.pop("instance_type", None)  # groups name their own types
    local = ROWS["engine"].default
    if (typed.get("engine") or chosen.get("engine") or [local])[0] == local:
        chosen.pop("image", None)  # hosts of the local engine have no image
        if typed.keys().isdisjoint(("image", "build")):  # an image alone takes another engine
            chosen.pop("shm_size", None)
    if "build" in typed:
        chosen.pop("image", None)
    return chosen


def _parse_assignment(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    name = name.removeprefix("--").replace("-", "_")
    if name not in NAMES:
        raise ValidationError(
            f"%smx config: {name} is not a setting with a default.",
            field="line",
            value=word,
            rule=f"The settings are {', '.join(NAMES)}.",
            cure=suggest_names(name, NAMES),
        )
    if not equals:
        raise ValidationError(
            f"%smx config: {word!r} has no =.", field="line", value=word, cure=f"For example {name}={_example(name)}."
        )
    if name == "card":
        _check_style(value)
        return name, value
    try:
        check_default(ROWS[name], value)
    except ValidationError as error:
        from jupyter_smx.model.options.spelling import respell  # noqa: PLC0415 - only errors need it

        raise respell(error, "keyword") from None
    return name, value


def _example(name: str) -> str:
    return "widget" if name == "card" else ROWS[name].example


def _check_style(value: str) -> None:
    if value and value not in STYLES:
        raise ValidationError(
            f"%smx config: card={value} does not exist.",
            field="card",
            value=value,
            rule=f"It is one of {', '.join(STYLES)}.",
            cure=suggest_names(value, STYLES),
        )
