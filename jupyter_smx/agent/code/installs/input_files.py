"""Find out if a command runs files of the job's inputs that install packages, as a driver of SageMaker's SDK 3 does."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, List

from jupyter_smx.agent.code.installs import detection, sent_files
from jupyter_smx.agent.contract.configfiles import DRIVER_CHANNELS
from jupyter_smx.agent.paths import ML, input_folder

if TYPE_CHECKING:
    from jupyter_smx.agent.frames import CompleteSpec
    from jupyter_smx.agent.paths import HostInfo

_PATH = re.compile(re.escape(ML) + r"/[\w./-]+\.(?:py|sh|bash)\b")
"""A script that a command names."""
_SETTINGS = "sourcecode.json"
"""File in which SDK 3 names the script for its driver."""


def install_in(spec: CompleteSpec, host_info: HostInfo) -> str:
    """Return the command by which files of the inputs install packages; "" if the job's command runs none.

    Only an input with a script that the command names is searched, and the code of SDK 3: others are data.
    """
    text = " ".join([*spec["command"], *spec["arguments"]])
    scripts = [host_info.path(os.path.relpath(path, ML)) for path in _PATH.findall(text)]
    folders = {channel["name"]: input_folder(host_info, spec["kind"], channel) for channel in spec["channels"]}
    named = [name for name, folder in folders.items() if any(path.startswith(folder + os.sep) for path in scripts)]
    if not named:
        return ""
    code = [name for name in DRIVER_CHANNELS if name in folders and DRIVER_CHANNELS[-1] in named]
    searched = [folders[name] for name in dict.fromkeys([*named, *code])]
    words = sent_files.words_of("\n".join([text, *(_settings_of(folder) for folder in searched)]))
    paths: List[str] = [os.path.join(folder, path) for folder in searched for path in sent_files.code_files(folder)]
    return sent_files.reached_install(paths, words, _install_of)


def _settings_of(folder: str) -> str:
    return sent_files.read_text(os.path.join(folder, _SETTINGS))


def _install_of(path: str, text: str) -> str:
    return detection.install_in(os.path.basename(path), text) if detection.may_install(text) else ""
