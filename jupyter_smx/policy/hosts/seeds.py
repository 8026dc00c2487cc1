"""Decide whether a job fixed its random seeds, from its source, hyperparameters and interpreter. Pure."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from jupyter_smx.model.results.provenance import SeedNote

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from jupyter_smx.model.spec.job_spec import JobSpec

_STATEFUL = ("cupy", "jax", "numpy", "tensorflow", "torch")
_SETTERS = (
    "seed",
    "manual_seed",
    "manual_seed_all",
    "set_seed",
    "set_random_seed",
    "seed_everything",
    "default_rng",
    "RandomState",
    "Random",
    "PRNGKey",
)
_KEYWORDS = ("random_state", "seed")
_SEED_NAME = re.compile(r"(^|[_.-])(seed|random_state)([_.-]|$)")
_SEED_HINT = re.compile(f"{'|'.join((*_SETTERS, *_KEYWORDS))}|random")
_MOST = 20
_LONGEST_SOURCE = 65_536
"""Letters; to read more would hold up the controller."""


def seed_note(spec: JobSpec, imported: Collection[str], hash_seed: str) -> SeedNote:
    """Describe what is known of a job's random states.

    ``imported`` are the top-level packages that it imported, ``hash_seed`` is the interpreter's ``PYTHONHASHSEED``.
    """
    calls, imports_random = _read(spec.source)
    given = {name: value for name, value in spec.hyperparameters.items() if _SEED_NAME.search(name.lower())}
    libraries = [name for name in _STATEFUL if name in imported]
    if imports_random:
        libraries.append("random")
    return SeedNote(
        sentence=" ".join([_code_sentence(calls, given), _interpreter_sentence(hash_seed)]),
        libraries=tuple(sorted(libraries)),
        calls=calls,
        hyperparameters=given,
        hash_seed=hash_seed,
    )


def _code_sentence(calls: tuple[str, ...], given: dict[str, str]) -> str:
    ours = "Each job starts with fresh random states, and jupyter_smx sets no seed"
    if calls:
        return f"{ours}; its source sets {', '.join(calls)}."
    if given:
        told = ", ".join(f"{name}={value}" for name, value in given.items())
        return f"{ours}; hyperparameters set {told}, but the source does not show whether it is used."
    return f"{ours}; no seed was found in the source."


def _interpreter_sentence(hash_seed: str) -> str:
    return f"PYTHONHASHSEED was {hash_seed}." if hash_seed else "Hashes of strings were random (no PYTHONHASHSEED)."


@lru_cache(maxsize=16)
def _read(source: str) -> tuple[tuple[str, ...], bool]:
    """Find the calls that set a state, and whether :mod:`random` is imported; tasks of an array have one source."""
    if len(source) > _LONGEST_SOURCE or not _SEED_HINT.search(source):
        return (), False
    nodes = [*ast.walk(_parse(source))]
    return tuple(_calls(nodes))[:_MOST], any(map(_imports_random, nodes))


def _parse(source: str) -> ast.AST:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def _calls(nodes: Iterable[ast.AST]) -> Iterator[str]:
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        name = _dotted(call.func)
        if name.rpartition(".")[2] in _SETTERS and call.args and _is_not_none(call.args[0]):
            yield f"{name} (line {call.lineno})"
        for keyword in call.keywords:
            if keyword.arg in _KEYWORDS and _is_not_none(keyword.value):
                yield f"{keyword.arg} of {name or 'a call'} (line {call.lineno})"


def _is_not_none(value: ast.expr) -> bool:
    return not (isinstance(value, ast.Constant) and value.value is None)


def _dotted(function: ast.expr) -> str:
    if isinstance(function, ast.Name):
        return function.id
    if isinstance(function, ast.Attribute):
        before = _dotted(function.value)
        return f"{before}.{function.attr}" if before else function.attr
    return ""


def _imports_random(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(name.name == "random" for name in node.names)
    return isinstance(node, ast.ImportFrom) and node.module == "random" and not node.level
