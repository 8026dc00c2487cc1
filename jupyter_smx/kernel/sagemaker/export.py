"""Export a job as a self-contained folder: code, requirements, inputs, results, and a call of SageMaker."""

from __future__ import annotations

import json
import pickle
import re
import shlex
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins
from msgspec.structs import replace

from jupyter_smx import controller_launch
from jupyter_smx.agent.system.files.host_layout import RESULT
from jupyter_smx.kernel.request.call import RECEIVE, VALUE
from jupyter_smx.kernel.request.payload import read_pickles
from jupyter_smx.kernel.sagemaker import ignored_files, model_trainer
from jupyter_smx.kernel.sagemaker.api_limits import api_limit_notes, has_processor_requirements
from jupyter_smx.kernel.sagemaker.estimator_call import decode_hyperparameters, program, script_arguments
from jupyter_smx.kernel.sagemaker.export_folder import ExportResult, write_folder
from jupyter_smx.model import redaction
from jupyter_smx.model.errors import ResourceNotFoundError
from jupyter_smx.model.spec.channel import input_folder
from jupyter_smx.model.spec.job_spec import TRAIN
from jupyter_smx.model.text import format_moment, format_size
from jupyter_smx.rerun_spec import source_archive

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from jupyter_smx.model.records.job import Job

REQUIREMENTS = "requirements.txt"
VARIABLES = "variables.pkl"
WITH_VARIABLES = "with_variables.py"
COMMAND = "command.sh"
PROGRAM = "sagemaker_job.py"
"""File in the model of a call of a function: its value."""

_LOADER = '''\
"""Gives {script} the variables that its notebook had sent, and runs it."""

{imports}
from pathlib import Path

HERE = Path(__file__).resolve().parent

packed = {{}}
for name in {files}:
    packed.update(pickle.loads((HERE / name).read_bytes()))
{found}runpy.run_path(
    str(HERE / "{script}"),
    init_globals={{name: pickle.loads(head, buffers=buffers) for name, (head, buffers) in packed.items()}},
    run_name="__main__",
)
'''
_RESULT_WRITER = f"""
# The return value of the function is stored in model.tar.gz.
if "SM_MODEL_DIR" in os.environ and "{VALUE}" in found:
    try:
        from cloudpickle import dumps
    except ImportError:
        from pickle import dumps
    try:
        result = dumps(found["{VALUE}"])
    except Exception as error:
        print(f"What the function gave cannot be pickled: {{error!r}}")
    else:
        Path(os.environ["SM_MODEL_DIR"], "{RESULT}").write_bytes(result)
"""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def export(job: Job, folder: Path) -> ExportResult:
    """Write a job to ``folder``, which is new or empty. All of it or nothing.

    :raises ValidationError: the folder is not empty.
    :raises ResourceNotFoundError: the job's folder of code was deleted.
    :raises SmxError: the disk refuses.
    """
    return write_folder(folder, lambda made: Export(redact_job(job), made).write())


def redact_job(job: Job) -> Job:
    """Give a job without what opens URLs, of its places, too; variables of secrets keep their names elsewhere.

    Its name stands for ``{job_name}``: SageMaker's SDK fills in nothing.
    """
    spec = job.spec.fill_job_name(job.name)
    open_to_all = replace(
        spec,
        environment=redaction.redact_values(controller_launch.leave_front(spec.environment)),
        hyperparameters=redaction.redact_hyperparameters(spec.hyperparameters),
        arguments=tuple(redaction.redact_words(spec.arguments)),
        command=tuple(redaction.redact_words(spec.command)),
        source=redaction.redact_text(spec.source) if spec.is_only_command() else spec.source,
        channels=tuple(replace(channel, source=redaction.redact_text(channel.source)) for channel in spec.channels),
        outputs=tuple(
            replace(output, destination=redaction.redact_text(output.destination)) for output in spec.outputs
        ),
        checkpoint=redaction.redact_text(spec.checkpoint),
    )
    return replace(job, spec=open_to_all)


