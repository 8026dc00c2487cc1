"""Find the verb of a question and answer it: ``remote VERB ROOT``, JSON on the input, lines of JSON on the output.

The last line is ``{"answer": …}``, or ``{"refused": …}`` or ``{"unavailable": …}`` in the form of the engine's errors.
Lines before it are ``{"progress": …}``.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any, Dict, List

from jupyter_smx.agent import errors
from jupyter_smx.agent.remote.cluster_store import ClusterStore
from jupyter_smx.agent.remote.verb_error import VerbError

VERBS = {
    "bridge": "bridge",
    "delete": "records",
    "delete_archives": "records",
    "delete_environments": "environments",
    "environment": "environments",
    "facts": "facts",
    "finish_host": "results",
    "launch": "launch",
    "list_clusters": "observe",
    "list_environments": "environments",
    "observe": "observe",
    "read": "records",
    "release": "release",
}
"""Verbs, which are functions, and the module of each: a question waits for the modules that it needs, and no others."""


def main(words: List[str]) -> int:
    """Answer one request; return the exit code."""
    verb, root = words[0], words[1]
    os.umask(0o077)
    store = ClusterStore(root)
    if verb == "shell":
        from jupyter_smx.agent.remote import terminal  # noqa: PLC0415 - each process loads what it needs

        return terminal.shell(store, words[2:])
    if verb == "relay":
        from jupyter_smx.agent.remote import relay  # noqa: PLC0415 - each process loads what it needs

        return relay.relay(*words[2:])
    # One line, as the input stays open while an answer takes long.
    _say(answer(store, verb, json.loads(sys.stdin.readline())))
    return 0


def answer(store: ClusterStore, verb: str, request: Dict[str, Any]) -> Dict[str, Any]:
    """Answer a request, or refuse it; a full or unwritable disk is a refusal with its own message."""
    module = importlib.import_module(f"{__package__}.{VERBS[verb]}")
    try:
        return {"answer": getattr(module, verb)(store, request)}
    except VerbError as error:
        return error.frame()
    except OSError as error:
        return _disk_error(store, request, error).frame()


def _disk_error(store: ClusterStore, request: Dict[str, Any], error: OSError) -> VerbError:
    machine = request.get("machine", "This machine")
    if errors.is_full(error):
        return VerbError(
            f"The disk of {machine} is full ({error.strerror}).",
            field="machine",
            value=machine,
            rule=f"Hosts have their folders in {store.root} there.",
            cure="Free some space there, or set another folder in the configuration of the machine.",
            transient=True,
        )
    return VerbError(
        f"{machine}: {error.filename or store.root} cannot be used ({error.strerror}).",
        field="machine",
        value=machine,
        rule=f"Hosts have their folders in {store.root} there.",
        cure="Make the folder writable, or set another folder in the configuration of the machine.",
    )


def _say(frame: Dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(frame) + "\n")
    sys.stdout.flush()
