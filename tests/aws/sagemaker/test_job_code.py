"""The code of a request becomes that of a job, or is refused in the words of a user of an SDK."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

import pytest

from jupyter_smx.aws.sagemaker.requests.job_code import build_spec
from jupyter_smx.aws.sagemaker.requests.translation import Code, TranslatedRequest
from jupyter_smx.model.errors import ValidationError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Provide a folder of code with a folder of wheels."""
    folder = tmp_path / "src"
    (folder / "wheels").mkdir(parents=True)
    (folder / "wheels" / "beta-1.0-py3-none-any.whl").write_bytes(b"")
    (folder / "train.py").write_text("print(1)\n", encoding="utf-8")
    return folder


def a_request(source: Path, requirements: str) -> TranslatedRequest:
    """Return a request as an SDK sends it, with the folder of code in an archive."""
    (source / "requirements.txt").write_text(requirements, encoding="utf-8")
    archive = source.parent / "sourcedir.tar.gz"
    with tarfile.open(archive, "w:gz") as opened:
        opened.add(source, ".")
    code = Code(source=str(archive), entry_point="train.py")
    return TranslatedRequest(kind="train", name="a", fields={"job_name": "a"}, code=code, groups=())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("--find-links wheels\nbeta\n", "--find-links wheels"),
        ("./wheels/beta-1.0-py3-none-any.whl\n", "wheels/beta-1.0-py3-none-any.whl"),
    ],
)
def test_a_path_of_the_code_in_requirements_is_refused(source: Path, text: str, line: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        build_spec(a_request(source, text), source.parent, 1.0)
    said = str(refusal.value)
    assert said.startswith(f"requirements.txt: '{line}' is a path in source_dir. ")
    assert "--find-links /home/me/wheels" in said
    assert not any(word in said for word in ("--source-dir", "--requirements", "sourcedir", str(source.parent)))
