"""What is raised for a failed job: cause and cure, as its record has them."""

from __future__ import annotations

import pytest

from jupyter_smx.kernel.failures.exceptions import JobFailed, failure_of
from jupyter_smx.kernel.handles.job import Job as Handle
from jupyter_smx.model.records.job import HostEnd, Job, RemoteException
from jupyter_smx.model.records.summary import summary_of
from jupyter_smx.model.spec.job_spec import JobSpec
from jupyter_smx.model.status import SecondaryStatus

CURE = "helper is in the folder of the notebook but not in the job. Add --source-dir ."
NO_MODULE = RemoteException(type="ModuleNotFoundError", message="No module named 'helper'", traceback="", line=3)
KILLED = "The system killed the job for lack of memory: its process had 3 GiB."


def failed(exception: RemoteException | None, message: str, cure: str = "", cause: str = "exit") -> Job:
    spec = JobSpec(kind="train", source="pass", notebook="n.ipynb")
    end = HostEnd(host="algo-1", cause=cause, exit_code=1, exception=exception)
    return Job(
        id="a" * 12,
        name="train-1",
        spec=spec,
        state=SecondaryStatus.FAILED,
        hosts=(end,),
        failure_message=message,
        failure_cure=cure,
    )


def test_the_cure_stands_once_in_what_is_raised_and_in_lists() -> None:
    record = failed(NO_MODULE, "AlgorithmError: ModuleNotFoundError: No module named 'helper'", CURE)
    said = f"train-1 failed: ModuleNotFoundError: No module named 'helper' (line 3). {CURE}"
    with pytest.raises(JobFailed) as raised:
        Handle(record, None, lambda _job: None).result()  # type: ignore[arg-type]  # a final job sends no request
    assert str(raised.value) == said
    assert summary_of(record).message == f"AlgorithmError: ModuleNotFoundError: No module named 'helper'. {CURE}"


def an_end_of(kind: str, message: str) -> HostEnd:
    exception = RemoteException(type=kind, message=message, traceback="")
    return HostEnd(host="algo-1", cause="exit", exit_code=1, exception=exception)


@pytest.mark.parametrize(
    ("exception", "message", "said"),
    [
        (None, "AlgorithmError: bad config: lr", "AlgorithmError: bad config: lr"),
        (NO_MODULE, "AlgorithmError: too hot", "ModuleNotFoundError: No module named 'helper' (line 3)"),
        (
            NO_MODULE,
            "AlgorithmError: ModuleNotFoundError: No module named 'helper'. The disk of /tmp is full.",
            "ModuleNotFoundError: No module named 'helper' (line 3). The disk of /tmp is full.",
        ),
        (
            RemoteException(type="AssertionError", message="", traceback=""),
            "AlgorithmError: AssertionError: ",
            "AssertionError",
        ),
    ],
)
def test_what_is_raised_says_what_the_record_says(exception: RemoteException | None, message: str, said: str) -> None:
    assert str(failure_of(failed(exception, message))) == f"train-1 failed: {said}"


@pytest.mark.parametrize(
    "said",
    [
        "CUDA out of memory. Tried to allocate 2.00 GiB.",
        "CUDA error: out of memory\nCompile with `TORCH_USE_CUDA_DSA`.",
        "HIP out of memory.",
        "MPS backend out of memory (MPS allocated: 5 GB).",
        "CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        "std::bad_alloc: cudaErrorMemoryAllocation: out of memory",
        "Out of memory while trying to allocate 4096 bytes.",
        "Ran out of memory trying to allocate 2.00GiB",
        "RESOURCE_EXHAUSTED: Failed to allocate request for 4.0KiB on device ordinal 0",
        "RESOURCE_EXHAUSTED: OOM when allocating tensor",
        "RESOURCE_EXHAUSTED: Attempting to reserve 2.3G at the bottom of memory.",
    ],
)
def test_memory_that_ran_out_is_known_by_what_libraries_say(said: str) -> None:
    assert an_end_of("RuntimeError", said).is_out_of_memory()


@pytest.mark.parametrize(
    "said",
    [
        "429 RESOURCE_EXHAUSTED. Quota exceeded for requests per minute.",
        "429 RESOURCE_EXHAUSTED. {'message': 'Quota exceeded for quota metric memory'}",
        "429 RESOURCE_EXHAUSTED. You exceeded your current quota, or the memory of it.",
        "429 Quota exceeded: RESOURCE_EXHAUSTED, see the memory page",
        "RESOURCE_EXHAUSTED: no",
        "Ran out of memory budget tokens",
        "the host is not out of memory",
        "CUDA is not out of memory",
    ],
)
def test_a_quota_that_is_used_up_is_no_memory_that_ran_out(said: str) -> None:
    assert not an_end_of("RuntimeError", said).is_out_of_memory()


@pytest.mark.parametrize(
    ("cause", "exception", "title"),
    [
        ("memory", None, "out of memory"),
        ("exit", RemoteException(type="MemoryError", message="", traceback=""), "out of memory"),
        ("exit", RemoteException(type="OutOfMemoryError", message="CUDA", traceback=""), "out of memory"),
        ("exit", RemoteException(type="RuntimeError", message="CUDA out of memory.", traceback=""), "out of memory"),
        (
            "exit",
            RemoteException(type="XlaRuntimeError", message="RESOURCE_EXHAUSTED: Out of memory.", traceback=""),
            "out of memory",
        ),
        ("exit", RemoteException(type="RuntimeError", message="no", traceback=""), "RuntimeError"),
        ("exit", None, ""),
    ],
)
def test_a_job_that_ran_out_of_memory_has_that_as_its_title(
    cause: str, exception: RemoteException | None, title: str
) -> None:
    record = failed(exception, f"AlgorithmError: OutOfMemory: {KILLED}", cause=cause)
    assert summary_of(record).failure_type == title
    if cause == "memory":
        assert str(failure_of(record)) == f"train-1 failed: out of memory. {KILLED}"
