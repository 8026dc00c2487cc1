"""The members of the API that no note calls unknown: each is translated, noted or refused, and none is left out."""

from __future__ import annotations

import ast
import inspect
from typing import TYPE_CHECKING

from jupyter_smx.aws.sagemaker.requests import channels, field_rules, instance_types, processing, training

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

TRANSLATORS = (training, processing, channels, instance_types)
WITHOUT_EFFECT = {
    "AppManaged": "the client that sends it manages the files itself",
    "EnableSageMakerMetricsTimeSeries": "metrics are always recorded as series",
    "FeatureStoreOutput": "an output without S3Output is refused",
    "MaxPendingTimeInSeconds": "a job waits in a queue here",
    "VolumeSizeInGB": "a required member; hosts use the disk of their machine",
}
"""Members that are known, and that no translator reads, with the reason."""


def texts(module: ModuleType) -> Iterator[str]:
    """Yield all texts of a module."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def members_read(module: ModuleType) -> Iterator[str]:
    """Yield the names of members that a module reads as ``x["Name"]`` or ``x.get("Name")``."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        key: ast.expr | None = None
        if isinstance(node, ast.Subscript):
            key = node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            key = node.args[0]
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value[:1].isupper():
            yield key.value


def known() -> set[str]:
    return {name for names in field_rules.KNOWN.values() for name in names}


def test_each_known_member_is_translated_noted_or_refused() -> None:
    has_rule = {name for path in (*field_rules.NOTES, *field_rules.REFUSED) for name in path.split(".")}
    used = has_rule.union(*map(texts, TRANSLATORS))
    assert known() - used == {*WITHOUT_EFFECT}


def test_each_member_that_a_translator_reads_is_known() -> None:
    read = set().union(*map(members_read, TRANSLATORS))
    assert read <= known() | training.MEMBERS | processing.MEMBERS
