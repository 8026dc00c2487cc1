"""Parse the values of ``--input``, ``--output``, ``--group`` and ``NAME=VALUE`` to objects of the model."""

from __future__ import annotations

import json
import re
import shlex
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from jupyter_smx.agent.stores.url_schemes import URL_OR_CHAIN
from jupyter_smx.kernel.options.line_syntax import restore_braces, text_of, value_of
from jupyter_smx.model import unsupported
from jupyter_smx.model.errors import ValidationError, suggest_names
from jupyter_smx.model.name import slug
from jupyter_smx.model.options.convert import parse_number
from jupyter_smx.model.request_texts import encode_text
from jupyter_smx.model.spec.channel import Channel, Output
from jupyter_smx.model.spec.instance import InstanceGroup
from jupyter_smx.model.spec.metric import check_metrics
from jupyter_smx.model.text import format_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_MAX_NAME_LENGTH = 64
_CHANNEL = re.compile(rf"[A-Za-z0-9._-]{{1,{_MAX_NAME_LENGTH}}}")  # SageMaker's ChannelName
_PROPERTIES = ("mode", "distribution", "groups", "type", "content_type", "path")
_PROPERTY = re.compile(rf",(?=(?:{'|'.join(_PROPERTIES)})=)")
_LOOKS_LIKE_PROPERTY = re.compile(r",(\w+)=")

_OPTIONAL_PART = re.compile(r"[\[|:]")
"""Begin of an optional part of a form."""

_MODES: dict[str, Literal["File", "FastFile"]] = {"file": "File", "fastfile": "FastFile"}
_DISTRIBUTIONS: dict[str, Literal["FullyReplicated", "ShardedByS3Key"]] = {
    "replicated": "FullyReplicated",
    "fullyreplicated": "FullyReplicated",
    "sharded": "ShardedByS3Key",
    "shardedbys3key": "ShardedByS3Key",
}
_TYPES: dict[str, Literal["S3Prefix", "ManifestFile"]] = {
    "prefix": "S3Prefix",
    "s3prefix": "S3Prefix",
    "manifest": "ManifestFile",
    "manifestfile": "ManifestFile",
}
PROPERTY_VALUES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_PROPERTIES, ()),
    "mode": tuple(dict.fromkeys(_MODES.values())),
    "distribution": tuple(dict.fromkeys(_DISTRIBUTIONS.values())),
    "type": tuple(dict.fromkeys(_TYPES.values())),
}
"""The properties of a channel, and the values of each that has few."""
_UPLOAD = re.compile(r",mode=")
_UPLOADS: dict[str, Literal["EndOfJob", "Continuous"]] = {"endofjob": "EndOfJob", "continuous": "Continuous"}
_TRAINING_OUTPUT_PATHS = {"model": "/opt/ml/model", "data": "/opt/ml/output/data"}
_Choice = TypeVar("_Choice", bound=str)
ENGINE_OPTION = "--engine-option"
PROCESSING_OUTPUT = "/opt/ml/processing/output"


def parse_pair(text: str, option: str, form: str) -> tuple[str, str]:
    """Split ``NAME=VALUE``.

    :raises ValidationError: no ``=``, or nothing before it.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ValidationError(
            f"{option}: {text!r} has no {'name before' if equals else '='}{' the =' if equals else ''}.",
            field=option.removeprefix("--"),
            value=text,
            rule=f"The form is {form}.",
            cure=f"For example {option} {_example(name, option, form)}.",
        )
    return name.strip(), value


def _example(name: str, option: str, form: str) -> str:
    """Format a correct example of an option's form, with letters that a shell and every such name accept."""
    word = re.sub(r"\W+" if option == "--env" else r"[^\w.-]+", "_", name, flags=re.ASCII).strip("_")
    if not word or (option == "--env" and word[0].isdigit()):
        word = form.partition("=")[0]
    value, *_ = _OPTIONAL_PART.split(form.partition("=")[2])
    return f"{word}={value}"


def collect_unique(pairs: Iterable[tuple[str, str]], option: str, field: str) -> dict[str, str]:
    """Collect values by their names.

    :raises ValidationError: a name that is given twice.
    """
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise ValidationError(
                f"{option}: {name} is given twice.",
                field=field,
                value=name,
                rule="A name has one value.",
                cure="Remove one, or rename it.",
            )
        found[name] = value
    return found


