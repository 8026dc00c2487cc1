"""Build a :class:`JobSpec` from a job request, in the same way for the magics, the functions and the command line.

The only files that it reads are the entry point and the names in the folder of code.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from jupyter_smx.kernel.options.container_values import check_build
from jupyter_smx.kernel.options.option_values import encode_hyperparameter
from jupyter_smx.kernel.request import cell, interpreters
from jupyter_smx.kernel.request.code_files import (
    CodeFiles,
    SourceCopyLike,
    check_copied_requirements,
    check_dependencies,
    dependency_modules,
    dependency_requirements,
)
from jupyter_smx.kernel.request.script import (
    Script,
    check_folder,
    choose_script,
    file_in_source_dir,
    image_program,
    is_empty,
    own_modules,
    requirements_file,
)
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.name import base_name, check_base_name, check_job_name
from jupyter_smx.model.options.code_options import Requirements
from jupyter_smx.model.options.convert import parse_number
from jupyter_smx.model.options.option import Kind
from jupyter_smx.model.results.provenance import Revision
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.model.spec.distribution import Distribution
from jupyter_smx.model.spec.instance import InstanceGroup, check_helpers
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.spec.mount import Mount

if TYPE_CHECKING:
    import ast

_LAUNCHERS = {
    "torchrun": ("torch.distributed.run",),
    "parameter_server": ("tensorflow",),
    "pyspark": ("pyspark.sql",),
}
"""Modules that a distribution imports itself, besides the script."""
_ENGINE = JobSpec(kind="train", source="").engine
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SubmissionContext(Struct, frozen=True, kw_only=True):
    """The place of a submission.

    The interpreter, the folder that relative paths start from, the notebook and the id of the running cell ("" if they
    are unknown), and the folder's git commit. ``interpreters_of`` returns whose interpreters ``--python`` names on an
    engine; it is called only if that option is set.
    """

    python: str
    python_version: str
    folder: Path
    notebook: str = ""
    cell_id: str = ""
    revision: Revision | None = None
    namespace: Mapping[str, Any] = {}
    """Variables of the notebook by name."""
    interpreters_of: Callable[[str], Literal["local", "remote"]] = lambda _engine: "local"
    image_engine: Callable[[], str] = lambda: ""
    """Names the engine of jobs that name only an image; "" if it is unknown. Called only for such a job."""


def keeps_text(spelling: Literal["line", "keyword"], contract: str | None) -> bool:
    """Return True if a hyperparameter that is text is sent as JSON, so that a script gets that text.

    On a line all values are text, and JSON is read as JSON. SDK 3 sends text as it is.
    """
    return spelling == "keyword" and contract != "v3"


def current_folder() -> Path:
    """Return the folder from which relative paths start.

    :raises ValidationError: it was deleted.
    """
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise ValidationError(
            "The current folder was deleted or moved.",
            field="working_directory",
            rule="Relative paths of a job start from it.",
            cure="Change to an existing folder: `%cd` in a notebook, `cd` in a terminal.",
        ) from None


class JobRequest(Struct, frozen=True, kw_only=True):
    """The user's request, converted except for values that depend on the place of submission."""

    kind: Kind
    fields: Mapping[str, Any] = {}
    """Plain options and those of the engine by their field of :class:`JobSpec`, converted."""
    name: str = ""
    instance_type: str | None = None
    instance_count: int | str | None = None
    groups: tuple[InstanceGroup, ...] = ()
    distribution: Distribution | None = None
    hyperparameters: Mapping[str, Any] = {}
    sdk_hyperparameters: Mapping[str, str] = {}
    """Hyperparameters by which SageMaker's SDK 2 asks for options of a launcher, encoded already."""
    environment: Mapping[str, str] = {}
    channels: tuple[Channel, ...] = ()
    outputs: tuple[Output, ...] = ()
    mounts: tuple[Mount, ...] = ()
    receive: tuple[str, ...] = ()
    source_dir: str = ""
    """Absolute path of a folder, "" for none."""
    source_copy: SourceCopyLike | None = None
    """The copy of an archive or a URL, of which ``source_dir`` is the folder."""
    dependencies: tuple[str, ...] = ()
    """Absolute paths of files and folders to put beside the script."""
    entry_point: str = ""
    command: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    python: str = ""
    requirements: Requirements = ""
    metrics: Mapping[str, str] = {}
    spelling: Literal["line", "keyword"] = "line"
    after: tuple[str, ...] = ()
    """Ids of jobs; names as typed until :mod:`jupyter_smx.kernel.client.dependencies` resolves them."""

    def build_spec(self, code: str, lines_before: int, here: SubmissionContext, submitted_at: float) -> JobSpec:
        """Build the spec, with the code placed under ``lines_before`` lines of the cell; variables are not packed yet.

        :raises CellSyntaxError: the code is no Python.
        :raises ValidationError: a field is invalid; the text names it.
        """
        if (found := self._engine_for_image(here)) != self.fields.get("engine", ""):
            return replace(self, fields={**self.fields, "engine": found}).build_spec(
                code, lines_before, here, submitted_at
            )
        check_build(self.fields.get("build", ""))
        name = self._base_name(here.notebook)
        script = self._script(code, here.folder)
        filename = self._name_origin(script.filename) or f"<{name}>"
        is_cell = not script.filename and not script.command and not script.is_image_program
        source = cell.prepend_blank_lines(code, lines_before) if is_cell else script.text
        chosen = self._interpreter(script, here)
        # A command may be a Python of another version, and it starts no script that a warm host prepares.
        tree = cell.parse_cell(source, filename) if script.is_python() and not script.command else None
        return JobSpec(
            image_program=script.is_image_program,
            **self.fields,
            kind=self.kind,
            source=source,
            base_name=name,
            filename=filename,
            instance_groups=self._instance_groups(),
            distribution=self.distribution,
            hyperparameters=self._encode_hyperparameters(),
            environment={_check_variable_name(name, "--env"): value for name, value in self.environment.items()},
            channels=_check_unique(self.channels, "--input"),
            outputs=_check_unique(self.outputs, "--output"),
            mounts=self.mounts,
            receive=tuple(dict.fromkeys(check_identifier(name, "--receive") for name in self.receive)),
            entry_point=script.entry_point,
            command=script.command,
            arguments=self.arguments,
            **asdict(chosen),
            python_named=bool(self.python),
            imports=self._preload_hints(self._imports(script, tree)),
            notebook_names=cell.notebook_names(tree, here.namespace) if tree and not script.filename else {},
            spelling=self.spelling,
            notebook=here.notebook,
            cell_id=here.cell_id,
            working_directory=str(here.folder),
            revision=here.revision,
            metrics=dict(self.metrics),
            after=self.after,
            submitted_at=submitted_at,
        )

    def _engine_for_image(self, here: SubmissionContext) -> str:
        """Return the named engine; for a job that names only an image, the engine that uses images; else ""."""
        named: str = self.fields.get("engine", "")
        if named or not (self.fields.get("image") or self.fields.get("build")):
            return named
        return here.image_engine()

    def _base_name(self, notebook: str) -> str:
        if self.name:
            return check_base_name(self.name)
        exact = self.fields.get("job_name", "")
        # Reruns are called like the job, with a suffix.
        return base_name(check_job_name(exact), self.kind) if exact else _default_name(self.kind, notebook)

    def _encode_hyperparameters(self) -> dict[str, str]:
        keep_text = keeps_text(self.spelling, self.fields.get("contract"))
        own = {
            name: encode_hyperparameter(name, value, keep_text=keep_text)
            for name, value in self.hyperparameters.items()
        }
        if self.sdk_hyperparameters and self.fields.get("contract") == "v3":
            raise ValidationError(
                "--distribution: custom_mpi_options is not supported by --contract v3.",
                field="distribution",
                value=next(iter(self.sdk_hyperparameters)),
                rule="SageMaker's SDK 2 sends them as a hyperparameter, which a script of SDK 3 would get.",
                cure="Remove custom_mpi_options, or --contract.",
            )
        return {**self.sdk_hyperparameters, **own}

    def code_files(self) -> CodeFiles:
        """Return the files of code that are packed beside the script."""
        return CodeFiles(folder=self.source_dir, copy=self.source_copy, dependencies=self.dependencies)

    def _script(self, code: str, folder: Path) -> Script:
        check_dependencies(self.dependencies)
        if self.source_dir:
            check_folder(self.source_dir)
        has_files = self.entry_point or self.source_dir or self.dependencies
        if self.fields.get("image") and not has_files and not self.command and is_empty(code):
            return image_program(self.kind)
        with self._origin_in_errors():
            return choose_script(code, self.source_dir, self.entry_point, folder, self.command)

    @contextmanager
    def _origin_in_errors(self) -> Iterator[None]:
        """Name the archive or the URL in errors, and not the temporary folder of its copy."""
        try:
            yield
        except ValidationError as error:
            if self.source_copy is None:
                raise
            raise ValidationError(
                self._name_origin(error.message),
                field=error.field,
                value=self._name_origin(error.value) if isinstance(error.value, str) else error.value,
                rule=self._name_origin(error.rule),
                cure=self._name_origin(error.cure),
            ) from None

    def _name_origin(self, text: str) -> str:
        """Name the archive or the URL in the place of the folder that it was copied to."""
        return text.replace(self.source_copy.folder, self.source_copy.origin) if self.source_copy else text

    def _interpreter(self, script: Script, here: SubmissionContext) -> interpreters.InterpreterChoice:
        with self._origin_in_errors():
            chosen = self._choose_interpreter(script, here)
        if self.source_copy is not None:
            check_copied_requirements(chosen.requirements, self.source_copy)
        return chosen

    def _choose_interpreter(self, script: Script, here: SubmissionContext) -> interpreters.InterpreterChoice:
        required = self._requirements(script, here.folder)
        if self.python and here.interpreters_of(self.fields.get("engine", _ENGINE)) == "remote":
            return interpreters.pass_on_interpreter(self.python, required, here.folder)
        own = interpreters.InterpreterChoice(python=here.python, python_version=here.python_version)
        return interpreters.choose_interpreter(self.python, required, own, here.folder)

    def _requirements(self, script: Script, folder: Path) -> Requirements:
        """Return what the job installs: what the user names, else what SageMaker installs for the contract."""
        is_v3 = self.fields.get("contract") == "v3"
        if self.requirements == "":
            # The archive has the dependency's file, too, where both have one.
            found = dependency_requirements(self.dependencies) or requirements_file(script, self.source_dir)
            return "" if is_v3 else found
        return file_in_source_dir(self.requirements, self.source_dir, folder) if is_v3 else self.requirements

    def _preload_hints(self, imports: tuple[str, ...]) -> tuple[str, ...]:
        """Add what the launcher itself imports, so that a warm host has it ready."""
        launcher = _LAUNCHERS.get(self.distribution.runner, ()) if self.distribution else ()
        return tuple(dict.fromkeys([*imports, *launcher]))

    def _imports(self, script: Script, tree: ast.Module | None) -> tuple[str, ...]:
        return () if tree is None else self.exclude_own_modules(cell.top_level_imports(tree), script.filename)

    def exclude_own_modules(self, imports: tuple[str, ...], filename: str = "") -> tuple[str, ...]:
        """Leave out the modules that come with the job: a host must not import beforehand what the next job changes."""
        if self.code_files().is_empty():
            return imports
        folders = [self.source_dir, str(Path(filename).parent)] if self.source_dir and filename else [self.source_dir]
        own = dependency_modules(self.dependencies).union(*(own_modules(folder) for folder in folders if folder))
        return tuple(name for name in imports if name.partition(".")[0] not in own)

    def _instance_groups(self) -> tuple[InstanceGroup, ...]:
        if not self.groups:
            count = 1 if self.instance_count is None else self.instance_count
            hosts = parse_number(count, "--instance-count", "of hosts", 1)
            return (InstanceGroup(instance_type=self.instance_type or "local", instance_count=hosts),)
        if self.instance_type or self.instance_count is not None:
            raise ValidationError(
                "--group cannot be combined with --instance-type or --instance-count.",
                field="group",
                value=self.instance_type or self.instance_count,
                rule="Each group has its own type and count.",
                cure="Remove one of the two.",
            )
        for found in self.groups:
            cure = f"For example --group {found.name}:{found.instance_type}:1."
            parse_number(found.instance_count, "--group", "of hosts", 1, cure=cure)
        names = [found.name for found in self.groups]
        if len(set(names)) < len(names):
            raise ValidationError(
                f"--group: two groups have the same name: {', '.join(names)}.",
                field="group",
                value=", ".join(names),
                rule="Channels and scripts refer to a group by its name.",
                cure="Use a different name for each.",
            )
        check_helpers(self.groups)
        return self.groups


