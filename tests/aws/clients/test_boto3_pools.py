"""Warm pools, instance types, lists and logs, as users of the oldest and the newest boto3 call for them."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from boto3_jobs import CREATE

from jupyter_smx.kernel.client import autostart

if TYPE_CHECKING:
    from aws_client import AwsClient

pytestmark = [pytest.mark.heavy("aws"), pytest.mark.timeout(300)]

WARM_JOBS = 3
"""Jobs of which the fastest start counts, since other tests run beside this one."""

LOG_PAGES = """
group = "/aws/sagemaker/TrainingJobs"
(stream,) = logs.describe_log_streams(logGroupName=group, logStreamNamePrefix=jobs[0])["logStreams"]
def events(**named):
    return logs.get_log_events(logGroupName=group, logStreamName=stream["logStreamName"], startFromHead=True, **named)
def texts(page):
    return [row["message"] for row in page["events"]]
page = events(limit=2)
pages = [texts(page)]
while page["events"]:
    token = page["nextForwardToken"]
    page = events(nextToken=token, limit=2)
    pages.append(texts(page))
again = events(nextToken=token)
second = events()["events"][1]["timestamp"]
result |= {"pages": pages, "end": [page["nextForwardToken"] == token, again["nextForwardToken"] == token,
                                   again["events"]], "from": texts(events(startTime=second))}
"""


def test_a_pool_is_reused_listed_kept_for_longer_and_released(boto3: AwsClient) -> None:
    """Cases 19, 21, 22 and 23."""
    ran = boto3.run(
        CREATE
        + f"""
def pool(name):
    return sm.describe_training_job(TrainingJobName=name)["WarmPoolStatus"]
def update(seconds):
    sm.update_training_job(TrainingJobName=last, ResourceConfig={{"KeepAlivePeriodInSeconds": seconds}})
jobs, starts = [f"{{name}}-{{number}}" for number in range({WARM_JOBS} + 1)], []
for one in jobs:
    begin = time.time()
    create(one, "import time\\nprint(time.time())", {{"KeepAlivePeriodInSeconds": 600}})
    end(one)
    (row,) = logs.filter_log_events(logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix=one)["events"]
    starts.append(float(row["message"]) - begin)
before, last = jobs[-2:]
listed = sm.list_training_jobs(WarmPoolStatusEquals="Available", NameContains=name)["TrainingJobSummaries"]
result = {{"start": min(starts[1:]), "last": last, "first": pool(before), "second": pool(last)["Status"],
          "listed": [row["TrainingJobName"] for row in listed]}}
update(1800)
result["updated"] = time.time()
result["kept"] = sm.describe_training_job(TrainingJobName=last)["ResourceConfig"]["KeepAlivePeriodInSeconds"]
"""
    )
    found = ran.result
    assert found["start"] < 0.1
    assert (found["first"]["Status"], found["first"]["ReusedByJob"]) == ("Reused", found["last"])
    assert (found["second"], found["listed"]) == ("Available", [found["last"]])
    assert found["kept"] == 1800
    with closing(autostart.client()) as client:
        (pool,) = client.pools()
    assert pool.expires_at == pytest.approx(found["updated"] + 1800, abs=2)
    ran = boto3.run(
        CREATE
        + f"""
last = {found["last"]!r}
sm.update_training_job(TrainingJobName=last, ResourceConfig={{"KeepAlivePeriodInSeconds": 0}})
result = sm.describe_training_job(TrainingJobName=last)["WarmPoolStatus"]["Status"]
"""
    )
    assert ran.result == "Terminated"


def test_a_keep_alive_is_shortened_to_the_limit_and_that_of_a_running_job_counts_from_its_end(boto3: AwsClient) -> None:
    """Cases 16 and 20."""
    ran = boto3.run(
        CREATE
        + """
s3.create_bucket(Bucket=name)
wait = (f"import botocore.session, time\\ns3 = botocore.session.get_session().create_client('s3')\\n"
        f"while not s3.list_objects_v2(Bucket='{name}')['KeyCount']: time.sleep(0.05)")
