"""Contract group I, entry points: how scripts and programs start and end on each engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_smx.testing.agent_client import AgentClient
from jupyter_smx.testing.groups.transfer import last_json

if TYPE_CHECKING:
    from jupyter_smx.testing.harness import Harness

SHELL = """\
for word in "$0" "$@" "$SM_USER_ENTRY_POINT" "$SM_MODULE_NAME"; do printf '%s|' "$word"; done
exit 3
"""
PROCESS = """
import json, os, sys
base = os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml")
with open(base + "/output/message", "w") as message:
    message.write("2 rows left out")
out = base + "/processing/table"
made = os.path.isdir(out)
with open(out + "/rows.csv", "w") as rows:
    rows.write("1")
config = {name: json.load(open(base + "/config/" + name)) for name in os.listdir(base + "/config")}
print(json.dumps({
    "made": made, "words": sys.argv[1:], "config": config, "SM": [name for name in os.environ if name[:3] == "SM_"]
}))
"""


class EntryPointsGroup:
    """Behaviour of SageMaker's toolkit and its processing jobs around a script."""

    async def test_a_shell_script_gets_its_arguments_and_its_exit_code_is_the_jobs(self, harness: Harness) -> None:
        async with AgentClient(harness.engine, await harness.acquire_shared()) as agent:
            done = await agent.run_and_wait(SHELL, entry_point="train.sh", hyperparameters={"x": "it's $HOME"})
        assert done.text == "./train.sh|-x|it's $HOME|train.sh|train.sh|"
        assert (done.record["cause"], done.record["exit_code"]) == ("exit", 3)

    async def test_a_failure_has_the_text_of_the_toolkit_and_that_of_the_script_wins(self, harness: Harness) -> None:
        async with AgentClient(harness.engine, await harness.acquire_shared()) as agent:
            raised = (await agent.run_and_wait("raise KeyError('x')")).record["reason"].splitlines()
            wrote = (
                "import os\nopen(os.environ['SM_OUTPUT_DIR'] + '/failure', 'w').write('too hot')\nraise SystemExit(7)"
            )
            own = (await agent.run_and_wait(wrote)).record["reason"]
        assert raised[:3] == ["ExecuteUserScriptError:", "ExitCode 1", "ErrorMessage \"KeyError: 'x'\""]
        assert raised[3].startswith('Command "')
        assert raised[3].endswith(' -- train.py"')
        assert own == "too hot"

    async def test_a_processing_job_has_a_contract_of_its_own(self, harness: Harness) -> None:
        outputs = [{"name": "table", "path": "/opt/ml/processing/table"}]
        async with AgentClient(harness.engine, await harness.acquire_shared()) as agent:
            words = ["--split", "", "it's"]
            done = await agent.run_and_wait(
                PROCESS, kind="process", entry_point="clean.py", arguments=words, outputs=outputs
            )
        seen = last_json(done)
        assert isinstance(seen, dict)
        assert (seen["made"], seen["words"], seen["SM"]) == (True, words, [])
        assert seen["config"]["resourceconfig.json"] == {"current_host": "algo-1", "hosts": ["algo-1"]}
        told = seen["config"]["processingjobconfig.json"]
        assert told["AppSpecification"]["ContainerArguments"] == words
        assert [one["OutputName"] for one in told["ProcessingOutputConfig"]["Outputs"]] == ["table"]
        assert done.record["message"] == "2 rows left out"
        assert [one["name"] for one in done.record["artifacts"]] == ["outputs/table/rows.csv"]
