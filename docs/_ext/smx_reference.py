"""Generated reference pages: ``{smx} options`` and its like read the tables that the program itself reads."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from typing import TYPE_CHECKING, Any, ClassVar

import smx_lab
from pygments.lexer import bygroups, inherit, using
from pygments.lexers.python import Python3Lexer
from pygments.token import Keyword, Operator, Text
from smx_markdown import definition, sentence, table
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective
from traitlets.traitlets import DefaultHandler

import jupyter_smx
from jupyter_smx.cli import conventions
from jupyter_smx.cli.main import SUBCOMMANDS, parser_of
from jupyter_smx.controller.app import ControllerApp
from jupyter_smx.engines import registry
from jupyter_smx.kernel.magics.magics import SmxMagics
from jupyter_smx.kernel.options.help_pages import help_text
from jupyter_smx.kernel.subcommands.table import rows_on
from jupyter_smx.model import http_routes
from jupyter_smx.model.errors import SmxError
from jupyter_smx.model.options.table import TABLE
from jupyter_smx.model.records.cluster import ClusterState, WarmPoolStatus
from jupyter_smx.model.spec.instance import catalogue
from jupyter_smx.model.status import SecondaryStatus, is_final, message_of, status_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from docutils import nodes
    from sphinx.application import Sphinx
    from traitlets import HasTraits, TraitType

    from jupyter_smx.model.options.option import Option

_WORDS = {"Unicode": "str", "Int": "int", "Float": "float", "Bool": "bool", "List": "list", "Dict": "dict"}


# What a notebook and a terminal understand


def magic_options(_: str) -> str:
    """List the options of ``%%train`` and ``%%process``."""
    return "\n\n".join(_option(option) for option in TABLE)


def _option(option: Option) -> str:
    *short, long = option.spellings
    value = f" {option.metavar}" if option.metavar else ""
    terms = ", ".join([f"`{word}`" for word in short] + [f"`{long}{value}`"])
    example = f"For example `{long} {option.example}`." if option.example else ""
    only = f"`%%{option.kinds[0]}` only." if len(option.kinds) == 1 else ""
    return definition(terms, " ".join(filter(None, [help_text(option), only, example, _elsewhere(option)])))


def _elsewhere(option: Option) -> str:
    """Write what the option is called in Python, in configuration and by SageMaker."""
    names = option.sagemaker
    rows = {
        "Python": f"`{option.name}=`" if option.is_keyword else "",
        "Configuration": f"`c.SmxMagics.{option.name}`" if option.configurable else "",
        "SageMaker's API": ", ".join(
            f"`{path}`" for path in dict.fromkeys((names.training_api, names.processing_api)) if path
        ),
        "SDK 2": ", ".join(f"`{word}`" for word in dict.fromkeys((names.estimator, names.processor)) if word),
        "SDK 3": f"`{names.trainer.rpartition(':')[2]}`" if names.trainer else "",
    }
    return " ".join(f"{where}: {text}." for where, text in rows.items() if text)


def subcommands(_: str) -> str:
    """List what ``%smx`` can do."""
    rows = [
        (f"`{f'%smx {row.name} {row.usage(terminal=False)}'.rstrip()}`", sentence(row.help))
        for row in rows_on("notebook")
    ]
    return table(("Line", "What it does"), rows)


def command_line(_: str) -> str:
    """Describe every subcommand of ``jupyter smx`` from its parser."""
    return "\n\n".join(_subcommand(found) for found in SUBCOMMANDS.values())


def _subcommand(found: Any) -> str:
    parser = parser_of(found)
    actions = parser._actions  # noqa: SLF001 - argparse has no other way to look at a parser
    own = [_argument(action) for action in actions]
    return "\n\n".join(
        [f"## jupyter smx {found.row.name}", f"```text\n{parser.usage}\n```", sentence(found.row.help), *own]
    )


def _argument(action: argparse.Action) -> str:
    if not action.option_strings:
        return definition(f"`{action.metavar}`", sentence(str(action.help)))
    *short, long = action.option_strings
    value = f" {action.metavar}" if action.nargs != 0 else ""
    terms = ", ".join([f"`{word}`" for word in short] + [f"`{long}{value}`"])
    return definition(terms, sentence(str(action.help).replace("%%", "%")))


def exit_codes(_: str) -> str:
    """List the exit codes."""
    return table(("Code", "Meaning"), [(f"`{code}`", sentence(text)) for code, text in conventions.EXIT_CODES.items()])


# Errors, statuses, instance types


def error_classes() -> list[type[SmxError]]:
    """Find every error class of the package, the base first, each after its own base."""
    for module in pkgutil.walk_packages(jupyter_smx.__path__, "jupyter_smx."):
        if not module.name.startswith(("jupyter_smx.testing", "jupyter_smx.controller.db.migrations")):
            if module.name.endswith("__main__"):
                continue
            importlib.import_module(module.name)

    def below(kind: type[SmxError]) -> list[type[SmxError]]:
        return [kind, *(found for child in kind.__subclasses__() for found in below(child))]

    return [kind for kind in below(SmxError) if not kind.__module__.startswith("jupyter_smx.testing")]


def errors(_: str) -> str:
    """List the error classes with their codes."""
    rows = [
        (f"`{kind.__name__}`", f"`{kind.code}`", str(kind.status), (inspect.getdoc(kind) or "").split("\n\n")[0])
        for kind in error_classes()
    ]
    return table(("Class", "Code", "HTTP", "Meaning"), rows)


def statuses(_: str) -> str:
    """List SageMaker's statuses as a job goes through them."""
    rows = [
        (f"`{step.value}`", f"`{status_of(step).value}`", message_of(step), "yes" if is_final(step) else "")
        for step in SecondaryStatus
    ]
    return table(("SecondaryStatus", "Status", "What is shown", "Final"), rows)