class Export:
    """The files of one export, written one after the other."""

    def __init__(self, job: Job, folder: Path) -> None:
        self._job = job
        self._example_job = job
        """The job to run by hand; for an array its first task."""
        self._folder = folder
        self._code = folder / "code"
        self._variables_file = ""
        """In the folder of code: the variables that were sent."""
        self._notes: list[str] = []
        self._ignored_note = ""
        """What a ``.gitignore`` kept out of the job."""

    def write(self) -> None:
        """Write all of them."""
        self._code.mkdir(parents=True)
        alone = not self._unpack_source_dir()
        script = self._script()
        if script and not script.endswith(".py"):
            (self._code / script).chmod(0o755)
        started = self._variables(script)
        if started != script and self._is_call():
            self._notes.append(
                f"The return value of the function is in `{RESULT}` of a SageMaker job's `model.tar.gz`."
            )
        requirements = self._requirements()
        self._json("hyperparameters.json", decode_hyperparameters(self._job.spec.sdk2_hyperparameters()))
        self._write_job_json()
        beside = self._copy_requirements(requirements)
        if is_sdk3_job(self._job):
            self._text(
                model_trainer.NAME, model_trainer.trainer_program(self._example_job, started, requirements=beside)
            )
        needs = bool(script and requirements) and not (self._code / REQUIREMENTS).exists()
        self._write_programs(started, alone=alone and started == script and not beside, requirements=needs)
        self._text("README.md", self._readme(self._shell_commands(started)))

    def _write_job_json(self) -> None:
        self._json("job.json", export_summary(self._job))

    def _write_programs(self, script: str, *, alone: bool, requirements: bool) -> None:
        self._text(PROGRAM, program(self._job, script, alone=alone, requirements=requirements))

    def _readme(self, by_hand: str) -> str:
        return readme(
            self._job,
            _run_sentence(self._job),
            file_descriptions(self._job),
            by_hand,
            self._sections(api_limit_notes(self._job.spec)),
        )

    def _sections(self, there: Iterable[str]) -> dict[str, Sequence[str]]:
        """Return the paragraphs at the end by their headings; ``there`` are sentences about SageMaker."""
        return {
            "Ignored files": [self._ignored_note] if self._ignored_note else [],
            "Variables": self._notes,
            "On SageMaker": [f"- {sentence}" for sentence in there],
        }

    def _copy_requirements(self, requirements: list[str]) -> bool:
        """Write the requirements beside the script, if the call reads them there; return True if it does."""
        there = self._code / REQUIREMENTS
        if not (is_sdk3_job(self._job) or has_processor_requirements(self._job.spec)):
            return False
        if is_sdk3_job(self._job) and there.exists() and not self._job.spec.requirements:
            self._notes.append(
                f"The job did not install `{REQUIREMENTS}` in its folder of code, so `{model_trainer.NAME}` does not "
                "name it. SDK 3 installs what `SourceCode(requirements=…)` names only."
            )
            return False
        if requirements and not there.exists():
            shutil.copyfile(self._folder / REQUIREMENTS, there)
        return there.exists()

    def _text(self, name: str, text: str) -> None:
        (self._folder / name).write_text(text, encoding="utf-8")

    def _json(self, name: str, value: object) -> None:
        self._text(name, json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    def _unpack_source_dir(self) -> bool:
        """Unpack the folder of code, if the job had one; return True then."""
        source = self._job.spec.source_dir
        if source is None:
            return False
        archive = next((path for path in (source_archive(self._job), Path(source.path)) if path.exists()), None)
        if archive is None:
            raise ResourceNotFoundError(
                f"{self._job.name} cannot be exported: its source folder was deleted.",
                field="source_dir",
                value=source.path,
                cure=f"It was packed from {source.folder or 'several folders'}.",
            )
        with tarfile.open(archive) as opened:
            for member, path in _members_below(opened, self._code):
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as file:
                    shutil.copyfileobj(opened.extractfile(member), file)  # type: ignore[arg-type]  # it is a file
                path.chmod(0o755 if member.mode & 0o100 else 0o644)
        if source.ignored:
            self._ignored_note = ignored_files.copy(source, self._code)
        return True

    def _script(self) -> str:
        """Write what SageMaker starts where the folder of code does not have it already, and give its name.

        The program of the image has the name "".
        """
        spec = self._job.spec
        if spec.image_program:
            return ""
        if not spec.command:
            return self._own_script()
        if not spec.entry_point:
            # Arguments of a training job are its hyperparameters, which a command of its own does not get.
            return self._command_script(list(spec.command), passes_arguments=spec.kind == "process")
        name = self._own_script()
        # Processors of SageMaker's SDK take a command, and its estimators none.
        return name if spec.kind == "process" else self._command_script([*spec.command, name], passes_arguments=True)

    def _command_script(self, words: list[str], *, passes_arguments: bool) -> str:
        name = self._unused_name(COMMAND)
        arguments = ' "$@"' if passes_arguments else ""
        (self._code / name).write_text(f"#!/bin/sh\nexec {shlex.join(words)}{arguments}\n", encoding="utf-8")
        return name

    def _own_script(self) -> str:
        spec = self._job.spec
        if spec.entry_point and spec.source_dir:
            return spec.entry_point
        stem = "process" if spec.kind == "process" else "train"
        name = spec.entry_point or f"{stem}.py"
        while (self._code / name).exists():
            stem += "_cell"
            name = f"{stem}.py"
        # Blank lines before it stand for those of the magic.
        (self._code / name).write_text(spec.source.lstrip("\n").rstrip("\n") + "\n", encoding="utf-8")
        return name

    def _variables(self, script: str) -> str:
        """Write the sent variables beside the script; return the name of the file to run."""
        sent = [payload for payload in (self._job.spec.shared, self._job.spec.send) if payload is not None]
        if not sent:
            return script
        names = ", ".join(f"`{name}` ({format_size(size)})" for each in sent for name, size in each.sizes.items())
        packed: dict[str, tuple[bytes, list[bytes]]] = {}
        try:
            for payload in sent:
                packed.update(read_pickles(Path(payload.path)))
        except FileNotFoundError:
            self._notes.append(f"The notebook had sent {names}. They are gone, and the script does not run without.")
            return script
        self._variables_file = self._unused_name(VARIABLES)
        (self._code / self._variables_file).write_bytes(pickle.dumps(packed))
        loader = self._unused_name(WITH_VARIABLES)
        self._loader(loader, script, self._variables_file)
        self._notes.append(
            f"The notebook had sent {names}. They are in `code/{self._variables_file}`, a pickle: "
            "load it only if you trust "
            f"this folder. `code/{loader}` passes them to the script."
        )
        return loader

    def _is_call(self) -> bool:
        """Return True if the code is a call of a function, whose value the job has as its model."""
        return self._job.spec.kind == "train" and self._job.spec.receive[: len(RECEIVE)] == RECEIVE

    def _unused_name(self, name: str) -> str:
        """Return a name in the folder of code that the user does not use."""
        stem, _, suffix = name.rpartition(".")
        while (self._code / name).exists():
            stem += "_"
            name = f"{stem}.{suffix}"
        return name

    def _loader(self, name: str, script: str, *files: str) -> None:
        """Write a program that loads variables from files and runs the script with them."""
        modules, found, end = ("os", "found = ", _RESULT_WRITER) if self._is_call() else ("", "", "")
        imports = "\n".join(f"import {module}" for module in (modules, "pickle", "runpy") if module)
        text = _LOADER.format(script=script, files=list(files), imports=imports, found=found)
        (self._code / name).write_text(text + end, encoding="utf-8")

    def _shell_commands(self, script: str) -> str:
        """Return the shell commands that start the code as the job did."""
        spec = self._example_job.spec
        if spec.image_program:
            words = [TRAIN] if spec.kind == "train" else spec.arguments
            return shlex.join(["docker", "run", "--rm", "-v", "./ml:/opt/ml", spec.image, *words])
        return f"pip install -r {REQUIREMENTS}\ncd code && {self._shell_command(script)}"

    def _shell_command(self, script: str) -> str:
        spec = self._example_job.spec
        words = shlex.join(script_arguments(spec))
        if spec.command and script == spec.entry_point:
            how = shlex.join([*spec.command, script])
        elif not script.endswith(".py"):
            how = f"./{shlex.quote(script)}"
        elif spec.kind == "train" and spec.contract == "v2" and spec.entry_point and (self._code / "setup.py").exists():
            how = f"pip install . && python -m {script[: -len('.py')].replace('/', '.')}"
        else:
            how = f"python {shlex.quote(script)}"
        return f"{how} {words}".rstrip()

    def _requirements(self) -> list[str]:
        lines = requirements(self._job)
        self._text(REQUIREMENTS, "".join(f"{line}\n" for line in lines))
        return lines


def _members_below(archive: tarfile.TarFile, folder: Path) -> Iterator[tuple[tarfile.TarInfo, Path]]:
    for member in archive:
        path = (folder / member.name).resolve()
        if member.isfile() and path.is_relative_to(folder.resolve()):
            yield member, path


def requirements(job: Job) -> list[str]:
    """Return the packages that the job had imported, with their versions, then its other requirements."""
    packages = dict(job.provenance.packages) if job.provenance else {}
    sent = job.spec.send or job.spec.shared
    if sent and "/" in sent.protocol:
        packages.setdefault("cloudpickle", sent.protocol.partition("/")[2])
    known = {_canonical(name) for name in packages}
    asked = [_pip_line(line) for line in job.spec.requirements if _canonical(line) not in known]
    return [*(f"{name}=={version}" for name, version in sorted(packages.items())), *asked]


def _pip_line(line: str) -> str:
    """Write a line as pip reads it: a constraint of ours stands in no file of its own."""
    return f"# constraint: {line[3:]}" if line.startswith("-c ") else line


def _canonical(line: str) -> str:
    found = _NAME.match(line)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else line


def is_sdk3_job(job: Job) -> bool:
    """Return True if SDK 3's drivers ran the script."""
    return job.spec.kind == "train" and job.spec.contract == "v3"


def export_summary(job: Job) -> dict[str, Any]:
    """Describe inputs, outputs and hosts."""
    spec = job.spec
    spec_shown = redaction.redact_record(to_builtins(job))["spec"]
    return {
        "name": job.name,
        "kind": spec.kind,
        "status": job.status().value,
        "instance_groups": to_builtins(spec.instance_groups),
        "keep_alive": spec.keep_alive,
        "max_run": spec.max_run,
        "image": job.image.display_name_with_digest() if job.image else spec.image,
        "environment": redaction.redact_variables(spec.environment),
        "python_version": spec.python_version,
        "inputs": spec_shown["channels"],
        "outputs": spec_shown["outputs"],
        "files": [{"name": artifact.name, "path": artifact.path, "size": artifact.size} for artifact in job.artifacts],
        "variables_sent": {
            name: size for sent in (spec.shared, spec.send) if sent for name, size in sent.sizes.items()
        },
        "variables_received": job.received,
    }


def _run_sentence(job: Job) -> str:
    when = format_moment(job.created_at)
    said = f"`{job.name}` is a {'processing' if job.spec.kind == 'process' else 'training'} job of {when}; it "
    return said + ("is still going on" if job.ended_at is None else f"ended as {job.status().value}")


def file_descriptions(job: Job) -> dict[str, str]:
    """Return a description for each file of the export."""
    found = {} if job.spec.image_program else {"code/": "the script as it ran, with its source folder"}
    found |= {
        REQUIREMENTS: "the packages that it had imported",
        "hyperparameters.json": "its hyperparameters",
        "job.json": "inputs, outputs, environment and hosts",
        PROGRAM: "the same job on Amazon SageMaker: set three names at its top, then run it",
    }
    if is_sdk3_job(job):
        found[model_trainer.NAME] = "the same by SageMaker's Python SDK 3, with its drivers"
    return found


def readme(job: Job, ran: str, files: Mapping[str, str], by_hand: str, sections: Mapping[str, Sequence[str]]) -> str:
    """Write the page beside the files: what ran, the content of the files, and more paragraphs by their headings."""
    spec = job.spec
    inputs = [
        f"- `{channel.name}`: {redaction.redact_text(channel.source)}, "
        f"in the job `{input_folder(spec.kind, channel.name, channel.path)}`"
        for channel in spec.channels
    ]
    outputs = [f"- `{output.name}`: `{output.path}` in the job" for output in spec.outputs]
    return "\n".join(
        [
            f"# {spec.base_name or job.name}",
            "",
            f"{ran}. It ran on {spec.instances()} with Python {spec.python_version or 'of that machine'}.",
            "",
            "| file | what it is |",
            "|---|---|",
            *(f"| `{name}` | {what} |" for name, what in files.items()),
            "",
            "To run it by hand, with its inputs in place:",
            "",
            "```sh",
            by_hand,
            "```",
            "",
            *(["## Inputs", "", *inputs, ""] if inputs else []),
            *(["## Outputs", "", *outputs, ""] if outputs else []),
            *(line for heading, lines in sections.items() if lines for line in (f"## {heading}", "", *lines, "")),
        ]
    )
