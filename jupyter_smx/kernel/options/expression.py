"""``{name.attribute[0]["key"]}`` on a magic's line: a path to a notebook value, walked and never evaluated."""

from __future__ import annotations

import ast
import json
import operator
import re
from typing import TYPE_CHECKING, Any

from jupyter_smx.kernel.options.line_splitter import CLOSE, OPEN, restore_braces
from jupyter_smx.model.errors import ValidationError, suggest_names
from jupyter_smx.model.text import format_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MARKED = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")


def value_of(word: str, namespace: Mapping[str, Any], option: str) -> Any:
    """Give the value of a word: that of the notebook where the whole word is one ``{expression}``, else text.

    An expression inside other text is replaced by its ``str``.

    :raises ValidationError: anything in braces but a path of names, attributes and constant subscripts.
    """
    whole = _MARKED.fullmatch(word)
    if whole:
        return resolve(whole[1], namespace, option)
    return restore_braces(_MARKED.sub(lambda found: str(resolve(found[1], namespace, option)), word))


def text_of(word: str, namespace: Mapping[str, Any], option: str) -> str:
    """Give the text of a word, notebook values written as ``str`` writes them (a path stays a path)."""
    return str(value_of(word, namespace, option))


def resolve(expression: str, namespace: Mapping[str, Any], option: str) -> Any:
    """Walk one expression from a variable of the notebook to the value it names; no call, no operator, no ``eval``.

    :raises ValidationError: another kind of expression, an unknown name, or a step that the value does not have.
    """
    try:
        body = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise _expression_error(expression, option) from None
    return _walk(body, namespace, expression, option)


def _walk(node: ast.expr, namespace: Mapping[str, Any], expression: str, option: str) -> Any:
    if isinstance(node, ast.Name):
        return _variable(node.id, namespace, option)
    take: Callable[[Any, Any], Any]
    if isinstance(node, ast.Attribute) and not node.attr.startswith("__"):
        owner = _walk(node.value, namespace, expression, option)
        step = f".{node.attr}"
        take, key = getattr, node.attr
    elif isinstance(node, ast.Subscript):
        key = _constant(node.slice, expression, option)
        owner = _walk(node.value, namespace, expression, option)
        step = f"[{key!r}]"
        take = operator.getitem
    else:
        raise _expression_error(expression, option)
    try:
        return take(owner, key)
    except Exception as error:  # border: attributes and items are the user's code, which may raise anything
        raise ValidationError(
            f"{option}: {{{expression}}}: {ast.unparse(node.value)} is a {type(owner).__name__} and has no {step} "
            f"({type(error).__name__}).",
            field=option.removeprefix("--"),
            value=expression,
            rule="In braces stand a variable of the notebook, its attributes and its items, and nothing is called.",
            cure="Assign the value to a variable in a cell before, and name that one.",
        ) from error


def _variable(name: str, namespace: Mapping[str, Any], option: str) -> Any:
    if name in namespace:
        return namespace[name]
    raise ValidationError(
        f"{option}: the notebook has no variable {name!r}.",
        field=option.removeprefix("--"),
        value=name,
        rule="In braces stand a variable of the notebook, its attributes and its items.",
        cure=suggest_names(name, variable_names(namespace)) or "Run the cell that makes it first.",
    )


def variable_names(namespace: Mapping[str, Any]) -> list[str]:
    """List the names that a user would call variables of the notebook."""
    return [name for name in namespace if not name.startswith("_")]


def _constant(node: ast.expr, expression: str, option: str) -> Any:
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, node = -1, node.operand
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return sign * node.value
    if sign > 0 and isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise _expression_error(expression, option)


def _expression_error(expression: str, option: str) -> ValidationError:
    return ValidationError(
        f"{option}: {{{expression}}} is not a path to a value of the notebook.",
        field=option.removeprefix("--"),
        value=expression,
        rule="Between braces stand a variable, attributes and constant subscripts, as {cfg.lr} or {params['lr'][0]}; "
        "nothing is called or computed on a magic's line.",
        cure="Compute it in a cell first, or quote the braces if they are text.",
    )


def encode_hyperparameter(name: str, value: Any) -> str:
    """Write a hyperparameter as SageMaker's SDK does: a string stays as it is, anything else becomes JSON.

    :raises ValidationError: a value that JSON cannot hold.
    """
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, default=_scalar, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        if "JSON compliant" in str(error):
            raise ValidationError(
                f"--hp {name}: nan and infinity are no JSON.",
                field="hyperparameters",
                value=name,
                rule="A training script in another language could not read them.",
                cure=f"Pass it as text, --hp {name}=nan or --hp {name}=inf, and let the script read that.",
            ) from None
        raise ValidationError(
            f"--hp {name}: {_describe_value(value)} cannot be a hyperparameter.",
            field="hyperparameters",
            value=name,
            rule="Hyperparameters are text, numbers, booleans, None, and lists and dicts of them.",
            cure=f"Send it as a variable instead: --send {name}.",
        ) from None


def _describe_value(value: Any) -> str:
    return format_value(value) if isinstance(value, int) else f"a {type(value).__name__}"


def _scalar(value: Any) -> Any:
    """Unwrap numpy's scalars, which JSON does not know, and write paths as text."""
    if hasattr(value, "__fspath__"):
        return str(value)
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return value.item()
    raise TypeError(type(value).__name__)