def pool_statuses(_: str) -> str:
    """List the states of a pool, and what the record of a job says of the pool that it left."""
    rows = [("a pool", ", ".join(f"`{state.value}`" for state in ClusterState))]
    rows.append(("`WarmPoolStatus` of a job", ", ".join(f"`{status.value}`" for status in WarmPoolStatus)))
    return table(("Of", "Words"), rows)


def instance_types(_: str) -> str:
    """List the catalogue."""
    rows = [
        (
            f"`{row.name}`",
            str(row.vcpus),
            f"{row.memory_gib:g}" if row.memory_gib else "its share",
            str(row.gpus),
            "unknown" if row.price_per_hour is None else f"{row.price_per_hour:.3f}",
            row.source,
            row.hardware_source,
        )
        for row in catalogue().values()
    ]
    return table(("Type", "vCPUs", "Memory (GiB)", "GPUs", "US dollars per hour", "Price from", "Rest from"), rows)


# What an administrator sets


def traits_of(kind: type[HasTraits]) -> dict[str, TraitType[Any, Any]]:
    """Give the configurable traits that classes of this package add to those of traitlets."""
    ours = [base for base in kind.__mro__ if base.__module__.startswith("jupyter_smx.")]
    names = {name for base in ours for name in base.class_own_traits(config=True)}  # type: ignore[attr-defined]
    return {name: trait for name, trait in kind.class_traits(config=True).items() if name in names}


def configurable() -> dict[str, type[HasTraits]]:
    """Give every class that has traits, by name: controller, magics, and each installed engine."""
    found = [ControllerApp, SmxMagics, *(_engine_class(name) for name in sorted(registry.installed_engines()))]
    return {kind.__name__: kind for kind in found}


def _engine_class(name: str) -> type[Any]:
    """Import an engine.

    :raises ExtensionError: it cannot be imported, so that its page would be empty.
    """
    try:
        return registry.engine_class(name)
    except SmxError as error:
        raise ExtensionError(f"The engine {name!r} cannot be described: {error}") from error


def is_computed(kind: type[HasTraits], name: str) -> bool:
    """Say whether the default depends on the machine or the process."""
    found = (member for base in kind.__mro__ for member in vars(base).values() if isinstance(member, DefaultHandler))
    return any(member.trait_name == name for member in found)


def rule_of_default(text: str) -> str:
    """Take the rule of a computed default out of a help text: what follows "by default" or "empty means".

    :raises ExtensionError: the text has none, so that the page could only show what this machine happens to give.
    """
    found = re.search(r"(?:by default|empty means) ([^.;:]+)", text)
    if found is None:
        raise ExtensionError(f"A default that is computed must be told by its help text: {text!r}")
    return found[1]


def traits(argument: str) -> str:
    """Describe the traits of one class, or of ``engines``: name, type, default, meaning, and how to set it."""
    known = configurable()
    if argument == "engines":
        engines = [name for name in known if name not in ("ControllerApp", "SmxMagics")]
        return "\n\n".join(f"## {name}\n\n{_engine(known[name])}\n\n{traits(name)}" for name in engines)
    kind = known[argument]
    return "\n\n".join(_trait(kind, name, trait) for name, trait in traits_of(kind).items())


def _engine(kind: type[Any]) -> str:
    declared = kind().capabilities if isinstance(kind.capabilities, property) else kind.capabilities
    words = [f"{field} {_format_capability(value)}" for field, value in _fields(declared)]
    doc = (inspect.getdoc(kind) or "").split("\n\n")[0]
    return f"`--engine {kind.name}`. {doc} Capabilities: {', '.join(words)}."


def _format_capability(value: object) -> str:
    return value if isinstance(value, str) else "yes" if value else "no"


def _fields(struct: Any) -> list[tuple[str, Any]]:
    return [(name, getattr(struct, name)) for name in struct.__struct_fields__]


def _trait(kind: type[HasTraits], name: str, trait: TraitType[Any, Any]) -> str:
    text = str(trait.help)
    default = rule_of_default(text) if is_computed(kind, name) else f"`{trait.default_value_repr()}`"
    line = f"c.{kind.__name__}.{name}"
    said = f"{_type(trait)}{_bounds(trait)}. Default: {default}."
    return definition(f"`{line}`", sentence(text), said)


