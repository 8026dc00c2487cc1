"""Find the files that a job's code left in its working folder, where the host deletes them after the job.

A search looks at :data:`_MAX_ENTRIES` entries at most: the end of a warm job must not take longer for it.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
from typing import TYPE_CHECKING, Deque, List, Set

from jupyter_smx.agent.channels import image_files
from jupyter_smx.agent.contract import script
from jupyter_smx.agent.paths import ML, checkpoint_folder, format_name, input_folder, output_folders
from jupyter_smx.agent.system.files import safe_open
from jupyter_smx.agent.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import CompleteSpec
    from jupyter_smx.agent.paths import HostInfo
    from jupyter_smx.agent.system.files.host_folder import HostFolder

_MAX_ENTRIES = 400
_FOLDER_ENTRIES = 6
"""To open a folder takes as long as to read so many entries."""
_MAX_COMPARED = 50
"""Files of a folder up to which their sizes are compared, which takes two system calls for each."""
_NAMED = 5
_MAX_SENTENCES = 20
"""Sentences that a log gets at once; a job may leave a hundred thousand files that cannot be packed."""
_CACHES = {"__pycache__", "__pypackages__", "build", "derby.log", "metastore_db"}
"""Names of what tools keep beside code, besides hidden ones as ``.ipynb_checkpoints``."""
_WORKING_FOLDER = "in its working folder, which is deleted"
_BELOW_ROOT = "directly below /, where new names are deleted"
_CACHE_SUFFIXES = (".egg-info", ".pyc", ".pyo", ".swp")


class InitialFiles(NamedTuple):
    """Initial content of a job's working folder: a tree of files ("" for none), and names and folders of the tool."""

    tree: str
    names: Set[str]
    """Paths within the working folder."""
    folders: Set[str]
    """Absolute paths of inputs, outputs and checkpoints that may lie inside it."""


class UncollectedFiles(NamedTuple):
    """Paths of files and, with a slash at the end, folders within the working folder; False if there may be more."""

    names: List[str]
    is_complete: bool


class _Folder(NamedTuple):
    """A folder that is to be searched; ``owner`` is the outermost one that the job's code made, or ""."""

    path: str
    name: str
    owner: str


def describe(spec: CompleteSpec, host_info: HostInfo, ml: str, trees: str) -> str:
    """Write a sentence that names the files which a job's code left in its working folder; "" if there are none.

    ``ml`` is the host's own ``/opt/ml``, ``trees`` its folder of unpacked source folders.
    """
    own = host_info._replace(base=ml)
    folder = script.working_folder(spec, own)
    if f"{folder}/".startswith(f"{ML}/"):
        folder = ml + folder[len(ML) :]  # the working folder of an image
    if not f"{folder}/".startswith(f"{ml}/"):
        return ""  # describe_root names what is in /; other folders of an image are read-only
    try:
        inputs = [input_folder(own, spec["kind"], channel) for channel in spec["channels"]]
        outputs = [path for _name, path in output_folders(spec, own)]
        checkpoints = own.real_path(checkpoint_folder(spec))
    except ValueError:  # such a job was refused
        return ""
    if any(folder.startswith(path + os.sep) for path in inputs):
        return ""  # the input is mounted over it, in the job's own mount namespace only
    tree = os.path.join(trees, spec["source_dir"]["sha256"], "tree") if spec["source_dir"] else ""
    if tree and not os.path.isdir(tree):
        return ""
    names = _tool_names(spec, tree) if folder == script.code_folder(spec, own) else set()
    names |= image_files.names_in(own, os.path.relpath(folder, ml))
    return format_leftovers(spec, search(folder, InitialFiles(tree, names, {*inputs, *outputs, checkpoints})))


def describe_root(spec: CompleteSpec, host_info: HostInfo, folder: HostFolder) -> str:
    """Write a sentence that names what a job's code put directly below ``/``; "" if there is nothing."""
    kept = folder.root_entries.names
    if not kept or kept.issuperset(entry.name for entry in _entries(folder.rootfs, _MAX_ENTRIES)):
        return ""
    mounted = {os.path.join(folder.rootfs, name) for name in kept}
    found = search(folder.rootfs, InitialFiles("", set(kept), mounted))
    if script.starts_in_root(spec, host_info):
        return format_leftovers(spec, found)
    return format_leftovers(spec, found._replace(names=["/" + name for name in found.names]), _BELOW_ROOT)


def _tool_names(spec: CompleteSpec, tree: str) -> Set[str]:
    """Return the script, the folders that it is in, and the archive, by their paths in the folder of code."""
    if spec["command"] and not spec["entry_point"]:
        return {script.ARCHIVE} if script.is_framework_processor(spec) else set()
    name = script.script_name(spec)
    if tree and not spec["entry_point"]:
        name = script.free_script_name(tree, name)
    names = {script.ARCHIVE} if script.is_framework_processor(spec) else set()
    while name:
        names.add(name)
        name = os.path.dirname(name)
    return names