def to_text(
    value: object,
    option: str,
    *,
    field: str = "",
    rule: str = "Hyperparameters are text, and Python converts no number with so many digits.",
    cure: str = "Send it as a variable instead.",
) -> str:
    """Write a value as text; ``field`` ("" is that of the option), ``rule`` and ``cure`` are those of the error.

    :raises ValidationError: a number of more digits than Python writes.
    """
    try:
        return str(value)
    except ValueError:
        raise ValidationError(
            f"{option}: {format_value(value)} is too long.",
            field=field or option.partition(" ")[0].removeprefix("--"),
            value=format_value(value),
            rule=rule,
            cure=cure,
        ) from None


def parse_engine_options(texts: Iterable[str]) -> dict[str, str]:
    """Read ``NAME=VALUE`` of each ``--engine-option``; the engine checks names and values.

    :raises ValidationError: no ``=``, or a name that is given twice.
    """
    pairs = (parse_pair(text, ENGINE_OPTION, "NAME=VALUE") for text in texts)
    return dict(sorted(collect_unique(pairs, ENGINE_OPTION, "engine_options").items()))


def engine_option_texts(options: Mapping[str, object]) -> dict[str, str]:
    """Write the options of an engine as text, True and False as ``true`` and ``false``; leave out those that are None.

    :raises ValidationError: a name is no text, or a value is neither text nor a number nor a truth value.
    """
    given = {name: value for name, value in options.items() if value is not None}
    return {name: _engine_option_text(name, given[name]) for name in sorted(given, key=str)}


def _engine_option_text(name: object, value: object) -> str:
    if not isinstance(name, str) or not isinstance(value, (str, int, float)):
        raise ValidationError(
            f"engine_options: {format_value(name)}: {format_value(value)} is not an option of an engine.",
            field="engine_options",
            value=format_value(value),
            rule="Names are text. Values are text, numbers, True or False.",
            cure="For example engine_options={'time': '2h'}.",
        )
    rule = "Options are text, and Python converts no number with so many digits."
    text = to_text(value, f"{ENGINE_OPTION} {name}", field="engine_options", rule=rule, cure="Use a shorter number.")
    return text.lower() if isinstance(value, bool) else text


def parse_metrics(words: Iterable[str]) -> dict[str, str]:
    """Read ``NAME=REGEX`` as often as it stands; braces belong to the regex.

    :raises ValidationError: no ``=``, a name that is given twice, or a regex that SageMaker would not take.
    """
    found = collect_unique(
        (parse_pair(restore_braces(word), "--metric", "NAME=REGEX") for word in words), "--metric", "metrics"
    )
    return check_metric_definitions(found)


def check_metric_definitions(definitions: Mapping[str, str]) -> dict[str, str]:
    """Return metric definitions if SageMaker would accept them.

    :raises ValidationError: there are too many, or a name or a regex is invalid.
    """
    if definitions:
        check_metrics(definitions)
    return dict(definitions)


def parse_group(text: str) -> InstanceGroup:
    """Read ``NAME:TYPE:COUNT[,until=LEADER_FIELDS]``.

    :raises ValidationError: another number of parts, a count that is none, or another property.
    """
    plain_text, _, rest = text.partition(",")
    parts = plain_text.split(":")
    if len(parts) != 3 or not all(parts):  # noqa: PLR2004 - name, type, count
        raise ValidationError(
            f"--group: {text!r} is not a group.",
            field="group",
            value=text,
            rule="The form is NAME:TYPE:COUNT[,until=LEADER].",
            cure="For example data:ml.c5.xlarge:2.",
        )
    cure = f"For example --group {parts[0]}:{parts[1]}:1{',' if rest else ''}{rest}."
    count = parse_number(parts[2], "--group", "of hosts", 1, cure=cure)
    return InstanceGroup(name=parts[0], instance_type=parts[1], instance_count=count, until=_parse_leader(text, rest))


def _parse_leader(text: str, rest: str) -> str:
    word, _, leader = rest.partition("=")
    if not rest or (word == "until" and leader):
        return leader
    if word == "image":
        raise ValidationError(
            f"--group: {text!r} has an image.",
            field="group",
            value=rest,
            rule="As on SageMaker, all groups of a job use one image.",
            cure=f"Set the image of the job: --image {leader or 'IMAGE'}.",
        )
    raise ValidationError(
        f"--group: {text!r} ends with an unknown property.",
        field="group",
        value=rest,
        rule="The only property is until=LEADER: the group is a helper, and ends when the hosts of LEADER have ended.",
        cure="For example data:ml.c5.xlarge:2,until=dnn.",
    )


