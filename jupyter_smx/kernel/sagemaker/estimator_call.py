"""Export a job as a program that requests the same job by SageMaker's Python SDK 2. Pure.

Values that only the user has (role, bucket, image) are names at the top of the program, which
reports them if they are not set.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jupyter_smx.agent.contract import hyperparameters as as_read
from jupyter_smx.kernel.sagemaker.option_fields import sdk_arguments
from jupyter_smx.model.redaction import is_secret
from jupyter_smx.model.spec.channel import input_folder, output_folder
from jupyter_smx.model.spec.instance import HOMOGENEOUS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_smx.model.records.job import Job
    from jupyter_smx.model.spec.channel import Channel, Output
    from jupyter_smx.model.spec.instance import InstanceGroup
    from jupyter_smx.model.spec.job_spec import JobSpec

LONGEST_KEEP_ALIVE = 21_600
LONGEST_PROCESSING = 777_600
PLACEHOLDER_INSTANCE_TYPE = "ml.m5.xlarge"
"""Replaces ``local``, which is this machine and no instance type of SageMaker's."""

_IMAGE_BIN_FOLDERS = ("/bin/", "/usr/bin/")
"""Folders of interpreters that an image has as well."""

Arguments = list[tuple[str, str]]
"""Names and Python expressions."""

_SPARK_PY_FILES = ("submit_py_files", '[shutil.make_archive(CODE, "zip", CODE)]')
"""Argument for files beside a script, for the workers of Spark."""

HEAD = '''\
"""{title}

Made by jupyter_smx from the job {name}. It needs `pip install "sagemaker{versions}"` and AWS credentials.
"""

{imports}

# What only you know:
ROLE = ""  # execution role, as arn:aws:iam::111122223333:role/Name
BUCKET = ""  # bucket for code, inputs and outputs
IMAGE_URI = {image}  # container image, as sagemaker.image_uris.retrieve(...) gives it

PREFIX = {prefix}
HERE = Path(__file__).resolve().parent
CODE = str(HERE / "code")
'''

HYPERPARAMETERS = 'json.loads((HERE / "hyperparameters.json").read_text(encoding="utf-8"))'

UPLOAD = '''

def uploaded(session: Session, channel: str, source: str) -> str:
    """Copy a file, a folder or what a pattern finds to the bucket, and give where it is there."""
    key = f"{PREFIX}/input/{channel}"
    found = [source] if Path(source).exists() else sorted(glob.glob(source, recursive=True))
    if not found:
        raise SystemExit(f"Input {channel}: {source} is not on this machine.")
    for path in found:
        inside = f"{key}/{Path(path).name}" if path != source and Path(path).is_dir() else key
        session.upload_data(path, bucket=BUCKET, key_prefix=inside)
    return f"s3://{BUCKET}/{key}"
'''

MAIN = """

def main() -> None:
    if not (ROLE and BUCKET and IMAGE_URI):
        raise SystemExit("Set ROLE, BUCKET and IMAGE_URI at the top of this file first.")
    session = Session(default_bucket=BUCKET)
{body}


if __name__ == "__main__":
    main()
"""


def program(job: Job, script: str, *, alone: bool, requirements: bool) -> str:
    """Write the program for a job whose ``script`` lies in ``code/``, "" for the program of its image.

    ``alone`` means that no files are beside it, ``requirements`` that ``requirements.txt`` is to be installed.
    """
    spec = job.spec
    training = spec.kind == "train"
    body = _training(spec, script, requirements=requirements) if training else _processing(spec, script, alone=alone)
    classes = training_imports(spec) if training else processing_imports(spec, alone=alone)
    plain = used_modules(spec, alone=alone, json=training)
    kind = "training" if training else "processing"
    title = f"The {kind} job {spec.base_name} as a call of the SageMaker Python SDK."
    return join_program(spec, head_of(job, title, plain, classes), body)


def used_modules(spec: JobSpec, *, alone: bool, json: bool) -> dict[str, bool]:
    """Return which modules of Python's a program may need, and whether it does."""
    return {"glob": has_uploads(spec), "json": json, "shutil": _is_for_spark(spec) and not alone}


def head_of(job: Job, title: str, plain: dict[str, bool], classes: list[str]) -> str:
    """Write the beginning of a program: its title, its imports, and the names to be set."""
    modules = [*(f"import {name}" for name, is_used in plain.items() if is_used), "from pathlib import Path"]
    return HEAD.format(
        versions=">=2,<3",
        title=title,
        name=job.name,
        prefix=quote(job.name),
        image=quote(job.spec.image),
        imports="\n".join([*modules, "", *classes]),
    )