def check_identifier(name: str, option: str) -> str:
    """Return a name that can be a variable's.

    :raises ValidationError: it cannot.
    """
    if name.isidentifier() and not keyword.iskeyword(name):
        return name
    raise ValidationError(
        f"{option}: {name!r} is not a valid variable name.",
        field=option.removeprefix("--"),
        value=name,
        rule="A variable's name has letters, digits and underscores and does not begin with a digit.",
        cure="Separate several names with commas." if " " in name else "",
    )


def _check_variable_name(name: str, option: str) -> str:
    if _VARIABLE.fullmatch(name):
        return name
    raise ValidationError(
        f"{option}: {name!r} is not a valid environment variable name.",
        field="environment",
        value=name,
        rule="Its name has letters, digits and underscores and does not begin with a digit.",
        cure="For example --env LEVEL=debug.",
    )


def _check_unique(items: tuple[Any, ...], option: str) -> tuple[Any, ...]:
    names = [item.name for item in items]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is None:
        return items
    raise ValidationError(
        f"{option}: {twice} is given twice.",
        field=option.removeprefix("--"),
        value=twice,
        rule="Each name can be used once.",
        cure="Use a different name for each.",
    )


def _default_name(kind: Kind, notebook: str) -> str:
    return base_name(f"{kind}-{Path(notebook).stem}", kind)
