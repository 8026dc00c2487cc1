"""Name the cure of a failed job: its likely cause, and the option that fixes it. Pure.

A job has its own folder, files and names. What exists on the submitter's side but not in the job is searched in
observations of the notebook's folder, and the cure names it.
"""

from __future__ import annotations

import os
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Protocol

from jupyter_smx.model.name import slug
from jupyter_smx.model.spec.channel import input_folder
from jupyter_smx.policy.hosts.image_cures import image_settings_cure
from jupyter_smx.policy.hosts.job_folders import has_opt_ml, missing_folder_cure, with_variables
from jupyter_smx.policy.hosts.library_versions import version_cure

if TYPE_CHECKING:
    from jupyter_smx.model.records.cluster import Host
    from jupyter_smx.model.records.job import HostEnd, RemoteException
    from jupyter_smx.model.spec.image import Image
    from jupyter_smx.model.spec.job_spec import JobSpec

_QUOTED = re.compile(r"'([^']+)'|\"([^\"]+)\"")
_MODULE = re.compile(r"No module named '?([\w.]+)")
_NAME = re.compile(r"name '(\w+)' is not defined")
_ABSENT = re.compile(
    r"no such file(?: or directory)?|not found|does ?n[o']t exist|"
    r"(?:cannot|can't|unable to|failed to|couldn't|could not) (?:\w+ )?(?:find|open|read)",
    re.IGNORECASE,
)
_NO_COMMAND = re.compile(
    r"^.*(?:command not found|(?:\b(?:a|ba|da|k|z)?sh|: (?:line )?\d+): [^\s/:]+: not found"
    r"|\benv: [^\s/:]+: no such file).*$",
    re.IGNORECASE | re.MULTILINE,
)
"""A shell's line about a program: the missing thing is no file of the notebook."""
_EXIT_CODE = re.compile(r"^Exit Code: \d+\. ")
_SPEAKER = re.compile(r"^[^\s:]+: (?=.*(?:: |['\"‘]))", re.MULTILINE)
"""The program that printed the line; a line with one colon may begin with the file."""
_OF_FILES = re.compile(r"\b(?:director|file|folder|open|path|read)", re.IGNORECASE)
"""Words of a message about a file, and not about a column, a table, an object or a page."""
_LOOKUPS = frozenset({"AttributeError", "IndexError", "KeyError"})
"""Exceptions about names in data, not about files."""
_SYSTEM = frozenset({"bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "run", "sbin", "sys", "usr"})
_SHARED = frozenset({"home", "media", "mnt", "opt", "root", "srv", "tmp", "var"})
"""Folders of every machine: their content may be the user's, but they are not."""
_NO_SHELL = re.compile(r"'NoneType' object has no attribute '(?:run_\w+|system|getoutput|kernel|user_ns|magic|ev|ex)'")
"""Attributes that code uses of the result of ``IPython.get_ipython()``."""
_CODE = "/opt/ml/code/"
_JOB_FOLDERS = "/opt/ml/"
_MAX_WORDS = 40
_PLAIN_PYTHON = "A job is plain Python without IPython: magics, ! and ? work in the notebook only."
_NO_KEYBOARD = "A job has no keyboard. Send the value from the notebook, or pass it as a hyperparameter."
_OF_NOTEBOOKS = {
    "display": "display() works in the notebook only. Print the value in the job, save it as a file in "
    "/opt/ml/output/data, or return it to the notebook and display it there.",
    "get_ipython": f"{_PLAIN_PYTHON} Remove what needs get_ipython(); subprocess.run runs commands.",
    "In": _PLAIN_PYTHON,
    "Out": _PLAIN_PYTHON,
}
"""Names that IPython provides."""
_ENVIRONMENT = "Read the variables SM_HOSTS, SM_MODEL_DIR and so on, or install it in the job's Python."
_FRAMEWORK = "Remove what needs it, or run the job in such an image."
_OF_IMAGES = {
    "horovod": "Install it in the job's Python, or use torchrun.",
    "sagemaker_containers": _ENVIRONMENT,
    "sagemaker_mxnet_container": _FRAMEWORK,
    "sagemaker_pytorch_container": _FRAMEWORK,
    "sagemaker_sklearn_container": _FRAMEWORK,
    "sagemaker_tensorflow": _FRAMEWORK,
    "sagemaker_tensorflow_container": _FRAMEWORK,
    "sagemaker_training": _ENVIRONMENT,
    "sagemaker_xgboost_container": _FRAMEWORK,
    "smdebug": "Remove it: SageMaker's Debugger is not supported here.",
    "smdistributed": "Use torchrun with the backend nccl or gloo.",
}
"""Modules that a script finds in SageMaker's images, and what to do without them."""


class NotebookFolder(Protocol):
    """Files of the submitter's machine; a relative path starts at the folder of the notebook."""

    def exists(self, path: str) -> bool:
        """Return True if a file or folder exists."""

    def is_file(self, path: str) -> bool:
        """Return True if a file exists."""

    def has_module(self, folder: str, name: str) -> bool:
        """Return True if a folder has a module or package of Python."""

    def folder_of_module(self, name: str) -> str:
        """Return the name of a folder in that of the notebook with a module; "" if there is none."""


def failure_cure(
    spec: JobSpec, end: HostEnd, folder: NotebookFolder, host: Host | None = None, image: Image | None = None
) -> str:
    """Return one or two sentences for the host whose end explains that of a failed job, "" if there is no cure.

    A ``host`` without an ``/opt/ml`` of its own is the cause where the job used such a path, and an ``image`` where
    the job missed what only the image's own user, entry point or working folder finds.
    """
    cure = _general_cure(spec, end, folder) or image_settings_cure(spec, end, image)
    if host is None or has_opt_ml(host):
        return cure
    said = end.exception.message if end.exception is not None else end.failure if end.cause == "exit" else ""
    return with_variables(spec, cure) or missing_folder_cure(spec, said, host)


def _general_cure(spec: JobSpec, end: HostEnd, folder: NotebookFolder) -> str:
    """Return the cure for causes that are the same on every host."""
    exception = end.exception
    if exception is None:
        return _sentence_cure(spec, end, folder)
    if old := version_cure(exception, keyword=spec.spelling == "keyword"):
        return old
    if exception.type in ("ModuleNotFoundError", "ImportError") and (found := _MODULE.search(exception.message)):
        return _module_cure(spec, found[1], folder)
    if exception.type == "NameError" and (found := _NAME.search(exception.message)):
        return _name_cure(spec, found[1])
    is_certain = exception.type == "FileNotFoundError"
    if is_certain or (exception.type not in _LOOKUPS and _ABSENT.search(exception.message)):
        return _first_file_cure(spec, exception.message, folder, any_word=is_certain)
    return _notebook_cure(exception)


def _sentence_cure(spec: JobSpec, end: HostEnd, folder: NotebookFolder) -> str:
    """Return the cure for a refusal of sent variables, or for the last lines of a program."""
    found = _MODULE.search(end.failure)
    if end.cause == "refused" and found is not None and end.failure.startswith("send: "):
        return _module_cure(spec, found[1], folder) or _absent_module_cure(spec, _top_level(found[1]))
    if end.cause == "exit" and found is not None:
        return _module_cure(spec, found[1], folder)
    if end.cause == "exit":
        said = _NO_COMMAND.sub("", _EXIT_CODE.sub("", end.failure))
        return _first_file_cure(spec, _SPEAKER.sub("", said), folder) if _ABSENT.search(said) else ""
    return ""


def _top_level(module: str) -> str:
    return module.partition(".")[0]


def _notebook_cure(exception: RemoteException) -> str:
    if exception.type == "EOFError" and "reading a line" in exception.message:
        return f"{_NO_KEYBOARD} input() finds nothing to read there."
    if exception.type == "BdbQuit":
        return "A job has no keyboard, so that breakpoint() and pdb end it. Remove the breakpoint."
    if exception.type == "AttributeError" and _NO_SHELL.search(exception.message):
        return _OF_NOTEBOOKS["get_ipython"]
    return ""


def _option(spec: JobSpec, option: str, line: str, keyword: str) -> str:
    """Write an option as the user does: on a line, or as a keyword of Python."""
    return f"Add {option.replace('-', '_')}={keyword}" if spec.spelling == "keyword" else f"Add --{option} {line}"


def _place(spec: JobSpec) -> str:
    return "in the folder of the notebook" if spec.notebook else f"in {spec.working_directory}"


def _first_file_cure(spec: JobSpec, message: str, folder: NotebookFolder, *, any_word: bool = False) -> str:
    """Return the cure for the first file that a message names.

    An English word may be the name of a folder, too: unless ``any_word`` is True or the message has "no such file",
    only a suffix or a slash makes a word a path, or quotes if the message is about files.
    """
    any_word = any_word or "no such file" in message.lower()
    in_quotes = [single or double for single, double in _QUOTED.findall(message)]
    are_files = any_word or _OF_FILES.search(_QUOTED.sub("", message))
    quoted = [word for word in in_quotes if are_files or "/" in word or PurePath(word).suffix]
    words = [word.strip("'\"`‘’:,;()[]") for word in _ABSENT.sub(" ", message).split()[:_MAX_WORDS]]
    named = [*quoted, *(word for word in words if any_word or "/" in word or PurePath(word).suffix)]
    paths = dict.fromkeys(path.removeprefix(_CODE) for path in named if path and "\0" not in path)
    return next(filter(None, (_file_cure(spec, path, folder) for path in paths if _may_be_missing(spec, path))), "")


def _may_be_missing(spec: JobSpec, word: str) -> bool:
    """Return False for what each job has: its entry point, and the folders of the system."""
    path = PurePath(word)
    if path == PurePath(spec.entry_point) or not set(path.parts) - {"/", ".."}:
        return False
    if not path.is_absolute() or path.is_relative_to(spec.working_directory or _JOB_FOLDERS):
        return True
    top, *rest = path.parts[1:]
    return top not in _SYSTEM and (bool(rest) or top not in _SHARED)


def _file_cure(spec: JobSpec, word: str, folder: NotebookFolder) -> str:
    source, is_absolute = _source_folder(spec), PurePath(word).is_absolute()
    if source and not is_absolute and folder.exists(str(PurePath(source, word))):
        return _ignored_cure(spec, word) or f"{_not_packed(word, source)} {_input_option(spec, word, source)}"
    if not source and (ignored := _ignored_cure(spec, word)):
        return ignored
    if not spec.working_directory or word.startswith(_JOB_FOLDERS) or word == "." or not folder.exists(word):
        return ""
    here = str(PurePath(spec.working_directory, word))
    for channel in spec.channels:
        inside = os.path.relpath(here, channel.source) if channel.source.startswith("/") else ".."
        if not inside.startswith(".."):
            name = inside if inside != "." else PurePath(word).name if folder.is_file(word) else ""
            target = input_folder(spec.kind, channel.name, channel.path)
            return f"It is in channel {channel.name}: {target}/{name} in the job."
    where = "exists on this machine" if is_absolute else f"is {_place(spec)}"
    return f"{word} {where} but not in the job. {_input_option(spec, word)}"


def _ignored_cure(spec: JobSpec, *words: str) -> str:
    """Return the cure for the first of ``words`` that a ``.gitignore`` kept out of the source folder, "" for none."""
    ignored = frozenset(spec.source_dir.ignored if spec.source_dir else ())
    for word in words:
        path = PurePath(os.path.normpath(word))
        around = [f"{folder}/" for folder in path.parents]
        if ignored.intersection([str(path), f"{path}/", *around]):
            option = _option(spec, "source-ignore", "none", '"none"')
            folder = "" if str(path).partition("/")[0] in _dependencies(spec) else _source_folder(spec)
            where = f"is in {folder} but was not" if folder else "was not"
            return f"{word} {where} sent: .gitignore excludes it. {option}"
    return ""


def _source_folder(spec: JobSpec) -> str:
    """Return the folder that was packed as a whole; "" if there is none, also if only files of it were."""
    return spec.source_dir.folder if spec.source_dir and spec.source_dir.is_whole else ""


def _dependencies(spec: JobSpec) -> tuple[str, ...]:
    """Return the names beside the script of files and folders that the user sent by themselves."""
    return spec.source_dir.dependencies if spec.source_dir else ()


def _not_packed(word: str, folder: str) -> str:
    return f"{word} is in {folder} but was not sent: .gitignore excludes it, or it was added later."


def _input_option(spec: JobSpec, word: str, folder: str = "") -> str:
    """Name the option for a file: the folder that it lies in goes as a whole, unless that is the notebook's own."""
    parts = PurePath(word).parts
    is_deep = not PurePath(word).is_absolute() and ".." not in parts and len(parts) > 1
    source = parts[0] if is_deep else word
    name = slug(PurePath(source).stem)[:64].strip("-") or "data"
    path = os.path.relpath(PurePath(folder, source), spec.working_directory or "/") if folder else source
    option = _option(spec, "input", f"{name}={path}", f'{{"{name}": "{path}"}}').replace("Add input=", "Add inputs=")
    return f"{option} to provide it as {input_folder(spec.kind, name)}."


def _source_option(spec: JobSpec, folder: str) -> str:
    return _option(spec, "source-dir", folder, f'"{folder}"')


def _dependency_option(spec: JobSpec, path: str) -> str:
    option = _option(spec, "dependency", path, f'["{path}"]')
    return option.replace("Add dependency=", "Add dependencies=")


def _module_cure(spec: JobSpec, module: str, folder: NotebookFolder) -> str:
    name = _top_level(module)
    if {name, f"{name}.py"}.intersection(_dependencies(spec)):
        return _dependency_part_cure(spec, module)
    of_images = f"{name} is a module of SageMaker's images. {_OF_IMAGES[name]}" if name in _OF_IMAGES else ""
    return _present_module_cure(spec, name, folder) or of_images


def _dependency_part_cure(spec: JobSpec, module: str) -> str:
    """Return the cure for a module of a dependency, which is in the job, but for what a ``.gitignore`` excludes."""
    path = module.replace(".", "/")
    return _ignored_cure(spec, f"{path}.py", path)


def _present_module_cure(spec: JobSpec, name: str, folder: NotebookFolder) -> str:
    """Return the cure for a module that is on the submitter's machine, or that its requirements may list."""
    source = _source_folder(spec)
    if kept_out := _kept_out_cure(spec, name, source, folder):
        return kept_out
    listing = str(PurePath(source, "requirements.txt"))
    if source and not spec.requirements and folder.is_file(listing):
        return f"{listing} may list it. {_option(spec, 'requirements', listing, f'{listing!r}')}"
    if not spec.working_directory:
        return ""
    if folder.has_module("", name):
        return f"{name} is {_place(spec)} but not in the job. {_folder_option(spec, name, '.', folder)}"
    beside = folder.folder_of_module(name)
    if not beside:
        return ""
    return f"{name} is in {beside} {_place(spec)} but not in the job. {_folder_option(spec, name, beside, folder)}"


def _kept_out_cure(spec: JobSpec, name: str, source: str, folder: NotebookFolder) -> str:
    """Return the cure for a module that was in what was packed, but not sent; ``source`` is "" without a folder."""
    if source and not folder.has_module(source, name):
        return ""
    return _ignored_cure(spec, f"{name}.py", name) or (_not_packed(name, source) if source else "")


def _folder_option(spec: JobSpec, name: str, where: str, folder: NotebookFolder) -> str:
    """Name the option for a module in the folder ``where``, in the way in which the user sent other files of code."""
    if spec.source_dir and (_dependencies(spec) or not spec.source_dir.is_whole):
        path = PurePath(where, f"{name}.py")
        return _dependency_option(spec, str(path if folder.is_file(str(path)) else path.with_suffix("")))
    return _source_option(spec, where) + (" instead" if where == "." and spec.source_dir else "")


def _absent_module_cure(spec: JobSpec, name: str) -> str:
    """Return the cure for a module that is neither in the job nor beside the notebook."""
    code, packages = (
        ("source_dir=", "requirements=") if spec.spelling == "keyword" else ("--source-dir", "--requirements")
    )
    return f"The job has no module {name}. Pass the folder of its file with {code}, or name its package in {packages}."


def _name_cure(spec: JobSpec, name: str) -> str:
    if name in _OF_NOTEBOOKS:
        return _OF_NOTEBOOKS[name]
    if name in spec.notebook_names and name not in (spec.send.sizes if spec.send else ()):
        module = spec.notebook_names[name]
        if not module:
            option = _option(spec, "send", name, f'["{name}"]')
            return f"{name} is a notebook variable that was not sent to the job. {option}"
        alias = "" if module == name else f" as {name}"
        return f"{name} is a module that the notebook imported. Import it in the cell: import {module}{alias}"
    return ""
