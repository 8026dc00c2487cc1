"""Find the variables that a script sets for itself: literal changes of ``os.environ`` in its source. Pure."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from typing import Dict, Iterator, List, Optional, Tuple

from jupyter_smx.agent.system.named_tuple import NamedTuple

_READ = re.compile(
    r"environ(?:\.(?:get|copy|items|keys|values)\b|\s*\[[^\[\]\n]*\](?![^\n]*(?<![=!<>])=(?!=))|\s*[),:])"
)
"""Uses of ``environ`` that change nothing; most scripts have no others, and need not be parsed."""
_CHANGERS = ("environ", "putenv", "unsetenv")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ENVIRON, _PUT, _UNSET = "os.environ", "os.putenv", "os.unsetenv"


class Write(NamedTuple):
    """One change of a variable; ``value`` is None if it is removed; ``known`` is False if it is computed.

    ``default`` sets it only if it is not set. ``imported`` are the top-level packages that the script imports before
    the change, which do not see it.
    """

    name: str
    value: Optional[str]
    known: bool = True
    default: bool = False
    imported: Tuple[str, ...] = ()


def may_write(source: str) -> bool:
    """Return True if a source can change variables, without parsing it."""
    if not any(word in source for word in _CHANGERS):
        return False
    if re.search(r"\bdel\b[^\n]*environ", source) or any(word in source for word in _CHANGERS[1:]):
        return True
    return "environ" in _READ.sub("", source)


@lru_cache(maxsize=4)
def writes_in(source: str) -> Tuple[Write, ...]:
    """Return the changes that a source makes, in the order of its text; () where it is no Python.

    If the name of a variable is computed, each text in the source that can be a name counts as one.
    """
    if not may_write(source):
        return ()
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return tuple(_Reader(tree).writes())


class _Reader:
    """Reads one tree."""

    def __init__(self, tree: ast.Module) -> None:
        self._nodes = list(ast.walk(tree))
        self._imports = sorted(_certain_imports(tree.body))
        self._meanings: Dict[str, str] = {}
        for node in self._nodes:
            self._note_alias(node)

    def _note_alias(self, node: ast.AST) -> None:
        """Note by which names the source calls the module, its environment and its functions."""
        if isinstance(node, ast.Import):
            self._meanings.update({one.asname or one.name: "os" for one in node.names if one.name == "os"})
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            self._meanings.update({one.asname or one.name: f"os.{one.name}" for one in node.names})
        elif isinstance(node, ast.Assign) and self._meaning(node.value) == _ENVIRON:
            self._meanings.update({one.id: _ENVIRON for one in node.targets if isinstance(one, ast.Name)})

    def _meaning(self, node: ast.AST) -> str:
        """Return what a name refers to, '' if it is nothing of :mod:`os`."""
        if isinstance(node, ast.Name):
            return self._meanings.get(node.id, "")
        if isinstance(node, ast.Attribute) and self._meaning(node.value) == "os":
            return f"os.{node.attr}"
        return ""

    def writes(self) -> Iterator[Write]:
        """Yield each change with the packages that are imported before it."""
        found = [(node, write) for node in self._nodes for write in self._writes_of(node)]
        for node, write in sorted(found, key=lambda pair: (pair[0].lineno, pair[0].col_offset)):  # type: ignore[attr-defined]
            before = (name for line, name in self._imports if line < node.lineno)  # type: ignore[attr-defined]
            yield write._replace(imported=tuple(sorted(set(before))))

    def _writes_of(self, node: ast.AST) -> Iterator[Write]:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from self._assigned(target, node.value)
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            yield from self._augmented(node)
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                if self._is_item(target):
                    yield from self._named(target.slice, None)  # type: ignore[attr-defined]
        elif isinstance(node, ast.Call):
            yield from self._called(node)

    def _is_item(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Subscript) and self._meaning(node.value) == _ENVIRON

    def _assigned(self, target: ast.AST, value: Optional[ast.AST]) -> Iterator[Write]:
        if self._is_item(target):
            yield from self._named(target.slice, value or target)  # type: ignore[attr-defined]
        elif isinstance(target, (ast.Tuple, ast.List)):
            values = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
            for at, one in enumerate(target.elts):
                yield from self._assigned(one, values[at] if len(values) == len(target.elts) else one)

    def _augmented(self, node: ast.AST) -> Iterator[Write]:
        target, value = node.target, node.value  # type: ignore[attr-defined]
        if isinstance(node, ast.AnnAssign):
            yield from self._assigned(target, value)
        elif self._meaning(target) == _ENVIRON:
            yield from self._updated(value)
        else:
            yield from self._assigned(target, target)

    def _called(self, call: ast.Call) -> Iterator[Write]:
        function = call.func
        meaning = self._meaning(function)
        if meaning in (_PUT, _UNSET) and call.args:
            yield from self._named(call.args[0], call.args[-1] if meaning == _PUT else None)
        if not isinstance(function, ast.Attribute) or self._meaning(function.value) != _ENVIRON:
            return
        if function.attr == "update":
            for given in call.args:
                yield from self._updated(given)
            yield from self._keywords(call)
        elif function.attr in ("setdefault", "__setitem__") and len(call.args) > 1:
            default = function.attr == "setdefault"
            for write in self._named(call.args[0], call.args[1]):
                yield write._replace(default=default)
        elif function.attr in ("pop", "__delitem__") and call.args:
            yield from self._named(call.args[0], None)
        elif function.attr in ("clear", "popitem"):
            yield from self._any_name()

    def _updated(self, given: ast.AST) -> Iterator[Write]:
        """Read what :meth:`dict.update` gets."""
        if isinstance(given, ast.Dict):
            for key, value in zip(given.keys, given.values):
                yield from self._any_name() if key is None else self._named(key, value)
        elif isinstance(given, ast.Call) and isinstance(given.func, ast.Name) and given.func.id == "dict":
            for one in given.args:
                yield from self._updated(one)
            yield from self._keywords(given)
        else:
            yield from self._any_name()

    def _keywords(self, call: ast.Call) -> Iterator[Write]:
        for keyword in call.keywords:
            if keyword.arg is None:
                yield from self._updated(keyword.value)
            else:
                yield _write(keyword.arg, keyword.value)

    def _named(self, key: ast.AST, value: Optional[ast.AST]) -> Iterator[Write]:
        key = getattr(key, "value", key) if type(key).__name__ == "Index" else key  # of Python 3.8
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield _write(key.value, value)
        else:
            yield from self._any_name()

    def _any_name(self) -> Iterator[Write]:
        texts = (node.value for node in self._nodes if isinstance(node, ast.Constant))
        for text in dict.fromkeys(text for text in texts if isinstance(text, str) and _VARIABLE.fullmatch(text)):
            yield Write(text, None, known=False)


def _write(name: str, value: Optional[ast.AST]) -> Write:
    if value is None:
        return Write(name, None)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "str" and value.args:
        value = value.args[0]
        known = isinstance(value, ast.Constant)
    else:
        known = isinstance(value, ast.Constant) and isinstance(value.value, str)
    return Write(name, str(value.value), known=True) if known else Write(name, None, known=False)  # type: ignore[attr-defined]


def _certain_imports(statements: List[ast.stmt]) -> Iterator[Tuple[int, str]]:
    """Yield line and top-level package of each import that a script certainly runs."""
    for node in statements:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, one.name.partition(".")[0]) for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.module and not node.level:
                yield node.lineno, node.module.partition(".")[0]
        elif isinstance(node, (ast.With, ast.Try)):
            yield from _certain_imports(node.body)
