"""Make ``made_by_6b340c9`` with the package of that commit; its README.md says how to run this."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import nbformat
import recorded_data
from nbclient import NotebookClient
from recorded_data import FIXTURE, PYTHON, Asker, controller, placeholders, restore, substitute, variables, wait_for

FIT = """%%train --name fit --keep-alive 1h --hp depth=2 --env GREETING=hello --metric "loss=loss ([0-9.]+)" \
--input train=numbers.txt --send factor --receive total --as fit
import json, os
folder = os.environ["SM_CHANNEL_TRAIN"]
numbers = [int(word) for word in open(os.path.join(folder, "numbers.txt")).read().split()]
total = factor * json.loads(os.environ["SM_HPS"])["depth"] * sum(numbers)
for epoch, loss in enumerate((0.5, 0.25), 1):
    print(os.environ["GREETING"], "epoch", epoch, "loss", loss)
with open(os.path.join(os.environ["SM_MODEL_DIR"], "model.txt"), "w") as file:
    file.write(str(total))"""

SQUARES = """%%process --output squares=:squares --name squares --keep-alive 1h
with open("/opt/ml/processing/output/squares/n.txt", "w") as file:
    file.write(" ".join(str(n * n) for n in range(5)))
print("wrote squares")"""

GRID = """%%train --sweep --hp lr=[0.1,0.2,0.3] --metric "score=score ([0-9.]+)" --max-concurrent 1 --name grid \
--keep-alive 1h --as grid
import json, os
print("score", 10 * json.loads(os.environ["SM_HPS"])["lr"])"""

BROKEN = """%%train --name broken --keep-alive 1h
rates = {"lr": 0.1}
rates["momentum"]"""

CELLS = ("%load_ext jupyter_smx\nfactor = 3", FIT, "total", SQUARES, GRID, "%smx why fit", "%smx cost fit", BROKEN)

ALONE = 'print("alone")\n'
ENDLESS = 'import threading\nprint("begun", flush=True)\nthreading.Event().wait()\n'
LAST = 'import os\nprint("last", os.environ["SM_HP_N"])\n'
PAGES = (
    *((page, job) for page in ("why", "cost", "logs") for job in ("fit", "squares", "broken", "endless")),
    *(("describe", job) for job in ("fit", "squares", "broken")),
    *(("events", "endless"), ("provenance", "fit"), ("diff", "fit", "last"), ("advice", "fit"), ("types",)),
)
LEFT_OUT = re.compile(
    r"\.(sock|lock|pyz)$|-(wal|shm)$|/(controller\.log|claim|shortcut|\.reserve)$|/(slots|trash)(/|$)"
)
"""Files of processes that ran, and what the next one makes again."""
OURS = re.compile(rb"/root\b|/work\b|/home\b|/tmp/smx-fixture")
"""Paths of the machine where this runs."""


def command(folder: Path, *words: str, code: int = 0) -> str:
    """Run ``jupyter smx`` in the folder for work."""
    tool = [sys.executable, "-m", "jupyter_smx.cli", *words]
    done = subprocess.run(
        tool, cwd=folder / "work", env=variables(folder), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == code, (words, done)
    return done.stdout


def page(folder: Path, *words: str) -> str:
    """Give what a command prints, with placeholders."""
    return recorded_data.replace_words(command(folder, *words).encode(), placeholders(folder)).decode()


def run_notebook(folder: Path) -> None:
    """Execute the cells, and keep their outputs; the one that fails goes on."""
    os.environ.update(variables(folder))
    os.environ["IPYTHONDIR"] = str(folder / "ipython")
    os.environ["JUPYTER_CONFIG_DIR"] = str(FIXTURE / "config")
    cells = [nbformat.v4.new_code_cell(cell) for cell in CELLS]
    cells[-1].metadata["tags"] = ["raises-exception"]
    made = nbformat.v4.new_notebook(cells=cells)
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    NotebookClient(
        made, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(folder / "work")}}
    ).execute()
    text = recorded_data.replace_words(nbformat.writes(made).encode(), placeholders(folder)).decode()
    text = re.sub(r'"[^"\n]*/site-packages/', f'"{PYTHON}/site-packages/', text)
    (FIXTURE / "cards.ipynb").write_text(text + "\n", encoding="utf-8")


def run_commands(folder: Path) -> None:
    """Run what a terminal runs: a host of its own that ends, a job that is stopped, an export, and a last job."""
    for name, code in (("alone.py", ALONE), ("endless.py", ENDLESS), ("last.py", LAST)):
        (folder / "work" / name).write_text(code, encoding="utf-8")
    command(folder, "run", "alone.py", "--role", "other", "--name", "alone")
    command(folder, "run", "endless.py", "-k", "1h", "--name", "endless", "--detach")
    wait_for(lambda: "begun" in command(folder, "logs", "endless"))
    command(folder, "stop", "endless")
    asker = Asker(folder)
    wait_for(lambda: asker.get("/v1/jobs/endless")["ended_at"])
    command(folder, "export", "fit", str(folder / "exported" / "fit"))
    command(folder, "export", "grid", str(folder / "exported" / "grid"))
    command(folder, "run", "last.py", "-k", "1h", "--hp", "n=7", "--name", "last")
    wait_for(lambda: [pool["state"] for pool in asker.get("/v1/pools")["pools"]] == ["Available"])


def end_controller(folder: Path) -> None:
    """End the controller alone; hosts go on."""
    asker = Asker(folder)
    os.kill(asker.get("/v1/")["pid"], signal.SIGTERM)
    wait_for(lambda: not asker.is_answered() and not (folder / "data" / "smx.sqlite-wal").exists())


def pack(folder: Path, name: str) -> None:
    """Pack a folder, without what belongs to running processes; no file may have a path of this machine."""
    found = [path for path in sorted((folder / name).rglob("*")) if not LEFT_OUT.search(str(path))]
    for path in found:
        assert not (path.is_file() and OURS.search(path.read_bytes())), (path, OURS.search(path.read_bytes()))
    with tarfile.open(FIXTURE / f"{name}.tar.xz", "w:xz", preset=9) as archive:
        for path in found:
            archive.add(path, path.relative_to(folder), recursive=False, filter=anonymous)


def anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Take the user's names out of an entry; only files, links and folders are packed."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry if entry.isfile() or entry.isdir() or entry.issym() else None


def record(folder: Path) -> None:
    """Record the data folder with its pool alive, then let go of that pool."""
    end_controller(folder)
    copy = folder / "copy"
    shutil.copytree(folder / "data", copy / "data", ignore=shutil.ignore_patterns("*.sock"))
    shutil.copytree(folder / "exported", copy / "exported")
    words = placeholders(folder)
    substitute(copy / "data", words)
    for path in (copy / "exported").rglob("*"):
        if path.is_file():
            path.write_bytes(recorded_data.replace_words(path.read_bytes(), words))
    pack(copy, "data")
    pack(copy, "exported")
    (pool,) = json.loads(command(folder, "pools", "--json"))["pools"]
    command(folder, "release", pool["name"])
    wait_for(lambda: not Asker(folder).get("/v1/pools")["pools"])
    end_controller(folder)


def ask(folder: Path, keep_alive_left: float, *, everything: bool) -> dict[str, Any]:
    """Restore what was recorded, and give what this package says of it."""
    folder.mkdir()
    restore(folder, keep_alive_left)
    (folder / "work").mkdir()
    with controller(folder) as asker:
        told: dict[str, Any] = {"pool": asker.wait_for_pool_end()}
        if everything:
            told["http"] = asker.answers()
            told["pages"] = {" ".join(words): page(folder, *words) for words in PAGES}
    return told


def write_answers(kept: dict[str, Any], expired: dict[str, Any]) -> None:
    """Write down what was said, one answer in a line."""
    told = {**kept["http"], "pool: kept": kept["pool"], "pool: expired": expired["pool"]}
    told |= {f"page: {name}": text for name, text in kept["pages"].items()}
    lines = [f"{json.dumps(name)}: {json.dumps(said, ensure_ascii=False)}" for name, said in told.items()]
    text = ("{\n" + ",\n".join(lines) + "\n}\n").replace(sys.executable, PYTHON)
    assert not OURS.search(text.encode()), OURS.search(text.encode())
    (FIXTURE / "answers.json").write_text(text, encoding="utf-8")


def main() -> None:
    """Make everything; the configuration files are written by hand."""
    folder = Path(tempfile.mkdtemp(prefix="smx-fixture-"))
    (folder / "work").mkdir()
    (folder / "work" / "numbers.txt").write_text("1 2 3 4\n", encoding="utf-8")
    run_notebook(folder)
    run_commands(folder)
    record(folder)
    write_answers(ask(folder / "kept", 600.0, everything=True), ask(folder / "expired", -60.0, everything=False))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
