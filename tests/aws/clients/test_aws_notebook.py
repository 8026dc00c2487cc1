"""A notebook for SageMaker runs unmodified after ``%smx aws on``: execution role, session and bucket included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from aws_client import AwsClient

pytestmark = [pytest.mark.heavy("aws"), pytest.mark.timeout(300)]

CELLS = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
def cell(text):
    ended = shell.run_cell(text)
    ended.raise_error()
cell("%load_ext jupyter_smx")
"""


@pytest.mark.parametrize("order", ["before", "after"])
def test_a_notebook_runs_unmodified(sdk: AwsClient, order: str) -> None:
    # Nothing leads this process to the front but the magic.
    notebook = type(sdk)(sdk.folder, sdk.packages, {})
    turn_on, imports = 'cell("%smx aws on")\n', 'cell("import sagemaker")\n'
    steps = imports + turn_on if order == "after" else turn_on + imports
    ran = notebook.run(
        CELLS
        + steps
        + '''
names.clear()  # until then it is a client of AWS
cell("""
from sagemaker.sklearn import SKLearn
session = sagemaker.Session()
role = sagemaker.get_execution_role()
made = SKLearn(entry_point="train.py", role=role, instance_type="ml.m5.large", framework_version="1.2-1",
               sagemaker_session=session)
made.fit(logs="None")
""")
result = [shell.user_ns["role"], shell.user_ns["session"].default_bucket(), shell.user_ns["made"].model_data]
cell("%smx aws off")
import os
result.append([name for name in os.environ if name.startswith("AWS_ENDPOINT_URL")])
'''
    )
    role, bucket, model, left = ran.result
    assert role.startswith("arn:aws:iam::000000000000:role/")
    assert bucket.startswith("sagemaker-")
    assert model.startswith(f"s3://{bucket}/")
    assert left == []
    assert ran.names == []
