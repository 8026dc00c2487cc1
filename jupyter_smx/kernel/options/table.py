"""The options of ``%%train`` and ``%%process``: one table, read by argparse, with errors that name the cure."""

from __future__ import annotations

import argparse
import functools
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from jupyter_smx.kernel.options.defaults import defaults_for_line
from jupyter_smx.kernel.options.line_syntax import OPEN, restore_braces, split, text_of
from jupyter_smx.model.errors import ValidationError, suggest_names

if TYPE_CHECKING:
    from collections.abc import Mapping


class Options(Struct, frozen=True, kw_only=True):
    """The words behind each option as they were typed; nothing is looked up or checked against a policy yet."""

    instance_type: str | None = None
    instance_count: str | None = None
    group: tuple[str, ...] = ()
    distribution: str = ""
    engine: str = "local"
    image: str = ""
    keep_alive: str = "0"
    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    hp: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    arg: tuple[str, ...] = ()
    python: str = ""
    requirements: str = ""
    source_dir: str = ""
    entry_point: str = ""
    contract: str | None = None
    role: str = ""
    max_run: str | None = None
    metric: tuple[str, ...] = ()
    sweep: bool = False
    max_wait: str | None = None
    spot: bool = False
    checkpoint: str = ""
    checkpoint_local_path: str = ""
    disable_output_compression: bool = False
    network_isolation: bool = False
    max_concurrent: str | None = None
    retries: str | None = None
    after: tuple[str, ...] = ()
    send: tuple[str, ...] = ()
    receive: tuple[str, ...] = ()
    handle: str = ""
    """The notebook variable that gets the handle (``--as``)."""
    name: str = ""
    wait: bool = False
    plan: bool = False
    help: bool = False


class Option(Struct, frozen=True):
    """One row of the table: the spellings, the value's form, an example of it, what it means."""

    spellings: tuple[str, ...]
    metavar: str
    example: str
    help: str
    dest: str = ""
    many: bool = False


