from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import stat
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from records import a_job, a_spec
from serving import Unix

from jupyter_smx import controller_launch, controller_launch_errors
from jupyter_smx.controller.app import ControllerApp, Engines, main
from jupyter_smx.controller.db.store import Store
from jupyter_smx.engines.base import Engine
from jupyter_smx.engines.machine import resources
from jupyter_smx.kernel.client.client import Client
from jupyter_smx.model.errors import ValidationError
from jupyter_smx.model.spec.instance import InstanceGroup, look_up
from jupyter_smx.model.status import SecondaryStatus
from jupyter_smx.policy.limits import Limits, preload_memory_mib
from jupyter_smx.testing.data_folder import provide_records
from jupyter_smx.testing.eventually import eventually_blocking

if TYPE_CHECKING:
    import http.client
    from collections.abc import Iterator

PATIENCE = 30.0


class Controllers:
    """Real controllers of one data folder, started as everybody starts them."""

    def __init__(self, config: Path) -> None:
        self.config = config
        self.started: list[subprocess.Popen[bytes]] = []

    def configure(self, text: str) -> None:
        (self.config / "jupyter_smx_config.py").write_text(text)

    def start(self) -> subprocess.Popen[bytes]:
        self.started.append(controller_launch.start_controller())
        return self.started[-1]

    def ready(self) -> subprocess.Popen[bytes]:
        process = self.start()
        assert controller_launch.wait_ready(PATIENCE, process), controller_launch.last_log_line()
        return process

    def epoch(self) -> int:
        with sqlite3.connect(controller_launch.data_dir() / "smx.sqlite") as raw:
            found = int(raw.execute("SELECT epoch FROM meta").fetchone()[0])
        raw.close()
        return found


