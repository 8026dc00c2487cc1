"""The machine's /opt/ml leads to one host at a time, and nothing of anybody else is deleted in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jupyter_smx.agent import startup
from jupyter_smx.agent.host import config as hostconfig
from jupyter_smx.agent.system.files.host_folder import HostFolder
from jupyter_smx.agent.system.isolation import opt_ml_links
from jupyter_smx.agent.system.isolation.opt_ml_links import (
    NAMES,
    OptMlLinks,
    OptMlTakenError,
    claim,
    is_prepared,
    share,
)
from jupyter_smx.agent.wire import PROTOCOL


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """Give what stands for the machine's /opt/ml, which is not there yet."""
    return tmp_path / "opt" / "ml"


def host(tmp_path: Path, name: str = "a") -> HostFolder:
    folder = HostFolder(str(tmp_path / "clusters" / name / "algo-1"))
    folder.make()
    return folder


def claimed(folder: HostFolder, top: Path) -> OptMlLinks:
    links, reason = claim(folder.ml, str(top))
    assert links is not None, reason
    return links


def test_what_a_job_writes_there_is_in_the_folders_of_its_host(tmp_path: Path, top: Path) -> None:
    folder = host(tmp_path)
    links = claimed(folder, top)
    (top / "model" / "weights").write_text("trained")
    assert Path(folder.ml, "model", "weights").read_text() == "trained"
    assert {path.name for path in top.iterdir()} == {*NAMES, ".jupyter-smx-lock"}
    links.remove()
    assert [path.name for path in top.iterdir()] == [".jupyter-smx-lock"]
    assert Path(folder.ml, "model", "weights").exists()


def test_after_a_job_the_links_are_as_before_and_what_it_left_is_gone(tmp_path: Path, top: Path) -> None:
    (top / "mine").mkdir(parents=True)
    links = claimed(host(tmp_path), top)
    (top / "extra" / "deep").mkdir(parents=True)
    (top / "extra" / "deep" / "file").touch()
    (top / "file").touch()
    (top / "model").unlink()
    (top / "code").unlink()
    (top / "code").mkdir()
    (top / "code" / "x.py").touch()
    links.restore()
    assert {path.name for path in top.iterdir()} == {*NAMES, ".jupyter-smx-lock", "mine"}
    assert all((top / name).is_symlink() for name in NAMES)


def test_a_job_finds_the_links_again_and_what_others_wrote_beside_them_stays(tmp_path: Path, top: Path) -> None:
    links = claimed(host(tmp_path), top)
    (top / "model").unlink()
    (top / "model").symlink_to(tmp_path)
    (top / "code").unlink()
    (top / "notes").touch()
    links.reset_links()
    assert all((top / name).readlink().name == name for name in NAMES)
    assert (top / "notes").exists()


def test_files_in_a_folder_that_a_job_made_in_place_of_a_link_are_collected(tmp_path: Path, top: Path) -> None:
    folder = host(tmp_path)
    links = claimed(folder, top)
    model, output = Path(folder.ml, "model"), Path(folder.ml, "output")
    (model / "deep").mkdir()
    for name in ("deep/kept", "weights"):
        (model / name).write_text("first")
    assert (links.replaced_names(), links.collect()) == ([], {})
    for name in ("model", "output"):
        (top / name).unlink()
    (top / "model" / "deep").mkdir(parents=True)
    (top / "model" / "deep" / "new").write_text("second")
    (top / "model" / "weights").write_text("second")
    (top / "model" / "latest").symlink_to("weights")
    (top / "output" / "data").mkdir(parents=True)
    (top / "output" / "data" / "out").write_text("second")
    assert links.replaced_names() == ["model", "output"]
    links.collect()
    assert [(model / name).read_text() for name in ("deep/kept", "deep/new", "weights", "latest")] == [
        "first",
        *["second"] * 3,
    ]
    assert (model / "latest").is_symlink()
    assert (output / "data" / "out").read_text() == "second"
    links.restore()
    assert links.replaced_names() == []


def test_another_host_gets_it_when_the_first_one_has_ended(tmp_path: Path, top: Path) -> None:
    first = claimed(host(tmp_path, "a"), top)
    with pytest.raises(OptMlTakenError, match="another host uses the /opt/ml of the machine"):
        claim(host(tmp_path, "b").ml, str(top))
    os.close(first._lock)  # as the system does for a process that is killed
    second = host(tmp_path, "b")
    claimed(second, top)
    assert (top / "model").readlink() == tmp_path / "clusters" / "b" / "algo-1" / "ml" / "model"