TABLE = (
    Option(("-t", "--instance-type"), "TYPE", "ml.m5.xlarge", "instance type of the hosts; default local"),
    Option(("-n", "--instance-count"), "N", "1", "number of hosts; default 1"),
    Option(
        ("-g", "--group"),
        "NAME:TYPE:COUNT[,until=LEADER]",
        "data:ml.c5.xlarge:2",
        "an instance group, instead of -t, -n; with until it helps LEADER, and is told to end when those hosts have",
        many=True,
    ),
    Option(
        ("-d", "--distribution"),
        "torchrun|mpi[,processes=N][,groups=GROUP]|parameter_server|multi_worker_mirrored_strategy[,groups=GROUP]|pyspark",
        "torchrun,processes=2",
        "run the script in N processes on each host, as torchrun or mpirun starts them; default one per GPU, or one; "
        "with a strategy of TensorFlow's TF_CONFIG has the hosts; "
        "with pyspark a processing script runs once, on a Spark cluster of all hosts",
    ),
    Option(("-e", "--engine"), "NAME", "docker", "where hosts come from: local, docker or another one; default local"),
    Option(
        ("--image",),
        "IMAGE",
        "python:3.11-slim",
        "image that the hosts are made of, with the Python that runs the job, on an engine that has images, as docker",
    ),
    Option(
        ("-k", "--keep-alive"), "DURATION", "10m", "keep the hosts warm so long after the job: 600, 10m, 1h; default 0"
    ),
    Option(
        ("-i", "--input"),
        "CHANNEL=SOURCE[,mode=File|FastFile][,distribution=replicated|sharded][,groups=a+b][,type=manifest][,content_type=TYPE][,path=FOLDER]",
        "train=data/train",
        "input channel from a path, a glob or a URL; path is where a processing job finds it",
        many=True,
    ),
    Option(
        ("-o", "--output"),
        "NAME=PATH[:DESTINATION][,mode=EndOfJob|Continuous]",
        "report=/opt/ml/processing/output/report",
        "output of a processing job: the folder in the job and where it goes, at the end or while it runs; "
        "for %%train NAME is model or data and PATH is the folder that its archive is copied to",
        many=True,
    ),
    Option(
        ("-p", "--hp"),
        "NAME=VALUE",
        "epochs=3",
        "hyperparameter, also an argument of the script; {expr} takes a value from the notebook, as a value",
        many=True,
    ),
    Option(
        ("--arg",),
        "WORD",
        "0.2",
        "of a processing job: one word that its script gets as it is, behind those of --hp; --arg=--split where it "
        "begins with a hyphen",
        many=True,
    ),
    Option(("--env",), "NAME=VALUE", "OMP_NUM_THREADS=2", "environment variable of the job", many=True),
    Option(
        ("--python",),
        "PATH|conda:NAME|uv:REQUIREMENTS",
        "conda:torch",
        "Python of the job: an interpreter or the folder of a virtual environment, an environment of conda, or one "
        "made of these requirements alone (a file, or names between commas); default the kernel's own, and with "
        "--image always that of the image",
    ),
    Option(
        ("--requirements",),
        "FILE|none",
        "requirements.txt",
        "packages that the job's Python gets on top of its own, in an environment that later jobs reuse, or in an "
        "image for this job alone; default requirements.txt in --source-dir, as on SageMaker, if it has one",
    ),
    Option(("--source-dir",), "DIR", "src", "folder of code that lies beside the script in the job"),
    Option(
        ("--entry-point",),
        "FILE",
        "train.py",
        "file to run instead of the cell, in --source-dir if that is given: a Python script, a shell script (.sh) or "
        "another program; where that folder has a setup.py it is installed and the file run as a module of it",
    ),
    Option(
        ("--contract",),
        "v2|v3",
        "v3",
        "what a training script sees: v2, the default, is what the toolkit in SageMaker's images shows it; v3 is what "
        "the drivers of SageMaker's Python SDK 3 do",
    ),
    Option(("--role",), "ROLE", "research", "role that the job runs under; part of what a warm pool is reused by"),
    Option(("--max-run",), "DURATION", "2h", "stop the job after this time; default 1d"),
    Option(
        ("--spot",),
        "",
        "",
        "managed spot: the hosts may be taken away at any time, and then the job begins again with its checkpoints",
    ),
    Option(
        ("--max-wait",),
        "DURATION",
        "4h",
        "with --spot: stop the job when its waiting and running take longer than this; at least --max-run",
    ),
    Option(
        ("--checkpoint",),
        "DIR|URL",
        "checkpoints",
        "folder, or URL as s3://BUCKET/FOLDER, that /opt/ml/checkpoints of the job is restored from at each start, and "
        "kept in while the job runs",
    ),
    Option(
        ("--checkpoint-local-path",),
        "FOLDER",
        "/opt/ml/checkpoints/last",
        "with --checkpoint: folder of the job, below /opt/ml, that has the checkpoints; default /opt/ml/checkpoints",
    ),
    Option(
        ("--disable-output-compression",),
        "",
        "",
        "bring the files of /opt/ml/model home as they are, and not as model.tar.gz",
    ),
    Option(
        ("--network-isolation",),
        "",
        "",
        "the hosts reach each other and nothing else, on an engine that can close their network",
    ),
    Option(
        ("--metric",),
        "NAME=REGEX",
        "loss=loss=([0-9.]+)",
        "metric whose value is the first group of this regular expression in a line of the log; what tqdm, Keras, "
        "Lightning, Hugging Face, XGBoost and LightGBM print is understood without one",
        many=True,
    ),
    Option(
        ("--sweep",),
        "",
        "",
        "a task for each point of the grid that the lists among the hyperparameters span: --hp lr=[0.1,0.01]",
    ),
    Option(("--max-concurrent",), "N", "4", "with --sweep: so many tasks at a time; default as there is room"),
    Option(
        ("--retries",),
        "N",
        "3",
        "run the job again, up to N times (30 at most), when it failed by our fault, as when its host was lost; "
        "a failure of the code is never retried, and --max-run covers all attempts",
    ),
    Option(
        ("--after",),
        "JOB,...",
        "prepare",
        "begin when these jobs have completed: handles, names, ids; if one does not complete, this one does not run",
        many=True,
    ),
    Option(("--send",), "A,B", "cfg,table", "notebook variables that the job gets", many=True),
    Option(("--receive",), "C,D", "model,scores", "variables of the job that the notebook gets", many=True),
    Option(("--as",), "NAME", "job", "notebook variable for the handle of the job", dest="handle"),
    Option(("--name",), "NAME", "train-digits", "name of the job; its id's first digits are added"),
    Option(("--wait",), "", "", "wait for the job, show its log, raise its failure here"),
    Option(("--plan",), "", "", "say what would happen and why, and stop"),
    Option(("-h", "--help"), "", "", "this page"),
)

SPELLINGS = tuple(spelling for option in TABLE for spelling in option.spellings)


class _Parser(argparse.ArgumentParser):
    """Raises where argparse would print and end the process, which here is the kernel."""

    def error(self, message: str) -> NoReturn:
        raise ValidationError(f"%%{self.prog}: {message}.", field="line", cure=f"%%{self.prog}? is the manual.")


@functools.cache
def parser(magic: str) -> argparse.ArgumentParser:
    """Make the parser of one magic, ``train`` or ``process``."""
    made = _Parser(
        prog=magic, add_help=False, allow_abbrev=False, exit_on_error=False, usage=f"%%{magic} [options]\ncode"
    )
    for option in TABLE:
        if option.metavar:
            made.add_argument(
                *option.spellings,
                metavar=option.metavar,
                help=option.help.replace("%", "%%"),
                action="append",
                dest=_dest(option),
            )
        else:
            made.add_argument(
                *option.spellings, help=option.help, action="store_true", default=argparse.SUPPRESS, dest=_dest(option)
            )
    return made


