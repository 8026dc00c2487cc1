"""The call of ``ModelTrainer`` that an export writes: every name of it is one of the real SDK 3.

The SDK needs hundreds of megabytes to be imported, so it is read: classes, what they are made of, and their methods.
"""

from __future__ import annotations

import ast
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.kernel.sagemaker.model_trainer import trainer_program
from jupyter_smx.model.records.job import Job
from jupyter_smx.model.spec.channel import Channel
from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.job_spec import JobSpec

if TYPE_CHECKING:
    from pathlib import Path

    from real_toolkit import RealPackages

pytestmark = pytest.mark.heavy("toolkits")

EVERYTHING: dict[str, Any] = {
    "instance_groups": (
        InstanceGroup(name="a", instance_type="ml.c5.xlarge"),
        InstanceGroup(name="b", instance_type="ml.c5.xlarge"),
    ),
    "channels": (
        Channel(name="x", source="s3://b/x", content_type="text/csv"),
        Channel(name="y", source="/data", distribution="ShardedByS3Key", groups=("a",), content_type="text/csv"),
    ),
    "spot": True,
    "retries": 1,
    "metrics": {"loss": "loss=(.*)"},
    "checkpoint": "s3://b/kept",
    "checkpoint_local_path": "/opt/ml/mine",
    "disable_output_compression": True,
    "network_isolation": True,
    "hyperparameters": {"a": "1"},
    "environment": {"A": "b"},
}
ONE_GROUP = {"instance_groups": (InstanceGroup(instance_type="ml.c5.xlarge", instance_count=2),), "keep_alive": 60}


class Sdk:
    """The SDK's sources, one module after the other, as they are asked for."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._trees: dict[str, ast.Module] = {}

    def tree(self, module: str) -> ast.Module:
        """Read a module, or a package with all that is in it where its classes are spread over files."""
        if module not in self._trees:
            path = self._top.joinpath(*module.split(".")[1:])
            file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            self._trees[module] = ast.parse(file.read_text())
        return self._trees[module]

    def class_of(self, module: str, name: str, above: tuple[str, ...] = ()) -> tuple[str, ast.ClassDef]:
        """Find a class where a module has it, or where that imports it from; also what it imports when it is asked.

        :raises LookupError: it is nowhere; modules import all of each other in circles.
        """
        if module in above:
            raise LookupError(f"{module} has no {name} of its own")
        tree, above = self.tree(module), (*above, module)
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return module, node
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("sagemaker."):
                for one in node.names:
                    if (one.asname or one.name) == name or (one.name == "*" and self._has(node.module, name, above)):
                        return self.class_of(node.module, name if one.name == "*" else one.name, above)
        raise LookupError(f"{module} has no {name}")

    def _has(self, module: str, name: str, above: tuple[str, ...]) -> bool:
        try:
            self.class_of(module, name, above)
        except (LookupError, OSError):
            return False
        return True

    def fields(self, module: str, name: str) -> set[str]:
        """Name what a class is made of, with what its bases are made of."""
        where, found = self.class_of(module, name)
        makes = [node for node in found.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
        if makes:
            return {argument.arg for argument in makes[0].args.args}
        own = {ast.unparse(node.target) for node in found.body if isinstance(node, ast.AnnAssign)}
        for base in found.bases:
            parts = ast.unparse(base).split(".")
            if parts[-1] == "BaseModel":  # pydantic's, also where they call something of theirs so
                continue
            with suppress(LookupError):  # of Python
                own |= self.fields("sagemaker.core.shapes" if len(parts) > 1 else where, parts[-1])
        return own

    def methods(self, module: str, name: str) -> dict[str, set[str]]:
        """Name the methods of a class, and what each takes."""
        _where, found = self.class_of(module, name)
        rows = [node for node in found.body if isinstance(node, ast.FunctionDef)]
        return {node.name: {argument.arg for argument in node.args.args} for node in rows}


def program(**fields: Any) -> ast.Module:
    spec = JobSpec(kind="train", source="", base_name="digits", contract="v3", **EVERYTHING | fields)
    return ast.parse(
        trainer_program(Job(id="a", name="digits-a", spec=spec, created_at=0.0), "train.py", requirements=True)
    )


@pytest.mark.parametrize("runner", ["torchrun", "mpi"])
@pytest.mark.parametrize("fields", [{}, ONE_GROUP])
def test_every_name_is_one_of_the_sdk(real_packages: RealPackages, runner: Any, fields: dict[str, Any]) -> None:
    sdk, tree = Sdk(real_packages.sdk()), program(distribution=Distribution(runner=runner, processes=2), **fields)
    imported = {
        one.name: str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("sagemaker")
        for one in node.names
    }
    assert {"ModelTrainer", "Session", "SourceCode", "Compute", "Channel", "S3DataSource"} <= imported.keys()
    trainers = sdk.methods(imported["ModelTrainer"], "ModelTrainer")
    sessions = sdk.methods(imported["Session"], "Session")
    made = set()
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        named = {str(word.arg) for word in call.keywords}
        if isinstance(call.func, ast.Name) and call.func.id in imported:
            made.add(call.func.id)
            assert named <= sdk.fields(imported[call.func.id], call.func.id), call.func.id
        elif isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "trainer":
            made.add(call.func.attr)
            assert named <= trainers[call.func.attr], call.func.attr
        elif isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "session":
            assert named <= sessions[call.func.attr]
            made.add(call.func.attr)
    assert made == {*imported, "train", "with_retry_strategy", "with_metric_definitions", "upload_data"}


def test_a_name_that_it_does_not_have_is_noticed(real_packages: RealPackages) -> None:
    sdk = Sdk(real_packages.sdk())
    assert "instance_type" in sdk.fields("sagemaker.core.training.configs", "Compute")
    assert "number_of_instances" not in sdk.fields("sagemaker.core.training.configs", "Compute")
    with pytest.raises(LookupError):
        sdk.class_of("sagemaker.core.training.configs", "Computer")