def search(folder: str, initial: InitialFiles, limit: int = _MAX_ENTRIES) -> UncollectedFiles:
    """Find files that are not ``initial``, or have another size than in its tree, in the first ``limit`` entries.

    Each folder counts as some entries. Outer folders come first. Entries that cannot be read are skipped.
    """
    found: Set[str] = set()
    waiting: Deque[_Folder] = collections.deque([_Folder(folder, "", "")])
    left = limit
    while waiting:
        current = waiting.popleft()
        if current.owner in found:
            continue
        if left <= 0:
            return UncollectedFiles(sorted(found), is_complete=False)
        entries = _entries(current.path, left)
        left -= len(entries) + _FOLDER_ENTRIES
        if current.owner:
            _search_new_folder(current, entries, found, waiting)
        else:
            _search_initial_folder(current, entries, initial, found, waiting)
    return UncollectedFiles(sorted(found), is_complete=left > 0)


def _entries(folder: str, limit: int) -> List["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as entries:
            return list(itertools.islice(entries, limit))
    except OSError:
        return []


def _is_cache(name: str) -> bool:
    return name[0] == "." or name in _CACHES or name.endswith(_CACHE_SUFFIXES)


def _search_new_folder(
    folder: _Folder, entries: List["os.DirEntry[str]"], found: Set[str], waiting: Deque[_Folder]
) -> None:
    """Add a folder that the code made to ``found`` if there is a file in it, and else its folders to ``waiting``."""
    for entry in entries:
        if _is_cache(entry.name):
            continue
        if entry.is_file(follow_symlinks=False):
            found.add(folder.owner)
            return
        if entry.is_dir(follow_symlinks=False):
            waiting.append(_Folder(entry.path, "", folder.owner))


def _search_initial_folder(
    folder: _Folder, entries: List["os.DirEntry[str]"], initial: InitialFiles, found: Set[str], waiting: Deque[_Folder]
) -> None:
    """Add the files of a folder that are the code's to ``found``, and its folders to ``waiting``."""
    prefix = folder.name and folder.name + "/"
    tree = os.path.join(initial.tree, folder.name) if initial.tree else ""
    for entry in entries:
        if _is_cache(entry.name):
            continue
        name = prefix + entry.name
        # The tree is not listed: it may hold thousands of entries that the job deleted from this folder.
        is_initial = name in initial.names or bool(tree and os.path.lexists(os.path.join(tree, entry.name)))
        if entry.is_file(follow_symlinks=False):
            is_compared = name not in initial.names and len(entries) <= _MAX_COMPARED
            if not is_initial or (is_compared and _was_changed(entry, tree)):
                found.add(name)
        elif entry.is_dir(follow_symlinks=False) and entry.path not in initial.folders:
            waiting.append(_Folder(entry.path, name, "" if is_initial else name + "/"))


def _was_changed(entry: "os.DirEntry[str]", tree: str) -> bool:
    """Return True if a file has another size than in the ``tree``; code is not compared, which has no results."""
    if entry.name.endswith(".py"):
        return False
    try:
        return os.lstat(os.path.join(tree, entry.name)).st_size != entry.stat(follow_symlinks=False).st_size
    except OSError:
        return False


def format_leftovers(spec: CompleteSpec, leftovers: UncollectedFiles, place: str = _WORKING_FOLDER) -> str:
    """Write the sentence about files that a job left, with where to write instead; "" if it left none."""
    if not leftovers.names:
        return ""
    named, more = [format_name(name) for name in leftovers.names[:_NAMED]], len(leftovers.names) - _NAMED
    if more > 0:
        named.append(f"{more} more" if leftovers.is_complete else f"{more} or more others")
    return (
        f"The job left {format_list(named)} {place} after the job. "
        f"Write what should be kept to {_format_targets(spec)}."
    )


def _format_targets(spec: CompleteSpec) -> str:
    if spec["kind"] == "train":
        return "/opt/ml/model or /opt/ml/output/data (the variables SM_MODEL_DIR and SM_OUTPUT_DATA_DIR)"
    paths = [output["path"] for output in spec["outputs"]]
    if paths:
        return f"the folder of an output: {format_list(paths, 'or')}"
    return "the folder of an output, as /opt/ml/processing/output/NAME, and name that output in the request"


def format_list(words: List[str], link: str = "and") -> str:
    """Format words as a list in a sentence."""
    return f"{', '.join(words[:-1])} {link} {words[-1]}" if len(words) > 1 else words[0]


def append_to_log(path: str, sentence: str) -> None:
    """Write a sentence of the tool to the end of a job's log, on a line of its own.

    :raises OSError: the disk is full, or the job has replaced its log.
    """
    begin = b"" if _ends_line(path) else b"\n"
    with safe_open.open_to_append(path) as log:
        log.write(begin + f"jupyter_smx: {sentence}\n".encode(errors="backslashreplace"))


def append_sentences(path: str, sentences: List[str]) -> None:
    """Do this for each of the first sentences; the record of the job has all, also if the log cannot be written."""
    more = len(sentences) - _MAX_SENTENCES
    rest = [f"{more} more are in the record of the job."] if more > 0 else []
    for sentence in sentences[:_MAX_SENTENCES] + rest:
        with contextlib.suppress(OSError):
            append_to_log(path, sentence)


def _ends_line(path: str) -> bool:
    with safe_open.open_to_read(path) as log:
        size = log.seek(0, os.SEEK_END)
        if not size:
            return True
        log.seek(size - 1)
        return log.read(1) == b"\n"