def parse(magic: str, line: str, defaults: Mapping[str, str] = MappingProxyType({})) -> Options:
    """Read the line of ``%%train`` or ``%%process``; ``defaults`` stand for options that the line does not have.

    :raises ValidationError: an unknown option (with the nearest right one), a missing value, an option given twice.
    """
    words = split(line)
    _check_spellings(magic, words)
    try:
        found, rest = parser(magic).parse_known_args(words)
    except argparse.ArgumentError as error:
        raise _missing_value_error(magic, error) from None
    if rest:
        raise _stray_word_error(magic, restore_braces(rest[0]))
    given = {name: value for name, value in vars(found).items() if value is not None}
    return build_options({**defaults_for_line(defaults, given), **given})


def build_options(found: Mapping[str, list[str] | bool | None]) -> Options:
    """Make the options of what :func:`parser` collected; names that are none of the table's are left out.

    :raises ValidationError: an option that takes one value and stands twice.
    """
    values = {name: value for name, value in found.items() if value is not None and name in ROWS}
    return msgspec.convert({name: _collapse(name, value) for name, value in values.items()}, Options)


def _dest(option: Option) -> str:
    return option.dest or option.spellings[-1].removeprefix("--").replace("-", "_")


ROWS = {_dest(option): option for option in TABLE}
_LISTS = frozenset({"send", "receive", "after"})


def _collapse(name: str, value: list[str] | bool) -> object:
    """Turn what argparse collected into a field: a tuple where the option repeats, else the only value."""
    if isinstance(value, bool):
        return value
    option = ROWS[name]
    if name in _LISTS:
        return tuple(part.strip() for word in value for part in restore_braces(word).split(",") if part.strip())
    if option.many:
        return tuple(value)
    if len(value) > 1:
        raise ValidationError(
            f"{option.spellings[-1]} stands twice on the line: "
            f"{restore_braces(value[0])} and {restore_braces(value[1])}.",
            field=name,
            value=restore_braces(value[1]),
            rule="It takes one value.",
            cure="Drop one.",
        )
    return value[0]


def _check_spellings(magic: str, words: list[str]) -> None:
    """Refuse unknown options before argparse can take their value for a stray word."""
    wants_value = {spelling for option in TABLE if option.metavar for spelling in option.spellings}
    previous = ""
    for word in words:
        is_value = previous in wants_value
        previous = "" if is_value else word
        if is_value or not _looks_like_option(word):
            continue
        spelling = word.split("=", 1)[0] if word.startswith("--") else word[:2]
        if spelling not in SPELLINGS:
            raise _unknown_option_error(magic, restore_braces(spelling if word.startswith("--") else word))


def _looks_like_option(word: str) -> bool:
    return len(word) > 1 and word.startswith("-")


def _unknown_option_error(magic: str, spelling: str) -> ValidationError:
    near = suggest_names(spelling, [known for known in SPELLINGS if known.startswith("--")])
    return ValidationError(
        f"%%{magic}: {spelling} is not an option.",
        field="line",
        value=spelling,
        cure=near or f"%%{magic}? lists them.",
    )


def _missing_value_error(magic: str, error: argparse.ArgumentError) -> ValidationError:
    spelling = (error.argument_name or "").split("/")[-1]
    option = next((row for row in TABLE if spelling in row.spellings), None)
    if option is None or not option.metavar:
        return ValidationError(f"%%{magic}: {spelling}: {error.message}.", field="line", value=spelling)
    return ValidationError(
        f"%%{magic}: {spelling} needs a value: {option.metavar}.",
        field=_dest(option),
        value=spelling,
        cure=f"For example {spelling} {option.example}.",
    )


def _stray_word_error(magic: str, word: str) -> ValidationError:
    cure = suggest_names(f"--{word}", [known for known in SPELLINGS if known.startswith("--")])
    return ValidationError(
        f"%%{magic}: {word!r} belongs to no option.",
        field="line",
        value=word,
        rule="The code stands under the line; a value with blanks needs quotes.",
        cure=cure,
    )


def manual(magic: str) -> str:
    """Write the page that ``%%train?`` and ``%%train --help`` show."""
    kind = "training" if magic == "train" else "processing"
    lines = [
        f"Run this cell as a {kind} job on warm hosts and go on working.",
        "",
        "::",
        "",
        f"  %%{magic} [options]",
        "  ... any Python ...",
        "",
        "Options:",
        "",
    ]
    for option in TABLE:
        lines.append(f"  {', '.join(option.spellings)} {option.metavar}".rstrip())
        lines.append(f"      {option.help}{' (repeat)' if option.many else ''}")
    return "\n".join([*lines, "", "The line goes on after a backslash. Nothing on it is evaluated."])


def expand_expressions(options: Options, namespace: Mapping[str, Any]) -> Options:
    """Give options in which each ``{expr}`` of one value is the text of what it names.

    :raises ValidationError: anything in braces but a path to a value of the notebook.
    """
    found = {
        name: text_of(word, namespace, ROWS[name].spellings[-1])
        for name, word in asdict(options).items()
        if isinstance(word, str) and OPEN in word
    }
    return replace(options, **found)