def parse_command(command: str | Sequence[str]) -> tuple[str, ...]:
    """Split a command into its words as a shell does; a list has them already.

    :raises ValidationError: a quote that is never closed.
    """
    if not isinstance(command, str):
        return tuple(command)
    try:
        return tuple(shlex.split(command))
    except ValueError:
        raise ValidationError(
            f"--command: {command!r} has a quote that is never closed.",
            field="command",
            value=command,
            rule="It is split into words as by a shell.",
            cure="Close the quote.",
        ) from None


def parse_channel(text: str, folder: Path) -> Channel:
    """Read ``CHANNEL=SOURCE[,mode=…][,distribution=…][,groups=a+b][,type=…][,content_type=…][,path=…]``.

    Relative paths start at ``folder``.

    :raises ValidationError: the name, a property or its value is not one.
    """
    name, rest = parse_pair(
        text, "--input", "CHANNEL=SOURCE[,mode=…][,distribution=…][,groups=a+b][,type=…][,content_type=…][,path=…]"
    )
    return read_channel(name, rest, folder)


def read_channel(name: str, text: str, folder: Path) -> Channel:
    """Read a channel of this name from the text of its source and its properties, ``SOURCE[,mode=…]…``.

    Relative paths start at ``folder``.

    :raises ValidationError: the name, a property or its value is not one.
    """
    check_channel_name(name)
    source, *properties = _PROPERTY.split(text)
    if not source:
        raise ValidationError(
            f"--input {name}: the source is missing.",
            field="input",
            value=f"{name}={text}",
            rule="The source is a file, a folder or a URL.",
            cure=f"For example --input {name}=data.csv.",
        )
    typed = _LOOKS_LIKE_PROPERTY.search(source)
    if typed and not (folder / source).exists():
        unsupported.check_property(name, typed[1])
        raise ValidationError(
            f"--input {name}: {typed[1]} is not a channel property.",
            field="input",
            value=typed[1],
            rule=f"The properties are {', '.join(_PROPERTIES)}.",
            cure=suggest_names(typed[1], _PROPERTIES),
        )
    found = dict(part.split("=", 1) for part in properties)
    for word in (word for part in properties for word in _LOOKS_LIKE_PROPERTY.findall(part)):
        unsupported.check_property(name, word)
    for word in ("mode", "type"):
        unsupported.check_property(name, word, found.get(word, ""))
    return Channel(
        name=name,
        source=absolute_path(source, folder),
        mode=_parse_choice(found.get("mode", "File"), _MODES, f"--input {name}: mode"),
        distribution=_parse_choice(
            found.get("distribution", "FullyReplicated"), _DISTRIBUTIONS, f"--input {name}: distribution"
        ),
        groups=tuple(part for part in found.get("groups", "").split("+") if part),
        data_type=_parse_choice(found.get("type", "S3Prefix"), _TYPES, f"--input {name}: type"),
        content_type=found.get("content_type", ""),
        path=found.get("path", ""),
    )


def check_channel_name(name: str) -> str:
    """Return a channel's name if SageMaker would accept it.

    :raises ValidationError: other characters, or more than 64.
    """
    if _CHANNEL.fullmatch(name):
        return name
    raise ValidationError(
        f"--input: {name!r} is not a valid channel name.",
        field="input",
        value=name,
        rule="A channel's name has letters, digits, points, hyphens and underscores, 64 at most.",
        cure=f"For example --input {(slug(name) or 'train')[:_MAX_NAME_LENGTH]}=SOURCE.",
    )


def parse_output(text: str, kind: str, folder: Path, place: int = 1) -> Output:
    """Read ``[NAME=]PATH[:DESTINATION][,mode=EndOfJob|Continuous]``; ``place`` counts the outputs from 1.

    In a processing job PATH is the folder in the job; empty means ``/opt/ml/processing/output/NAME``. In a training
    job NAME is ``model`` or ``data`` and PATH is the folder here that the archive is copied to.

    :raises ValidationError: another name in a training job, or a folder of the job alone; a relative folder in the job.
    """
    if kind == "process" and text.startswith("/"):
        return processing_output(default_output_name(place), text, folder)
    name, rest = parse_pair(text, "--output", "NAME=PATH[:DESTINATION]")
    return training_output(name, rest, folder) if kind == "train" else processing_output(name, rest, folder)


def default_output_name(place: int) -> str:
    """Return the name that SageMaker's SDK gives an output of a processing job that has none."""
    return f"output-{place}"


