"""The ordinary user of the tests: unprivileged, unknown to this machine, and removed when its creator ends."""

from __future__ import annotations

import secrets
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_smx.testing import process_scan
from jupyter_smx.testing.docker import ordinary_user
from jupyter_smx.testing.docker.ordinary_user import UID, OrdinaryUser
from jupyter_smx.testing.eventually import eventually_blocking

pytestmark = pytest.mark.skipif(bool(ordinary_user.unavailable_reason()), reason=ordinary_user.unavailable_reason())

LOOK = """
id -un; id -u; grep -c . /etc/subuid; cat "$1/file"
touch /tmp/"$2" /dev/shm/"$2" "$HOME/$2" "$XDG_RUNTIME_DIR/$2"
"""
MAKE = """
import sys
from jupyter_smx.testing.docker.ordinary_user import OrdinaryUser
user = OrdinaryUser()
user.start()
user.popen(["setsid", "--fork", "sh", "-c", "while :; do sleep 1; done", sys.argv[1]], {}, user.folder / "log").wait()
print(user.folder, flush=True)
sys.stdin.read()
"""


def test_the_user_has_what_users_have_and_this_machine_none_of_it(tmp_path: Path) -> None:
    token, known = secrets.token_hex(8), Path("/etc/passwd").read_bytes()
    (tmp_path / "file").write_text("of a closed folder\n")
    tmp_path.chmod(0o755)
    user = OrdinaryUser([tmp_path])
    try:
        user.start()
        log = user.folder / "log"
        words = ["sh", "-ec", LOOK, "sh", str(user.readable_folders[0]), token]
        assert user.popen(words, {}, log).wait(30) == 0, log.read_text()
        assert log.read_text() == f"smx\n{UID}\n1\nof a closed folder\n"
        assert (user.home / token).stat().st_uid == (user.runtime / token).stat().st_uid == UID
        assert str(user.folder) not in Path("/proc/mounts").read_text()
    finally:
        user.stop()
    assert not user.folder.exists()
    assert Path("/etc/passwd").read_bytes() == known
    assert not [place for place in ("/tmp", "/dev/shm") if Path(place, token).exists()]  # noqa: S108 - the machine's


def test_what_a_user_started_ends_with_who_made_the_user_and_its_files_with_the_next_one() -> None:
    token = secrets.token_hex(8)
    with subprocess.Popen([sys.executable, "-c", MAKE, token], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as maker:
        assert maker.stdout is not None
        folder = Path(maker.stdout.readline().decode().strip())

        def alive() -> list[str]:
            return [
                seen.command for seen in process_scan.processes() if token in seen.command and seen.pid != maker.pid
            ]

        eventually_blocking(alive, "the user's program runs")
        OrdinaryUser().stop()
        assert folder.is_dir()  # its user is still there
        maker.send_signal(signal.SIGKILL)
        maker.wait()
        eventually_blocking(lambda: not alive(), "nothing of the user's is alive")
    OrdinaryUser().stop()
    assert not folder.exists()