def _type(trait: Any) -> str:
    if type(trait).__name__ == "Enum":
        return "One of " + ", ".join(f"`{value!r}`" for value in trait.values)
    inner = [getattr(trait, name, None) for name in ("_key_trait", "_value_trait", "_trait")]
    names = [_WORDS.get(type(found).__name__, "any") for found in inner if found is not None]
    name = type(trait).__name__
    word = _WORDS.get(name, name) + (f" of {' to '.join(names)}" if any(name != "any" for name in names) else "")
    return word + (" or None" if trait.allow_none else "")


def _bounds(trait: Any) -> str:
    low, high = getattr(trait, "min", None), getattr(trait, "max", None)
    words = [f"{word} {value}" for word, value in (("at least", low), ("at most", high)) if value is not None]
    return f", {', '.join(words)}" if words else ""


# HTTP


def routes(argument: str) -> str:
    """List the routes of the ``server`` extension or of the ``controller``."""
    found = http_routes.served_routes() if argument == "server" else http_routes.ROUTES
    return "\n\n".join(_route(route, argument) for route in found)


def _route(route: http_routes.Route[Any], process: str) -> str:
    proxy = route.proxy if process == "server" else None
    prefix = http_routes.SERVER_PREFIX if process == "server" else http_routes.CONTROLLER_PREFIX
    query = route.query if proxy is None else route.proxy_query()
    longest = http_routes.MAX_WAIT if proxy is None else http_routes.SERVER_MAX_WAIT
    text = sentence((proxy and proxy.help) or route.help)
    starts = " Starts a controller unless one runs." if proxy and proxy.starts_controller else ""
    twin = f" `POST {prefix}{proxy.post_path}` does the same." if proxy and proxy.post_path else ""
    return definition(
        f"`{route.method} {prefix}{route.path.replace(':path', '')}`",
        text + starts + twin,
        f"Body: `{route.body}`." if route.body else "",
        *(_query_parameter(each, longest) for each in query),
        f"Answer: {route.status} {(proxy and proxy.answer) or route.answer}.",
    )


def _query_parameter(parameter: http_routes.QueryParameter[Any], longest: float) -> str:
    limits = []
    if not isinstance(parameter.default, str) and "default" not in parameter.help:
        limits.append(f"default {int(parameter.default):,}")
    if parameter.maximum < http_routes.MAX_OFFSET:
        maximum = longest if parameter is http_routes.WAIT else parameter.maximum
        limits.append(f"at most {int(maximum):,}")
    suffix = f" ({', '.join(limits)})" if limits else ""
    return f"`{parameter.name}`: {parameter.help}{suffix}."


GENERATORS: dict[str, Callable[[str], str]] = {
    "options": magic_options,
    "subcommands": subcommands,
    "command-line": command_line,
    "exit-codes": exit_codes,
    "errors": errors,
    "statuses": statuses,
    "pool-statuses": pool_statuses,
    "instance-types": instance_types,
    "traits": traits,
    "settings": smx_lab.settings,
    "lab-plugins": smx_lab.lab_plugins,
    "lab-commands": smx_lab.lab_commands,
    "routes": routes,
}


class Generated(SphinxDirective):
    """``{smx} NAME [ARGUMENT]``: the Markdown of one generator, parsed where it stands."""

    required_arguments = 1
    optional_arguments = 1
    has_content: ClassVar[bool] = False

    def run(self) -> list[nodes.Node]:
        """Write and parse it."""
        name, argument = self.arguments[0], self.arguments[1] if len(self.arguments) > 1 else ""
        return self.parse_text_to_nodes(GENERATORS[name](argument), allow_section_headings=True)


def _lexer() -> type[Any]:
    from IPython.lib import lexers  # noqa: PLC0415 - moved between versions, and only pages need it

    class CellLexer(lexers.IPython3Lexer):  # type: ignore[misc]
        """IPython, with the code under ``%%train`` and ``%%process`` read as Python."""

        name = "IPython cell"
        aliases: ClassVar[list[str]] = ["ipython"]
        tokens: ClassVar[dict[str, Any]] = {
            "root": [
                (
                    r"(?s)\A(\s*)(%%)(train|process)((?:[^\\\n]|\\.)*\n)(.*)",
                    bygroups(Text, Operator, Keyword, Text, using(Python3Lexer)),
                ),
                inherit,
            ]
        }

    return CellLexer


def one_field_each(lines: list[str]) -> list[str]:
    """Write ``:raises A, B: text`` as a field for each class, which is what Sphinx can link."""
    found: list[str] = []
    for line in "\n".join(lines).replace("\n    ", " ").split("\n"):
        several = re.match(r":raises ([\w.]+(?:, [\w.]+)+):(.*)", line)
        found += [f":raises {name}:{several[2]}" for name in several[1].split(", ")] if several else [line]
    return found


def _fields_of_docstring(*event: Any) -> None:
    lines = event[-1]
    if any(line.startswith(":raises") for line in lines):
        start = next(number for number, line in enumerate(lines) if line.startswith(":"))
        lines[start:] = one_field_each(lines[start:])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive and the lexer with Sphinx."""
    app.add_directive("smx", Generated)
    app.add_lexer("ipython", _lexer())
    app.connect("autodoc-process-docstring", _fields_of_docstring)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