@pytest.mark.parametrize("name", ["model/weights", "notes.txt", "input/data/x", "link"])
def test_files_of_the_machine_stay_and_the_host_does_without(tmp_path: Path, top: Path, name: str) -> None:
    (top / name).parent.mkdir(parents=True, exist_ok=True)
    if name == "link":
        (top / name).symlink_to(tmp_path)
    else:
        (top / name).write_text("of the machine")
    links, reason = claim(host(tmp_path).ml, str(top))
    assert (links, reason) == (None, f"the /opt/ml of the machine has files, as {top / name}")
    assert (top / name).is_symlink() or (top / name).read_text() == "of the machine"
    assert claim(host(tmp_path).ml, str(top))[1] == reason, "the lock was given back"


def test_empty_folders_of_an_image_make_room_for_the_links(tmp_path: Path, top: Path) -> None:
    (top / "input" / "data").mkdir(parents=True)
    claimed(host(tmp_path), top)
    assert (top / "input").is_symlink()


def test_a_folder_that_cannot_be_written_is_the_reason(tmp_path: Path) -> None:
    (tmp_path / "opt").write_text("no folder")
    links, reason = claim(host(tmp_path).ml, str(tmp_path / "opt" / "ml"))
    assert (links, reason) == (None, "the /opt/ml of the machine cannot be written (Not a directory)")


def a_config(**fields: object) -> hostconfig.HostConfig:
    return hostconfig.parse({"protocol": PROTOCOL, "cluster": "c", "host": "algo-1", "isolate": False, **fields})


def test_a_host_uses_it_only_if_that_is_allowed_and_it_is_alone(
    tmp_path: Path, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(top, monkeypatch)
    folder = host(tmp_path)
    refused = [
        startup._isolate(config, folder)
        for config in (a_config(), a_config(machine_opt_ml="host", hosts=["algo-1", "algo-2"]))
    ]
    assert [one.mode for one in refused] == ["variables", "variables"]
    assert "several hosts" in refused[1].reason
    assert not top.exists()
    allowed = startup._isolate(a_config(machine_opt_ml="host"), folder)
    assert (allowed.mode, allowed.has_own_namespaces()) == ("links", False)
    assert allowed.opt_ml is not None
    with pytest.raises(OptMlTakenError):
        startup._isolate(a_config(machine_opt_ml="host"), host(tmp_path, "b"))
    allowed.opt_ml.remove()


def use(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let agents take ``top`` for the machine's folder."""
    monkeypatch.setattr(opt_ml_links, "is_prepared", lambda: is_prepared(str(top)))
    monkeypatch.setattr(opt_ml_links, "share", lambda ml, **when: share(ml, top=str(top), **when))


def test_a_folder_that_is_there_and_empty_leads_to_one_job_at_a_time(
    tmp_path: Path, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(top, monkeypatch)
    folders = [host(tmp_path, name) for name in "ab"]
    missing = startup._isolate(a_config(machine_opt_ml="job"), folders[0])
    assert (missing.mode, top.exists()) == ("variables", False), "no folder of the machine is made unless that is set"
    top.mkdir(parents=True)
    first, second = (startup._isolate(a_config(machine_opt_ml="job"), folder).opt_ml for folder in folders)
    assert first is not None
    assert second is not None
    assert [path.name for path in top.iterdir()] == [".jupyter-smx-lock"], "hosts without a job leave it to others"
    first.begin_job()
    late = startup._isolate(a_config(machine_opt_ml="job"), host(tmp_path, "c"))
    assert late.mode == "links", "it is free again when a job of this host may begin"
    second.begin_job()
    assert (first.missing_reason, second.missing_reason) == (
        "",
        "a job of another host uses the /opt/ml of the machine",
    )
    (top / "model" / "weights").write_text("trained")
    assert Path(folders[0].ml, "model", "weights").read_text() == "trained"
    second.end_job()
    assert (top / "model" / "weights").exists(), "a job without the links leaves those of the other one"
    first.end_job()
    second.begin_job()
    assert second.missing_reason == ""
    assert (top / "model").readlink() == Path(folders[1].ml, "model")
    second.begin_job()
    assert second.missing_reason == "", "a job that waited for its disk begins twice"
    second.remove()
    assert [path.name for path in top.iterdir()] == [".jupyter-smx-lock"]


def test_files_that_came_meanwhile_are_why_a_job_goes_without(tmp_path: Path, top: Path) -> None:
    top.mkdir(parents=True)
    shared, reason = share(host(tmp_path).ml, per_job=True, top=str(top))
    assert shared is not None, reason
    (top / "notes.txt").write_text("of the machine")
    shared.begin_job()
    assert shared.missing_reason == f"the /opt/ml of the machine has files, as {top / 'notes.txt'}"
    assert shared.replaced_links() is None
    shared.end_job()
    assert (top / "notes.txt").exists()
