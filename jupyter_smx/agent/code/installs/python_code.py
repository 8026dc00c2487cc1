"""Find calls that install packages in Python code: commands for other programs, and pip as a library. Pure."""

from __future__ import annotations

import ast
from typing import Dict, Iterator, List, Set

from jupyter_smx.agent.code.installs import commands
from jupyter_smx.agent.code.installs.commands import UNKNOWN

_MESSAGE_WORDS = """
    add_argument ArgumentParser critical debug echo error exception exit fail fatal format_exc info log print secho
    skip success warn warning write writelines
"""
_MESSAGE_CALLS = frozenset(_MESSAGE_WORDS.split())
"""Functions whose texts are for readers: a text there names a command and does not run it."""
_MESSAGE_ENDINGS = ("Error", "Exception", "Exit", "Warning")
_MESSAGE_ARGUMENTS = frozenset(("description", "doc", "epilog", "help", "message", "msg", "reason"))
_LOADERS = frozenset(("__import__", "run_module"))
_VERBS = frozenset(("install", "uninstall"))
_PIP_MAIN = "pip.main"
_PIP_PARTS = ("main", "_internal", "cli")
_FUNCTIONS = ("spacy.cli.download", "ensurepip.bootstrap")


def install_in_code(text: str) -> str:
    """Return the command by which a Python source installs packages, such as ``pip install``; "" if it shows none.

    Comments, docstrings and messages do not count. A source that Python cannot parse cannot run either.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    search = _Search()
    try:
        search.statements(tree)
    except RecursionError:
        return ""
    return search.found or search.put_together()


class _Search:
    """Walks one tree until it finds a command."""

    def __init__(self) -> None:
        self.found = ""
        self._texts: Set[str] = set()
        """Short strings of the code; lists of arguments may be assembled from them in several places."""
        self._imported_names: Dict[str, str] = {}
        """Names that the code has for modules and functions that install, and what each stands for."""

    def statements(self, node: ast.AST) -> None:
        """Walk a statement, or anything else that is not known to be a message."""
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # a docstring, or a comment that is written as one
        self._visit(node, is_message=isinstance(node, ast.Raise))

    def _visit(self, node: ast.AST, *, is_message: bool) -> None:
        if self.found:
            return
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            self._imported(node)
        elif isinstance(node, ast.Call):
            self._called(node)
            return
        elif not is_message:
            self.found = self._in_expression(node)
        for child in ast.iter_child_nodes(node):
            if is_message:
                self._visit(child, is_message=True)
            else:
                self.statements(child)

    def _called(self, call: ast.Call) -> None:
        name = _dotted(call.func)
        last = name.rpartition(".")[2]
        is_message = last in _MESSAGE_CALLS or last.endswith(_MESSAGE_ENDINGS)
        if not is_message:
            self.found = self._in_call(call, name) or commands.install_in_words(_words(call.args))
        self._visit(call.func, is_message=is_message)
        for argument in call.args:
            self._visit(argument, is_message=is_message)
        for keyword in call.keywords:
            self._visit(keyword.value, is_message=is_message or keyword.arg in _MESSAGE_ARGUMENTS)

    def _in_call(self, call: ast.Call, name: str) -> str:
        """Return the command of a call that runs pip, or an equivalent, in this process."""
        first, _, last = name.rpartition(".")
        if name.endswith(_FUNCTIONS):
            return name
        if name in self._imported_names:
            return self._imported_names[name]
        if last == "main" and (self._imported_names.get(first) == _PIP_MAIN or first.startswith("pip.")):
            return _PIP_MAIN
        given = call.args[0] if call.args else None
        if last in _LOADERS and isinstance(given, ast.Constant) and commands.is_pip(str(given.value).partition(".")[0]):
            return f"{last}({given.value!r})"
        return ""

    def _imported(self, node: ast.AST) -> None:
        """Note the names of modules and functions of pip, and of functions that run it."""
        if isinstance(node, ast.Import):
            for one in node.names:
                if one.name.partition(".")[0] == "pip":
                    self._imported_names.update(dict.fromkeys((one.asname or one.name, one.asname or "pip"), _PIP_MAIN))
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for one in node.names:
                whole = f"{node.module}.{one.name}"
                is_main = whole.startswith("pip.") and one.name in _PIP_PARTS
                if whole in _FUNCTIONS or is_main:
                    self._imported_names[one.asname or one.name] = _PIP_MAIN if is_main else whole

    def _in_expression(self, node: ast.AST) -> str:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            self._texts.add(node.value)
            return commands.install_in_lines(node.value)
        if isinstance(node, ast.Attribute):
            self._texts.add(node.attr)  # of libraries that have programs as attributes: sh.pip("install", …)
        if isinstance(node, (ast.List, ast.Tuple, ast.BinOp)):
            return commands.install_in_words(_words([node]))
        if isinstance(node, ast.JoinedStr):
            return commands.install_in_lines(_text(node))
        return ""

    def put_together(self) -> str:
        """Return the command whose arguments are assembled from parts: ``words = ["pip"]; words.append("install")``."""
        verbs = _VERBS & self._texts
        if verbs and any(map(commands.is_pip, self._texts)):
            return f"{'uv ' if 'uv' in self._texts else ''}pip {min(verbs)}"
        return ""


def _dotted(node: ast.AST) -> str:
    """Return the dotted name of a function; for other expressions, the part that is known."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return f"{before}.{node.attr}" if before else node.attr
    return ""


def _words(nodes: List[ast.expr]) -> List[str]:
    return [word for node in nodes for word in _words_of(node)]


def _words_of(node: ast.AST) -> Iterator[str]:
    """Yield the arguments of a command that an expression builds."""
    if isinstance(node, (ast.List, ast.Tuple)):
        for one in node.elts:
            yield from _words_of(one)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _words_of(node.left)
        yield from _words_of(node.right)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield _text(node)
    elif isinstance(node, ast.Call) and _dotted(node.func).endswith("split"):
        text = " ".join(_words([node.func.value] if isinstance(node.func, ast.Attribute) else []))
        yield from (text.replace("shlex", "") or " ".join(_words(node.args))).split()
    else:
        yield commands.unknown(_dotted(node).rpartition(".")[2])


def _text(node: ast.JoinedStr) -> str:
    return "".join(str(one.value) if isinstance(one, ast.Constant) else UNKNOWN for one in node.values)