create(name, wait, {"KeepAlivePeriodInSeconds": 21600})
sm.update_training_job(TrainingJobName=name, ResourceConfig={"KeepAlivePeriodInSeconds": 1800})
s3.put_object(Bucket=name, Key="go", Body=b"")
about = end(name)
create(name + "-capped", "pass", {"KeepAlivePeriodInSeconds": 21600, "InstanceCount": 2})
capped = end(name + "-capped")
result = [name, about["TrainingEndTime"].timestamp(), about["ResourceConfig"]["KeepAlivePeriodInSeconds"],
          capped["TrainingEndTime"].timestamp()]
"""
    )
    name, ended, kept, capped_ended = ran.result
    assert kept == 1800
    with closing(autostart.client()) as client:
        pools = {pool.last_job: pool for pool in client.pools()}
        notes = client.job(f"{name}-capped").why.notes
        for pool in pools.values():
            client.release(pool.id)
    assert pools[name].expires_at == pytest.approx(ended + 1800, abs=2)
    assert pools[f"{name}-capped"].expires_at == pytest.approx(capped_ended + 3600, abs=2)
    assert any("21600 is above the limit of 3600 seconds" in note for note in notes)


def test_an_instance_type_that_is_not_priced_here_runs_and_one_that_does_not_exist_is_refused(boto3: AwsClient) -> None:
    """Cases 17 and 18."""
    ran = boto3.run(
        CREATE
        + """
create(name, "pass", {"InstanceType": "ml.m7i.48xlarge"})
about = end(name)
result = [name, about["TrainingJobStatus"], about["ResourceConfig"]["InstanceType"],
          error(create, name="no-such-type", code="pass", resources={"InstanceType": "ml.nonsense"})]
"""
    )
    name, status, instance_type, refusal = ran.result
    assert (status, instance_type) == ("Completed", "ml.m7i.48xlarge")
    with closing(autostart.client()) as client:
        assert any("ml.m7i.48xlarge" in note for note in client.job(name).why.notes)
    assert refusal[1] == "ValidationException"
    assert "instanceType" in refusal[2]


def test_lists_are_paged_and_filtered_and_logs_go_on_from_a_token_and_a_time(boto3: AwsClient) -> None:
    """Cases 24, 25, 43 and 45."""
    ran = boto3.run(
        CREATE
        + """
keep = {"KeepAlivePeriodInSeconds": 60}
jobs = [f"{name}-{number}" for number in range(5)]
for one in jobs:
    create(one, "import time\\nfor number in range(3):\\n print(number, flush=True)\\n time.sleep(0.1)", keep)
    end(one)
create(f"{name}-bad", "raise SystemExit(3)")  # it ends the pool
try:
    end(f"{name}-bad")
except Exception:
    pass
def rows(**named):
    pages = sm.get_paginator("list_training_jobs").paginate(PaginationConfig={"PageSize": 2}, **named)
    return [[row["TrainingJobName"].removeprefix(name) for row in page["TrainingJobSummaries"]] for page in pages]
created = {one: sm.describe_training_job(TrainingJobName=one)["CreationTime"] for one in jobs}
after = created[jobs[-1]].replace(microsecond=0)  # boto3 sends whole seconds
result = {
    "paged": rows(NameContains=name, StatusEquals="Completed"),
    "newer": rows(NameContains=name.upper(), StatusEquals="Completed", CreationTimeAfter=after, SortBy="Name",
                  SortOrder="Ascending"),
    "expected": [one.removeprefix(name) for one in jobs if created[one] > after],
    "failed": rows(NameContains=name, StatusEquals="Failed"),
}
"""
        + LOG_PAGES
    )
    found = ran.result
    assert found["paged"] == [["-4", "-3"], ["-2", "-1"], ["-0"]]
    assert [one for page in found["newer"] for one in page] == found["expected"]
    assert 1 <= len(found["expected"]) < 5
    assert found["failed"] == [["-bad"]]
    assert found["pages"] == [["0", "1"], ["2"], []]
    assert found["end"] == [True, True, []]
    assert found["from"] == ["1", "2"]
    assert ran.names == []
