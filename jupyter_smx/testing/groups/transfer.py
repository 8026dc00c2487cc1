"""Contract group D, transfer: each byte arrives unchanged, and secrets are stored nowhere."""

from __future__ import annotations

import hashlib
import io
import json
import secrets
import tarfile
from typing import TYPE_CHECKING

import msgspec
import pytest

from jupyter_smx.agent.system.files import host_layout
from jupyter_smx.model.errors import ResourceNotFoundError
from jupyter_smx.testing.agent_client import AgentClient

if TYPE_CHECKING:
    from jupyter_smx.testing.agent_client import JobEnd
    from jupyter_smx.testing.harness import Harness

SPECIAL_STRINGS = (
    "it's",
    'a "quote"',
    "$(touch pwned) `id` ${HOME}",
    "line\nbreak\ttab\r",
    "ünï 日本 \U0001f600",
    "%s %(x)s {0} \\n",
    "--flag; rm -rf x & | > <",
    " leading and trailing ",
    "",
    "=a=b",
)
"""Values that careless quoting, formatting or splitting would change."""

MEBIBYTE = 2**20


def last_json(outcome: JobEnd) -> object:
    """Read the last line of a log as JSON."""
    assert outcome.record["cause"] == "exit", outcome
    return json.loads(outcome.text.strip().splitlines()[-1])


