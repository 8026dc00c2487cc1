"""``--plan`` shows what a machine would be sent, and asks none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ssh_terminal import run_smx

if TYPE_CHECKING:
    from ssh_controller import SshControllerWorld
    from worlds.ssh.ssh_world import SshWorld


def test_a_plan_lists_what_is_sent_and_asks_no_machine(ssh_controller: SshControllerWorld, ssh_world: SshWorld) -> None:
    ssh_world["two"].cut()
    folder = ssh_controller.folder
    for name, size in (("src/train.py", 30), ("src/helper.py", 12), ("data/a.csv", 2048)):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"#" * size)
    (folder / "needs.txt").write_text("numpy<3\n")
    words = ("run", "--source-dir", "src", "--entry-point", "train.py", "--input", "training=data")
    asked = (*words, "--engine", "ssh:smx-two", "--requirements", "needs.txt")
    page = run_smx(folder, *asked, "--plan").stdout
    lines = (
        "Sent to smx-two, unless it is there already:",
        f"  source folder {folder}/src: 2 files, 42 B",
        f"  channel training {folder}/data: 1 file, 2.0 KiB",
        "  requirements numpy<3: installed there",
        '  "agent": "agent-',
        "Nothing was started.",
    )
    assert [line for line in lines if line not in page] == []
    assert [*ssh_controller.controls.glob("*")] == []
    page = run_smx(folder, *words, "--engine", "ssh", "--plan").stdout
    assert "Sent to one or more of smx-one, smx-two and smx-three, unless it is there already:" in page
    assert "Sent to" not in run_smx(folder, *words, "--plan").stdout