@pytest.fixture
def controllers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Controllers]:
    config = tmp_path / "config"
    config.mkdir()
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(config))
    monkeypatch.setenv("JUPYTER_SMX_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    provide_records(tmp_path / "data")
    world = Controllers(config)
    yield world
    for process in world.started:
        if process.poll() is None:
            process.kill()
        process.wait()


def test_only_its_user_can_come_near_it(controllers: Controllers) -> None:
    shutil.rmtree(controller_launch.data_dir())  # it makes its folder
    process = controllers.ready()
    assert stat.S_IMODE(controller_launch.data_dir().stat().st_mode) == 0o700
    socket = Path(controller_launch.socket_address())
    assert stat.S_IMODE(socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
    assert (controller_launch.data_dir() / "controller.lock").read_text() == f"{process.pid}\n"


def test_of_many_controllers_at_once_one_stays(controllers: Controllers) -> None:
    """Number 11 of the catalogue: two controllers never both act."""
    shutil.rmtree(controller_launch.data_dir())  # one of them makes it
    processes = [controllers.start() for _ in range(6)]
    assert controller_launch.wait_ready(PATIENCE)
    eventually_blocking(lambda: sum(p.poll() is None for p in processes) == 1, "one stays", within=PATIENCE)
    assert sorted(p.poll() for p in processes if p.poll() is not None) == [0] * 5
    assert controllers.epoch() == 1
    (survivor,) = [p for p in processes if p.poll() is None]
    client = Client(controller_launch.socket_path(), lambda: None)
    assert client.controller_info().pid == survivor.pid
    client.close()


def test_told_to_end_it_leaves_quickly_and_keeps_every_job(controllers: Controllers) -> None:
    process = controllers.ready()
    store = Store.open(controller_launch.data_dir() / "smx.sqlite")
    store.write([a_job(state=SecondaryStatus.COMPLETED)])
    store.close()
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    assert not controller_launch.has_socket()
    controllers.ready()
    client = Client(controller_launch.socket_path(), lambda: None)
    assert [job.name for job in client.jobs()] == [a_job().name]
    client.close()


def exchange(connection: http.client.HTTPConnection) -> tuple[int, dict[str, str], dict[str, object]]:
    answer = connection.getresponse()
    return answer.status, dict(answer.headers), json.loads(answer.read())


def test_a_request_after_sigterm_is_left_to_the_next_controller(controllers: Controllers) -> None:
    process = controllers.ready()
    connection = Unix(Path(controller_launch.socket_address()))
    connection.request("GET", "/v1/")
    assert exchange(connection)[2]["pid"] == process.pid
    process.send_signal(signal.SIGSTOP)
    eventually_blocking(lambda: controller_launch_errors.process_state(process.pid) == "T", "it is stopped")
    process.send_signal(signal.SIGTERM)
    connection.request("GET", "/v1/")
    process.send_signal(signal.SIGCONT)
    status, headers, body = exchange(connection)
    assert (status, body["code"], headers["Connection"]) == (503, "Fenced", "close")
    connection.close()

    def start() -> None:
        controllers.ready()

    client = Client(controller_launch.socket_path(), start)
    assert client.controller_info().pid == controllers.started[-1].pid != process.pid
    assert process.wait(10) == 0
    client.close()


def test_what_a_killed_controller_left_is_taken_over(controllers: Controllers) -> None:
    first = controllers.ready()
    first.kill()
    first.wait()
    assert controller_launch.has_socket()
    second = controllers.ready()
    client = Client(controller_launch.socket_path(), lambda: None)
    assert client.controller_info().pid == second.pid
    assert controllers.epoch() == 2
    client.close()


def test_one_that_starts_while_another_leaves_serves(controllers: Controllers) -> None:
    first = controllers.ready()
    first.send_signal(signal.SIGTERM)
    second = controllers.start()
    assert first.wait(10) == 0
    eventually_blocking(
        lambda: controller_launch.is_listening() or second.poll() is not None, "it serves", within=PATIENCE
    )
    assert second.poll() is None


def test_it_leaves_when_nobody_needs_it(controllers: Controllers) -> None:
    controllers.configure("c.ControllerApp.idle_exit = 0.3")
    process = controllers.ready()
    assert process.wait(PATIENCE) == 0
    assert not controller_launch.has_socket()
    assert "controller was idle" in controller_launch.log_path().read_text()


def test_it_stays_while_somebody_waits_for_an_answer(controllers: Controllers) -> None:
    controllers.configure("c.ControllerApp.idle_exit = 0.2")
    process = controllers.ready()
    client = Client(controller_launch.socket_path(), lambda: None)
    waiting = threading.Thread(target=lambda: client.changes(client.controller_info().seq, 1.5))
    waiting.start()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.0)
    waiting.join(PATIENCE)
    assert process.wait(PATIENCE) == 0


def test_a_connection_that_is_kept_for_the_next_request_does_not_keep_it(controllers: Controllers) -> None:
    controllers.configure("c.ControllerApp.idle_exit = 0.2")
    process = controllers.ready()
    client = Client(controller_launch.socket_path(), lambda: None)
    client.controller_info()
    assert process.wait(PATIENCE) == 0
    client.close()


def test_it_leaves_when_its_data_folder_is_removed(controllers: Controllers) -> None:
    process = controllers.ready()
    shutil.rmtree(controller_launch.data_dir())
    assert process.wait(PATIENCE) == 0


def test_it_stays_while_a_job_is_not_finished(controllers: Controllers) -> None:
    controller_launch.ensure_folders()
    store = Store.open(controller_launch.data_dir() / "smx.sqlite")
    store.write([a_job(spec=a_spec(engine="local", keep_alive=0), state=SecondaryStatus.STARTING, cluster="x")])
    store.close()
    controllers.configure("c.ControllerApp.idle_exit = 0.3")
    process = controllers.ready()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("c.ControllerApp.keep_alive_cap = 99_999", "keep_alive_cap"),
        ("c.ControllerApp.max_hosts = 'many'", "max_hosts"),
        ("import nothing_of_that_name", "nothing_of_that_name"),
        ("c.ControllerApp.prices = {'ml.none': 1.0}", "ml.none"),
        ("c.ControllerApp.instance_types = [{'name': 'ml.x'}]", "vcpus"),
        ("c.ControllerApp.instance_types = [{'name': 'ml.x', 'vcpus': 1, 'memory_gib': 1, 'cost': 2}]", "cost"),
        ("c.ControllerApp.instance_types_file = 'types.json'", "not an absolute path"),
        ("c.ControllerApp.instance_types_file = '/nowhere/types.json'", "/nowhere/types.json"),
        ("c.ControllerApp.keep_alive_kap = 60", "Did you mean keep_alive_cap"),
        ("c.DokerEngine.network_isolation = True", "Did you mean DockerEngine"),
    ],
)
def test_a_configuration_that_is_wrong_ends_it_with_a_sentence(controllers: Controllers, text: str, says: str) -> None:
    controllers.configure(text)
    assert controllers.start().wait(PATIENCE) == 1
    assert says in controller_launch.last_log_line()
    assert "Traceback" not in controller_launch.last_log_line()