class TransferGroup:
    """Cells, values, logs and artefacts."""

    async def test_a_cell_arrives_as_it_was_written(self, harness: Harness) -> None:
        handle = await harness.acquire_shared()
        async with AgentClient(harness.engine, handle) as agent:
            for text in SPECIAL_STRINGS:
                comment = text.splitlines()[0] if text else ""
                source = f"import json\n# {comment}\nprint(json.dumps([{text!r}, {text!a}]))"
                assert last_json(await agent.run_and_wait(source)) == [text, text], source

    async def test_hyperparameters_arrive_as_they_were_written(self, harness: Harness) -> None:
        wanted = {f"value-{number}": text for number, text in enumerate(SPECIAL_STRINGS)} | {"quote'\"name": "x"}
        source = (
            "import json, os\n"
            "path = os.path.join(os.environ['SM_INPUT_CONFIG_DIR'], 'hyperparameters.json')\n"
            "found = json.load(open(path, encoding='utf-8'))\n"
            "print(json.dumps({name: text for name, text in found.items() if not name.startswith('sagemaker_')}))"
        )
        handle = await harness.acquire_shared()
        async with AgentClient(harness.engine, handle) as agent:
            assert last_json(await agent.run_and_wait(source, hyperparameters=wanted)) == wanted

    async def test_environment_values_arrive_as_they_were_written(self, harness: Harness) -> None:
        wanted = {f"VALUE_{number}": text for number, text in enumerate(SPECIAL_STRINGS)}
        source = "import json, os\nprint(json.dumps({n: v for n, v in os.environ.items() if n.startswith('VALUE_')}))"
        handle = await harness.acquire_shared()
        async with AgentClient(harness.engine, handle) as agent:
            assert last_json(await agent.run_and_wait(source, environment=wanted)) == wanted

    async def test_a_secret_stands_in_no_command_line_handle_log_or_record(self, harness: Harness) -> None:
        secret = secrets.token_hex(16)
        source = "import os, signal\nassert os.environ['API_KEY']\nprint('has it', flush=True)\nsignal.pause()"
        handle = await harness.acquire_shared()
        async with AgentClient(harness.engine, handle) as agent:
            job = await agent.run(source, environment={"API_KEY": secret})
            await agent.wait_for_log(job, b"has it")
            assert [line for line in harness.command_lines(handle.cluster) if secret in line] == []
            assert harness.command_lines_with(secret) == []
            await agent.call("stop", job=job, lease=1, grace=1, cause="stopped")
            outcome = await agent.wait_for_outcome(job)
        found = await harness.engine.find(handle.cluster)
        assert secret.encode() not in msgspec.json.encode([handle, found])
        assert secret not in json.dumps(outcome.record)
        assert secret.encode() not in outcome.log + harness.stored_bytes(handle.cluster)

    async def test_secrets_of_the_server_reach_no_job(self, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        names = ("JUPYTER_TOKEN", "JUPYTERHUB_API_TOKEN", "JPY_API_TOKEN", "JPY_SESSION_NAME")
        for name in names:
            monkeypatch.setenv(name, "a secret of the server")
        handle = await harness.acquire()
        async with AgentClient(harness.engine, handle) as agent:
            told = last_json(await agent.run_and_wait("import json, os\nprint(json.dumps(sorted(os.environ)))"))
        assert isinstance(told, list)
        assert told
        assert set(names).isdisjoint(told)

    async def test_a_log_keeps_every_byte_and_is_read_on_from_a_cursor(self, harness: Harness) -> None:
        wanted = b"\xff\xfe broken \xe2\x82 utf-8\r 10 %\r 100 %\n\x00 zero\x1b[31m red" + bytes(range(256))
        source = f"import os\nos.write(1, {wanted!r})\nos.write(2, b'last')"
        handle = await harness.acquire()
        async with AgentClient(harness.engine, handle) as agent:
            job = await agent.run(source)
            outcome = await agent.wait_for_outcome(job)
            assert outcome.log == wanted + b"last"
            assert await agent.read(job, host_layout.JOB_LOG, offset=10) == outcome.log[10:]
        async with AgentClient(harness.new_engine(), handle, epoch=2) as agent:
            assert await agent.read(job, host_layout.JOB_LOG, offset=len(wanted)) == b"last"

    async def test_twenty_megabytes_of_log_do_not_grow_the_agent(self, harness: Harness) -> None:
        block, count = b"0123456789abcde\n" * 4096, 320
        source = f"import os\nfor _ in range({count}):\n    os.write(1, b'0123456789abcde\\n' * 4096)"
        handle = await harness.acquire()
        async with AgentClient(harness.engine, handle) as agent:
            await agent.run_and_wait("print('warm')")
            before = harness.agent_memory(handle.cluster, "algo-1")
            log = (await agent.run_and_wait(source)).log
            grown = harness.agent_memory(handle.cluster, "algo-1") - before
        assert hashlib.sha256(log).digest() == hashlib.sha256(block * count).digest()
        assert grown < 8 * MEBIBYTE

    async def test_artifacts_are_collected(self, harness: Harness) -> None:
        source = (
            "import os\n"
            "open(os.path.join(os.environ['SM_MODEL_DIR'], \"it's 日本.bin\"), 'wb').write(bytes(range(256)) * 4096)"
        )
        handle = await harness.acquire_shared()
        async with AgentClient(harness.engine, handle) as agent:
            job = await agent.run(source)
            record = (await agent.wait_for_outcome(job)).record
            packed = await agent.read(job, "artifacts/model.tar.gz")
        assert [item["name"] for item in record["artifacts"]] == ["model.tar.gz"]
        assert record["artifacts"][0]["size"] == len(packed)
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            members = {member.name.removeprefix("./"): member for member in archive if member.isfile()}
            content = archive.extractfile(members["it's 日本.bin"])
            assert content is not None
            assert content.read() == bytes(range(256)) * 4096

    async def test_a_spool_that_can_be_read_without_the_agent_holds_the_same(self, harness: Harness) -> None:
        handle = await harness.acquire()
        async with AgentClient(harness.engine, handle) as agent:
            job = await agent.run("print('kept')")
            outcome = await agent.wait_for_outcome(job)
        folder = harness.engine.spool_path(handle.cluster, "algo-1")
        assert (folder is not None) == harness.engine.capabilities.shared_folder
        await harness.engine.release(handle)
        if folder is not None:
            assert (folder / job / host_layout.JOB_LOG).read_bytes() == outcome.log == b"kept\n"
            assert json.loads((folder / job / host_layout.END_RECORD).read_text()) == outcome.record

    async def test_a_spool_is_read_in_pieces_after_the_release_or_not_at_all(self, harness: Harness) -> None:
        handle = await harness.acquire()
        async with AgentClient(harness.engine, handle) as agent:
            job = await agent.run("print('kept')")
            await agent.wait_for_outcome(job)
        await harness.engine.release(handle)
        reborn, where = harness.new_engine(), (handle.cluster, "algo-1", job)
        found = await reborn.read_spool(*where, host_layout.JOB_LOG, 2, 2)
        assert found in (None, (b"pt", len(b"kept\n")))
        if found is not None:
            with pytest.raises(ResourceNotFoundError):
                await reborn.read_spool(*where, "no-such-file", 0, 1)