def join_program(spec: JobSpec, head: str, body: str) -> str:
    """Assemble a program: its head, what it needs for the job, and its body."""
    if is_local(spec):
        head += f'INSTANCE_TYPE = "{PLACEHOLDER_INSTANCE_TYPE}"  # the job ran on the machine of its notebook\n'
    return head + (UPLOAD if has_uploads(spec) else "") + MAIN.format(body=body)


def has_uploads(spec: JobSpec) -> bool:
    """Return True if inputs must be copied to the bucket."""
    return any("://" not in channel.source for channel in spec.channels)


def quote(value: object) -> str:
    """Write texts, lists and dicts of them as Python; JSON's form of them is the one with double quotes."""
    return json.dumps(value, ensure_ascii=False)


def is_local(spec: JobSpec) -> bool:
    """Return True if hosts are this machine, which is no instance type."""
    return any(group.instance_type == "local" for group in spec.instance_groups)


def format_instance_type(name: str) -> str:
    """Write an instance type."""
    return "INSTANCE_TYPE" if name == "local" else quote(name)


def training_imports(spec: JobSpec) -> list[str]:
    """Write what a program imports for an estimator."""
    found = ["from sagemaker import Session", "from sagemaker.estimator import Estimator"]
    found += ["from sagemaker.inputs import TrainingInput"] if spec.channels else []
    return found + (["from sagemaker.instance_group import InstanceGroup"] if is_heterogeneous(spec) else [])


def _is_for_spark(spec: JobSpec) -> bool:
    return spec.distribution is not None and spec.distribution.runner == "pyspark"


def processing_imports(spec: JobSpec, *, alone: bool) -> list[str]:
    """Write what a program imports for a processor."""
    names = ["ProcessingInput"] if spec.channels else []
    names += ["ProcessingOutput"] if spec.outputs else []
    head = ["from sagemaker import Session"]
    head += ["from sagemaker.network import NetworkConfig"] if spec.network_isolation else []
    if _is_for_spark(spec):
        found = [*head]
        found += [f"from sagemaker.processing import {', '.join(names)}"] if names else []
        return [*found, "from sagemaker.spark.processing import PySparkProcessor"]
    name = _processor_class(spec, alone=alone)
    found = [*head, f"from sagemaker.processing import {', '.join(sorted([*names, name]))}"]
    return found if name != "FrameworkProcessor" else [*found, "from sagemaker.sklearn.estimator import SKLearn"]


def is_heterogeneous(spec: JobSpec) -> bool:
    """Return True if a job has instance groups."""
    return len(spec.instance_groups) > 1 or spec.instance_groups[0].name != HOMOGENEOUS


def _training(spec: JobSpec, script: str, *, requirements: bool) -> str:
    return f"{estimator_of(spec, script, requirements=requirements)}\n    estimator.fit({channels_of(spec)})"


def estimator_of(
    spec: JobSpec, script: str, *, requirements: bool, hyperparameters: str = HYPERPARAMETERS, checkpoint: str = ""
) -> str:
    """Write an estimator; ``hyperparameters`` and ``checkpoint`` are Python, where a job has another than its own."""
    estimator: Arguments = [
        ("image_uri", "IMAGE_URI"),
        ("role", "ROLE"),
        ("sagemaker_session", "session"),
        ("base_job_name", quote(spec.base_name)),
        *([("source_dir", "CODE"), ("entry_point", quote(script))] if script else []),
        *([("dependencies", '[str(HERE / "requirements.txt")]')] if requirements else []),
        *_training_hosts(spec),
        *sdk_arguments(spec, lambda names: names.estimator, _training_values(spec, checkpoint)),
        ("hyperparameters", hyperparameters),
        *([("environment", format_variables(spec.environment, 2))] if spec.environment else []),
        *metrics_of(spec),
        ("output_path", 'f"s3://{BUCKET}/{PREFIX}/output"'),
    ]
    return format_call("estimator = Estimator", estimator)


def channels_of(spec: JobSpec) -> str:
    """Write what ``fit`` takes: the inputs by the name of their channel."""
    inputs = [f"            {quote(channel.name)}: {_training_input(channel)},\n" for channel in spec.channels]
    return "".join(["\n        {\n", *inputs, "        }\n    "]) if inputs else ""


def checkpoint_uri(place: str) -> str:
    """Write where checkpoints are kept."""
    return quote(place) if place.startswith("s3://") else 'f"s3://{BUCKET}/{PREFIX}/checkpoints"'


