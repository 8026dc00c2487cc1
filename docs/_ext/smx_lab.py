"""What JupyterLab gets from us: settings from their schemas, plugins and commands from the TypeScript beside them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

from smx_markdown import definition, sentence, table
from sphinx.errors import ExtensionError

SOURCES = Path(__file__).parents[2] / "src"
SCHEMAS = Path(__file__).parents[2] / "schema"

_PLUGIN = re.compile(r"id: '(jupyter-smx:[\w-]+)',\s*description:\s*'([^']*)'")
# Those of commands stand in namespaces.
_COMMAND = re.compile(r"^  export const (\w+) = '(jupyter-smx:[\w-]+)'", re.MULTILINE)
_WORD = r"{}: (?:\([^)]*\) =>\s*)?trans\.__\(\s*'([^']*)'"


class Command(NamedTuple):
    """A command of JupyterLab: its id, what the palette says, and the longer sentence, if there is one."""

    id: str
    label: str
    caption: str


def _text() -> str:
    files = [
        path for kind in ("*.ts", "*.tsx") for path in sorted(SOURCES.rglob(kind)) if "__tests__" not in path.parts
    ]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def plugins() -> list[tuple[str, str]]:
    """Give id and sentence of every plugin.

    :raises ExtensionError: one has no sentence.
    """
    text = _text()
    found = sorted(_PLUGIN.findall(text))
    said = set(re.findall(r"JupyterFrontEndPlugin<[^=]*= \{\s*id: '([^']+)'", text))
    if said - {name for name, _ in found}:
        raise ExtensionError(f"Plugins without a description: {said - {name for name, _ in found}}")
    return found


def commands() -> list[Command]:
    """Give every command.

    :raises ExtensionError: one has no label that can be read here.
    """
    text = _text()
    return sorted(_command(text, name, identifier) for name, identifier in _COMMAND.findall(text))


def _command(text: str, name: str, identifier: str) -> Command:
    added = re.search(rf"addCommand\(\w*CommandIDs\.{name}, \{{(.*?)\n\s*\}}\)", text, re.DOTALL)
    label = re.search(_WORD.format("label"), added[1]) if added else None
    # Commands that differ in a word or two are added from a table.
    row = re.search(rf"\[\w*CommandIDs\.{name}, trans\.__\('([^']*)'\)", text)
    if added is not None and label is not None:
        caption = re.search(_WORD.format("caption"), added[1])
        return Command(identifier, label[1], caption[1] if caption else "")
    if row is not None:
        return Command(identifier, row[1], "")
    raise ExtensionError(f"The command {identifier} is added nowhere, or has no label.")


def settings(_: str) -> str:
    """Describe what JupyterLab's settings editor shows of each plugin."""
    return "\n\n".join(_plugin(path) for path in sorted(SCHEMAS.glob("*.json")))


def _plugin(path: Path) -> str:
    schema = json.loads(path.read_text(encoding="utf-8"))
    parts = [f"## {schema.get('title', path.stem)}", sentence(schema.get("description", ""))]
    parts.append(f"Settings of the plugin `jupyter-smx:{path.stem}`.")
    for name, row in schema.get("properties", {}).items():
        words = f" One of {', '.join(f'`{json.dumps(value)}`' for value in row['enum'])}." if "enum" in row else ""
        said = f"{row.get('type', 'any')}.{words} Default: `{json.dumps(row.get('default'))}`."
        parts.append(definition(f"`{name}`", sentence(row.get("description") or row.get("title", name)), said))
    keys = schema.get("jupyter.lab.shortcuts", [])
    if keys:
        rows = [(f"`{' '.join(key['keys'])}`", f"`{key['command']}`", f"`{key['selector']}`") for key in keys]
        parts.append(table(("Keys", "Command", "Where"), rows))
    return "\n\n".join(parts)


def lab_plugins(_: str) -> str:
    """List the plugins of the JupyterLab extension."""
    return table(("Plugin", "What it does"), [(f"`{name}`", said) for name, said in plugins()])


def lab_commands(_: str) -> str:
    """List the commands of the JupyterLab extension."""
    rows = [(found.label, f"`{found.id}`", found.caption) for found in commands()]
    return table(("Command", "Id", "What it does"), rows)
