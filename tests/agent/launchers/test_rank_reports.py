"""What torchrun's ranks report: the exception, or the sentence, with which the first of them ended."""

from __future__ import annotations

import json
import types
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_smx.agent.code import execute
from jupyter_smx.agent.launchers.torchrun import Ranks

if TYPE_CHECKING:
    from pathlib import Path

ERROR = {"type": "ValueError", "message": "mine", "traceback": "", "line": 3}
KILLED = "Rank 0 was ended by signal 9 (SIGKILL)."


def merged(folder: Path, reports: list[dict[str, Any] | None], first: int | None, said: str = "") -> tuple[Any, str]:
    for rank, report in enumerate(reports):
        if report is not None:
            (folder / f"rank-{rank}.json").write_text(json.dumps(report))
    result = execute.RunResult()
    result.report["exit_text"] = said
    code = compile("pass", "<train>", "exec")
    Ranks(code, types.ModuleType("__main__"), result, str(folder)).merge_reports(len(reports), first)
    return result.report["exception"], result.report["exit_text"]


@pytest.mark.parametrize(
    ("reports", "first", "said", "expected"),
    [
        ([{}, {"exception": ERROR, "exit_text": ""}], 1, "", (ERROR, "")),
        ([{"exception": None, "exit_text": "bad config: lr"}, {"exception": ERROR}], 0, "", (None, "bad config: lr")),
        ([None, {"exception": ERROR}], 0, KILLED, (None, KILLED)),
        ([{"exit_text": "late"}, {}], None, "", (None, "")),
    ],
)
def test_the_rank_that_failed_first_explains_the_end(
    tmp_path: Path, reports: list[Any], first: int | None, said: str, expected: tuple[Any, str]
) -> None:
    assert merged(tmp_path, reports, first, said) == expected


def test_a_rank_reports_the_text_of_its_exit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"LOCAL_RANK": "0", "OMP_NUM_THREADS": ""}.items():
        monkeypatch.setenv(name, value)
    result = execute.RunResult()
    execute.execute(
        compile("raise SystemExit('bad config: lr')", "<train>", "exec"), types.ModuleType("m"), lambda: None, result
    )
    ranks = Ranks(compile("pass", "<train>", "exec"), types.ModuleType("m"), result, str(tmp_path))
    ranks._report(0)
    assert (result.exit_code, ranks.read_report(0)["exit_text"]) == (1, "bad config: lr")
