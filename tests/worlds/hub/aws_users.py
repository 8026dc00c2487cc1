"""The users of a shared machine one after the other, started by root in its namespaces; writes a file with the results.

The words are the file and, for each user, ``name:uid:home``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("aws_user.py")
LIMIT = 90.0


def run_as(account: str, *words: str) -> Any:
    """Run the program as a user with nothing of root's environment but the place of the checkout."""
    name, uid, home = account.split(":")
    done = subprocess.run(
        [sys.executable, PROGRAM, *words],
        user=int(uid),
        group=int(uid),
        extra_groups=[],
        env={
            "HOME": home,
            "USER": name,
            "LOGNAME": name,
            "LANG": "C.UTF-8",
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(Path(__file__).parents[3]),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    if done.returncode:
        raise RuntimeError(f"{name}, {words[0]}: {done.stderr}")
    return json.loads(done.stdout)


def main(accounts: list[str]) -> dict[str, Any]:
    """Return what each user has, and how the visits of each one at the other one ended."""
    own = {account: run_as(account, "train") for account in accounts}
    results: dict[str, Any] = {}
    for account, other in zip(accounts, reversed(accounts), strict=True):
        visits = run_as(account, "visit", own[other]["url"], own[other]["folder"], str(own[other]["front"]))
        results[account.partition(":")[0]] = {**own[account], "visits": visits}
    return results


if __name__ == "__main__":
    file = Path(sys.argv[1])
    try:
        found = main(sys.argv[2:])
    except (OSError, RuntimeError, ValueError, subprocess.TimeoutExpired):
        found = {"error": traceback.format_exc()}
    draft = file.with_suffix(".part")
    draft.write_text(json.dumps(found), encoding="utf-8")
    draft.replace(file)
