"""The service in front of a real controller with the local engine, buckets in a folder, and requests as SDK 2's."""

from __future__ import annotations

import sys
import time
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_smx import controller_launch
from jupyter_smx.aws.controller_client import ControllerClient
from jupyter_smx.aws.sagemaker.service import make_service
from jupyter_smx.aws.sagemaker.settings import SageMakerSettings
from jupyter_smx.kernel.client import autostart
from jupyter_smx.testing.data_folder import provide_data_folder
from jupyter_smx.testing.teardown import stop_everything, stop_hosts

sys.path.insert(0, str(Path(__file__).parent))

from calls import BUCKET, Calls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a data folder of the test's own. The first request starts a real controller; all ends with the test."""
    folder = tmp_path / "smx"
    monkeypatch.setenv(controller_launch.DATA_DIR_VARIABLE, str(folder))
    provide_data_folder(folder)
    (folder / "s3" / BUCKET).mkdir(parents=True)
    yield folder
    stop_everything()


@pytest.fixture(scope="module")
def shared_data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a data folder of the file, where a real controller runs."""
    folder = tmp_path_factory.mktemp("sagemaker") / "smx"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(controller_launch.DATA_DIR_VARIABLE, str(folder))
        provide_data_folder(folder)
        (folder / "s3" / BUCKET).mkdir(parents=True)
        with closing(autostart.client()) as client:
            client.controller_info()
        yield folder
        stop_everything()


@pytest.fixture
async def calls(data_folder: Path) -> AsyncIterator[Calls]:
    """Call operations as a client of boto3 does."""
    async with _serve(data_folder) as made:
        yield made


@pytest.fixture
async def shared_calls(shared_data_folder: Path) -> AsyncIterator[Calls]:
    """Call operations of a controller that other tests of the file use, too.

    All jobs, pools and objects are deleted at the end, since the next test may use their names and lists them all.
    """
    async with _serve(shared_data_folder) as made:
        yield made
        stop_hosts()
        await made.delete_all()


@asynccontextmanager
async def _serve(data_folder: Path) -> AsyncIterator[Calls]:
    controller = ControllerClient()
    settings = SageMakerSettings(data_folder=data_folder / "aws", s3_root=data_folder / "s3")
    new_service = partial(make_service, controller, settings, time.time, time.monotonic)
    yield Calls(new_service, controller, data_folder / "s3" / BUCKET)
    controller.close()