def _training_hosts(spec: JobSpec) -> Arguments:
    if is_heterogeneous(spec):
        groups = "".join(
            f"            InstanceGroup({quote(g.name)}, {format_instance_type(g.instance_type)}, "
            f"{g.instance_count}),{helper_comment(g)}\n"
            for g in spec.instance_groups
        )
        return [("instance_groups", f"[\n{groups}        ]")]
    only = spec.instance_groups[0]
    return [("instance_type", format_instance_type(only.instance_type)), ("instance_count", str(only.instance_count))]


def _training_values(spec: JobSpec, checkpoint: str) -> dict[str, str | None]:
    return {
        "image": None,
        "role": None,
        "max_run": str(spec.max_run),
        "keep_alive": keep_alive_seconds(spec),
        "max_wait": wait_seconds(spec),
        "checkpoint": (checkpoint or checkpoint_uri(spec.checkpoint)) if spec.checkpoint else None,
    }


def keep_alive_seconds(spec: JobSpec) -> str | None:
    """Write how long hosts are kept; SageMaker has warm pools of hosts of one kind, and none of spot hosts."""
    if not spec.keep_alive or spec.spot or is_heterogeneous(spec):
        return None
    return str(min(spec.keep_alive, LONGEST_KEEP_ALIVE))


def wait_seconds(spec: JobSpec) -> str | None:
    """Write the limit for waiting of a spot job, which SageMaker requires."""
    return str(spec.max_wait or spec.max_run) if spec.spot else None


def helper_comment(group: InstanceGroup) -> str:
    """Write the comment after a group that helps another one."""
    if not group.until:
        return ""
    return f"  # SageMaker ends no helpers: its script has to end when {group.until} is done"


def metrics_of(spec: JobSpec) -> Arguments:
    """Write the metric definitions."""
    found = [quote({"Name": name, "Regex": regex}) for name, regex in spec.metrics.items()]
    return list_argument("metric_definitions", found)


def _training_input(channel: Channel) -> str:
    words = [uri_of(channel)]
    if channel.content_type:
        words.append(f"content_type={quote(channel.content_type)}")
    if channel.distribution != "FullyReplicated":
        words.append(f"distribution={quote(channel.distribution)}")
    if channel.mode != "File":
        words.append(f"input_mode={quote(channel.mode)}")
    if channel.groups:
        words.append(f"instance_groups={quote(channel.groups)}")
    if channel.data_type != "S3Prefix":
        words.append(f"s3_data_type={quote(channel.data_type)}")
    return f"TrainingInput({', '.join(words)})"


def uri_of(channel: Channel) -> str:
    """Write where the data of a channel is, having copied there what is on this machine."""
    if channel.source.startswith("s3://"):
        return quote(channel.source)
    if "://" in channel.source:  # the program cannot copy it there
        return f'f"s3://{{BUCKET}}/{{PREFIX}}/input/{channel.name}"'
    return f"uploaded(session, {quote(channel.name)}, {quote(channel.source)})"


def _processing(spec: JobSpec, script: str, *, alone: bool) -> str:
    words = script_arguments(spec)
    asked: Arguments = [("arguments", quote(words))] if words else []
    return f"{processor_of(spec, alone=alone)}\n{run_of(spec, script, asked, alone=alone)}"


def _processor_class(spec: JobSpec, *, alone: bool) -> str:
    if spec.image_program:
        return "Processor"
    return "PySparkProcessor" if _is_for_spark(spec) else "ScriptProcessor" if alone else "FrameworkProcessor"


def processor_of(spec: JobSpec, *, alone: bool) -> str:
    """Write a processor."""
    groups, name = spec.instance_groups, _processor_class(spec, alone=alone)
    framework = [("estimator_cls", "SKLearn"), ("framework_version", '"1.2-1"')]
    command = [("command", quote(interpreter_of(spec) or ["/bin/sh"]))]
    processor: Arguments = [
        *(framework if name == "FrameworkProcessor" else []),
        ("image_uri", "IMAGE_URI"),
        *(command if name in ("ScriptProcessor", "FrameworkProcessor") else []),
        ("role", "ROLE"),
        ("sagemaker_session", "session"),
        ("base_job_name", quote(spec.base_name)),
        ("instance_type", format_instance_type(groups[0].instance_type)),
        ("instance_count", str(spec.instance_count())),
        *([("env", format_variables(spec.environment, 2))] if spec.environment else []),
        *sdk_arguments(spec, lambda names: names.processor, _processing_values(spec)),
    ]
    return format_call(f"processor = {name}", processor)