def test_records_of_a_newer_version_end_it_with_a_sentence(controllers: Controllers) -> None:
    controller_launch.ensure_folders()
    path = controller_launch.data_dir() / "smx.sqlite"
    Store.open(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")
    raw.close()
    assert controllers.start().wait(PATIENCE) == 1
    assert "newer jupyter-smx" in controller_launch.last_log_line()


def test_a_data_folder_that_cannot_be_made_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_SMX_DATA_DIR", str(tmp_path / "file" / "smx"))
    assert main([]) == 1
    said = capsys.readouterr().err
    assert f"{tmp_path / 'file'} cannot be used: it is a file." in said
    assert "JUPYTER_SMX_DATA_DIR" in said


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ControllerApp:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    return ControllerApp()


def test_without_a_word_the_limits_are_the_machine(app: ControllerApp) -> None:
    app.configure([])
    found = resources.detect_machine()
    expected = Limits(cpus=found.cpus, memory_gib=app.memory_gib, gpus=found.gpus)
    assert app.limits() == expected
    assert app.memory_gib == pytest.approx(found.memory_gib(), rel=0.01)
    assert preload_memory_mib(app.limits(), 0.0) == pytest.approx(found.memory_gib() * 1024 / 16, rel=0.02)


def test_the_administrator_bounds_what_hosts_import_ahead(app: ControllerApp, tmp_path: Path) -> None:
    (tmp_path / "jupyter_smx_config.py").write_text(
        "c.ControllerApp.memory_gib = 8.0\n"
        "c.ControllerApp.preload_never.append('ours')\n"
        "c.ControllerApp.input_hash_limit_mib = 5\n"
    )
    app.configure([])
    limits = app.limits()
    assert (preload_memory_mib(limits, 64.0), limits.input_hash_limit_mib) == (512, 5)
    assert {"mpi4py", "ours"} <= set(limits.preload_never)


def test_every_limit_can_be_set_by_the_administrator(app: ControllerApp) -> None:
    missing = set(Limits.__struct_fields__) - set(app.class_trait_names(config=True))
    # The catalogue is set by its rows and prices; an engine says by itself whether this machine bounds it.
    assert missing == {"catalogue", "bounded_by_machine"}


def test_the_administrator_sets_prices_and_types(app: ControllerApp, tmp_path: Path) -> None:
    (tmp_path / "jupyter_smx_config.py").write_text(
        "c.ControllerApp.instance_types = [{'name': 'ours.big', 'vcpus': 64, 'memory_gib': 512.0}]\n"
        "c.ControllerApp.prices = {'ml.m5.xlarge': 0.5, 'ours.big': 3.0}\n"
        "c.ControllerApp.warm_pool_quota = {'*': 2}\n"
        "c.ControllerApp.keep_alive_cap = 60\n"
    )
    app.configure(["--ControllerApp.keep_alive_cap=120"])
    limits = app.limits()
    assert limits.catalogue["ours.big"].price_per_hour == 3.0
    assert limits.catalogue["ml.m5.xlarge"].price_per_hour == 0.5
    assert limits.catalogue["ml.m5.xlarge"].vcpus == 4
    assert limits.warm_pool_quota == {"*": 2}
    assert limits.keep_alive_cap == 120


def test_the_administrator_replaces_the_whole_catalogue_by_a_file(app: ControllerApp, tmp_path: Path) -> None:
    types = tmp_path / "types.json"
    types.write_text('[{"name": "ours.big", "vcpus": 64, "memory_gib": 512.0, "price_per_hour": 3.5}]')
    (tmp_path / "jupyter_smx_config.py").write_text(f"c.ControllerApp.instance_types_file = {str(types)!r}\n")
    app.configure([])
    limits = app.limits()
    assert list(limits.catalogue) == ["local", "ours.big"]
    assert limits.catalogue["ours.big"].price_per_hour == 3.5
    assert limits.instance_types_file == str(types)
    with pytest.raises(ValidationError, match=r"ours\.big"):
        look_up(InstanceGroup(instance_type="ours.bigg"), limits.catalogue)


def test_a_row_of_that_file_that_is_wrong_is_named_with_its_line_and_field(app: ControllerApp, tmp_path: Path) -> None:
    types = tmp_path / "types.json"
    types.write_text('[\n {"name": "ours.big",\n  "vcpus": "many", "memory_gib": 512.0}]')
    (tmp_path / "jupyter_smx_config.py").write_text(f"c.ControllerApp.instance_types_file = {str(types)!r}\n")
    app.configure([])
    with pytest.raises(ValidationError, match=r"types\.json, line 3: vcpus: Expected `int`, got `str`"):
        app.limits()


async def test_engines_that_were_used_are_closed_and_an_error_of_one_is_logged(
    app: ControllerApp, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    closed = []

    class Closing(Engine):
        async def close(self) -> None:
            closed.append(self.name)
            if self.name == "broken":
                raise OSError("no such socket")

    def create(name: str, parent: ControllerApp) -> Engine:
        made = Closing(parent=parent)
        made.name = name  # type: ignore[misc]  # as the registry does
        return made

    monkeypatch.setattr("jupyter_smx.engines.registry.create", create)
    engines = Engines(app)
    for name in ("broken", "whole", "broken"):
        engines(name)
    await engines.close()
    assert closed == ["broken", "whole"]
    assert [record.getMessage() for record in caplog.records] == [
        "engine=broken close failed: OSError('no such socket')"
    ]


def test_a_cap_over_sagemakers_own_is_refused(app: ControllerApp, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        app.configure(["--ControllerApp.keep_alive_cap=21601"])
    assert "not be greater than 21600" in capsys.readouterr().err