def training_output(name: str, destination: str, folder: Path) -> Output:
    """Make the output of a training job: ``model`` or ``data``, copied to ``destination``."""
    if name not in _TRAINING_OUTPUT_PATHS:
        raise ValidationError(
            f"--output: {name!r} is not an output of a training job.",
            field="output",
            value=name,
            rule="The outputs of a training job are model (/opt/ml/model) and data (/opt/ml/output/data).",
            cure=suggest_names(name, _TRAINING_OUTPUT_PATHS) or "%%process takes outputs of any name.",
        )
    path, (destination, mode) = _TRAINING_OUTPUT_PATHS[name], _split_upload_mode(name, destination)
    if destination.startswith((":", f"{path}:")):  # as for a processing job
        destination = destination.partition(":")[2]
    if f"{destination}/".startswith("/opt/ml/"):
        raise ValidationError(
            f"--output {name}: {destination!r} is a folder in the job.",
            field="output",
            value=destination,
            rule=f"The files in {path} are copied to a folder of this machine or to a URL.",
            cure=f"For example --output {name}=results.",
        )
    return Output(
        name=name, path=path, destination=absolute_path(destination, folder) if destination else "", mode=mode
    )


def processing_output(name: str, text: str, folder: Path) -> Output:
    """Make the output of a processing job from ``PATH[:DESTINATION][,mode=…]``; the first colon divides the two."""
    check_channel_name(name)
    text, mode = _split_upload_mode(name, text)
    path, _, destination = text.partition(":")
    path = path or f"{PROCESSING_OUTPUT}/{name}"
    if not path.startswith("/"):
        raise ValidationError(
            f"--output {name}: {path!r} is not a folder in the job.",
            field="output",
            value=path,
            rule="PATH is an absolute path inside the job.",
            cure=f"For example --output {name}={PROCESSING_OUTPUT}/{name}:{path}, "
            f"or --output {name}=:{path} for the default folder.",
        )
    return Output(
        name=name, path=path, destination=absolute_path(destination, folder) if destination else "", mode=mode
    )


def _split_upload_mode(name: str, text: str) -> tuple[str, Literal["EndOfJob", "Continuous"]]:
    """Part what stands behind ``,mode=`` from the rest."""
    rest, *modes = _UPLOAD.split(text)
    return rest, _parse_choice(modes[-1] if modes else "EndOfJob", _UPLOADS, f"--output {name}: mode")


def absolute_path(source: str, folder: Path) -> str:
    """Make a path absolute from ``folder``; a URL stays as it is, unless it is one of a file here."""
    source = source.removeprefix("file://")
    return source if URL_OR_CHAIN.match(source) else str(folder / expand_user(source))


def _parse_choice(text: str, known: dict[str, _Choice], where: str) -> _Choice:
    found = known.get(text.lower())
    if found is None:
        raise ValidationError(
            f"{where} {text!r} does not exist.",
            field=where.split(maxsplit=1)[0].removeprefix("--"),
            value=text,
            rule=f"There are {', '.join(sorted(set(map(str, known.values()))))}.",
            cure=suggest_names(text.lower(), known),
        )
    return found


def expand_user(word: str | Path) -> Path:
    """Replace ``~`` by a home folder; if there is no such user, keep it as part of a file's name, as a shell does."""
    try:
        return Path(word).expanduser()
    except RuntimeError:  # raised by pathlib without a home folder
        return Path(word)


def path_kind(path: str | Path) -> Literal["file", "folder", "other", ""]:
    """Return what a path leads to: ``""`` for nothing, as for a name that is too long, where pathlib raises."""
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return ""
    return "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"


def parse_hyperparameters(words: tuple[str, ...], namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Parse the words of ``--hp NAME=VALUE``; a value that is one ``{expression}`` keeps the type of its variable.

    :raises ValidationError: no ``=``, a name that is given twice, or an expression that names no value.
    """
    pairs = (parse_pair(word, "--hp", "NAME=VALUE") for word in words)
    named = ((text_of(name, namespace, "--hp"), word) for name, word in pairs)
    given = collect_unique(named, "--hp", "hyperparameters")
    return {name: value_of(word, namespace, f"--hp {name}") for name, word in given.items()}


def encode_hyperparameter(name: str, value: Any, *, keep_text: bool = False) -> str:
    """Write a hyperparameter: a string stays as it is, anything else becomes JSON.

    With ``keep_text`` a string becomes JSON, too, as SageMaker's framework estimators send it: a script gets ``1.10``
    as that text, and not as the number 1.1.

    :raises ValidationError: a value that JSON cannot hold.
    """
    if isinstance(value, str):
        return encode_text(value) if keep_text else value
    try:
        return json.dumps(value, default=_scalar, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        if "JSON compliant" in str(error):
            raise ValidationError(
                f"--hp {name}: nan and infinity are not valid JSON.",
                field="hyperparameters",
                value=name,
                rule="Scripts in other languages could not read them.",
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