def _processing_values(spec: JobSpec) -> dict[str, str | None]:
    return {
        "image": None,
        "role": None,
        "max_run": str(min(spec.max_run, LONGEST_PROCESSING)),
        "network_isolation": "NetworkConfig(enable_network_isolation=True)" if spec.network_isolation else None,
    }


def run_of(spec: JobSpec, script: str, asked: Arguments, *, alone: bool, below: str = "") -> str:
    """Write the call that runs a script on a processor, with what is ``asked`` besides; outputs go ``below``."""
    spark = _is_for_spark(spec)
    path = f'str(HERE / "code" / {quote(script)})'
    code = [("submit_app", path)] if spark else [("code", path if alone else quote(script))]
    run: Arguments = [
        *(code if script else []),
        *([] if alone or not script else [_SPARK_PY_FILES if spark else ("source_dir", "CODE")]),
        *list_argument("inputs", (_processing_input(channel) for channel in spec.channels)),
        *list_argument("outputs", (_processing_output(output, below) for output in spec.outputs)),
        *asked,
    ]
    return format_call("processor.run", run)


def interpreter_of(spec: JobSpec) -> list[str]:
    """Return the arguments that SageMaker's processors put before the script, none if it is a program.

    A file arrives without execute permission, so the interpreter of its first line must be named again.
    """
    if spec.command:
        return list(spec.command) if spec.entry_point else ["/bin/sh"]
    if not spec.entry_point or spec.entry_point.endswith(".py"):
        return ["python3"]
    first = spec.source.split("\n", 1)[0]
    named = first[2:].split() if first.startswith("#!") else []
    if named and named[0].startswith(_IMAGE_BIN_FOLDERS):
        return named
    return ["/bin/sh"] if spec.entry_point.endswith(".sh") else []


def list_argument(name: str, each: Iterable[str]) -> Arguments:
    """Write an argument that is a list, one row per line; nothing for an empty list."""
    found = "".join(f"            {row},\n" for row in each)
    return [(name, f"[\n{found}        ]")] if found else []


def _processing_input(channel: Channel) -> str:
    words = [
        f"source={uri_of(channel)}",
        f"destination={quote(input_folder('process', channel.name, channel.path))}",
        f"input_name={quote(channel.name)}",
    ]
    if channel.distribution != "FullyReplicated":
        words.append(f"s3_data_distribution_type={quote(channel.distribution)}")
    if channel.data_type != "S3Prefix":
        words.append(f"s3_data_type={quote(channel.data_type)}")
    return f"ProcessingInput({', '.join(words)})"


def _processing_output(output: Output, below: str) -> str:
    goal = f'f"s3://{{BUCKET}}/{{PREFIX}}/output/{below}{output.name}"'
    upload = "" if output.mode == "EndOfJob" else f", s3_upload_mode={quote(output.mode)}"
    words = f"source={quote(output_folder(output))}, output_name={quote(output.name)}, destination={goal}{upload}"
    return f"ProcessingOutput({words})"


def format_call(name: str, arguments: Arguments) -> str:
    """Write a call, one argument on a line."""
    lines = "".join(f"        {word}={value},\n" for word, value in arguments)
    return f"    {name}(\n{lines}    )"


def format_variables(value: dict[str, str], depth: int) -> str:
    """Write variables as a dict, one on a line; those of secrets are empty."""
    indent = "    " * depth
    found = "".join(f"{indent}    {_variable(name, text)}\n" for name, text in value.items())
    return f"{{\n{found}{indent}}}"


def _variable(name: str, text: str) -> str:
    return (
        f'{quote(name)}: "",  # a secret, which is not exported'
        if is_secret(name)
        else f"{quote(name)}: {quote(text)},"
    )


def decode_hyperparameters(hyperparameters: dict[str, str]) -> dict[str, Any]:
    """Return hyperparameters as the script reads them: JSON as a value, anything else as text."""
    return {name: as_read.decode(text) for name, text in hyperparameters.items()}


def script_arguments(spec: JobSpec) -> list[str]:
    """Return the arguments of the script, by the contract that the job used.

    A command without a script gets no hyperparameters.
    """
    if spec.command and not spec.entry_point:
        return list(spec.arguments)
    if spec.kind == "train" and spec.contract == "v3":
        return as_read.sdk3_arguments(spec.hyperparameters)
    return [*hyperparameter_arguments(spec.hyperparameters), *spec.arguments]


def hyperparameter_arguments(hyperparameters: dict[str, str]) -> list[str]:
    """Return the arguments after the script's name, as SageMaker's toolkit makes them of hyperparameters."""
    own, _ = as_read.split(hyperparameters)
    return as_read.arguments(own)
