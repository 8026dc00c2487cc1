"""A small project of a user: a script with arguments, a module and a file beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def run(shell: Any, text: str) -> None:
    done = shell.run_cell(text)
    if error := done.error_before_exec or done.error_in_exec:
        raise error


TRAIN = """\
import argparse, json, os
from pathlib import Path
import helper

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, required=True)
parser.add_argument("--lr", type=float, default=0.0)
arguments = parser.parse_args()
if arguments.epochs < 0:
    helper.refuse(arguments.epochs)
result = [arguments.epochs, arguments.lr, helper.NAME, os.getcwd(), Path("notes.txt").read_text()]
Path(os.environ["SM_MODEL_DIR"], "model.json").write_text(json.dumps(result))
"""
HELPER = """\
NAME = "first"

def refuse(number):
    raise ValueError(f"{number} epochs")
"""


def project(folder: Path) -> Path:
    src = folder / "src"
    src.mkdir()
    (src / "train.py").write_text(TRAIN)
    (src / "helper.py").write_text(HELPER)
    (src / "notes.txt").write_text("notes")
    return src
