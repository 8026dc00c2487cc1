"""Random histories with hosts of images, which see only provided files of the controller's machine."""

# ruff: noqa: D401 - the sentence of a rule says what somebody else does

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from jupyter_smx.model.records.job import attempt_started_at
from jupyter_smx.model.spec.channel import Payload
from jupyter_smx.policy.lifecycle import image_pull
from jupyter_smx.policy.lifecycle.transitions import is_pulling_image
from jupyter_smx.testing.fakes.fake_host import FakeScript
from jupyter_smx.testing.fakes.fake_image_engine import FakeImageEngine
from jupyter_smx.testing.simulation.invariants import Invariants
from jupyter_smx.testing.simulation.state_machine import KEEP_ALIVES, ControllerStateMachine

OURS = "/variables/of/a/kernel"


class ImageStateMachine(ControllerStateMachine):
    """All events, and those of images and of files on their way to hosts."""

    engine = FakeImageEngine

    def __init__(self) -> None:
        super().__init__()
        self.images.default = "train:1"

    @property
    def images(self) -> FakeImageEngine:
        """Return the engine by its type."""
        assert isinstance(self.sim.engine, FakeImageEngine)
        return self.sim.engine

    @precondition(Invariants.is_alive)
    @rule(
        image=st.sampled_from(["", "train:1", "train:2", "same:2", "gone:1"]),
        hosts=st.integers(min_value=1, max_value=2),
        keep_alive=st.sampled_from(KEEP_ALIVES),
        starts_after=st.sampled_from([0.0, 3.0]),
        retries=st.sampled_from([0, 0, 2]),
        number=st.sampled_from([None, 0, 1, 2]),
    )
    def submit(self, starts_after: float, number: int | None, **wish: Any) -> None:
        """A user wants a job of an image, which is sent variables or none."""
        if number is not None:
            wish["send"] = Payload(path=f"{OURS}/{number}", sha256="0", sizes={"x": 1})
        job = self.sim.new_id()
        self.sim.world.scripts[job] = FakeScript(starts_after=starts_after)
        self.jobs[job] = wish
        self.sim.submit(job_id=job, **wish)

    @rule(number=st.integers(min_value=1, max_value=3), seconds=st.sampled_from([0.0, 0.0, 2.0, 40.0]))
    def an_image_is_rebuilt(self, number: int, seconds: float) -> None:
        """A name means another image from now on, or another one is slow to come."""
        self.images.images["train:1"] = f"sha256:{number}"
        self.images.resolve_seconds = seconds

    @rule(name=st.sampled_from(["train:1", "train:2", "gone:1"]), away=st.sampled_from([0, 0, 2, 9]))
    def an_image_is_only_in_its_registry(self, name: str, away: int) -> None:
        """The next job of it has it downloaded, as soon as the registry answers."""
        self.images.remote_images.add(name)
        self.images.registry_failures = away

    @rule(seconds=st.sampled_from([0.0, 0.0, 2.0, 40.0]), unreachable=st.sampled_from([0, 0, 1, 3]))
    def file_copies_get_slow(self, seconds: float, unreachable: int) -> None:
        """Providing files takes a while, or fails at first."""
        self.images.provide_seconds = seconds
        self.images.connect_failures = unreachable

    @rule(number=st.integers(min_value=0, max_value=2), there=st.booleans())
    def variables_come_and_go(self, number: int, there: bool) -> None:
        """Sent variables are deleted, or exist again."""
        path = f"{OURS}/{number}"
        self.images.missing_paths = self.images.missing_paths - {path} if there else self.images.missing_paths | {path}

    @invariant()
    def hosts_get_only_visible_paths(self) -> None:
        """No host has a job whose variables lie where it sees nothing."""
        for host in self.sim.world.hosts.values():
            seen = {*self.images.provided_paths.get((host.cluster, host.name), {}).values()}
            sent = [run.spec["send"]["path"] for run in host.runs.values() if run.spec["send"]]
            assert seen.issuperset(sent), (sent, seen)
        assert not self.images.overlaps
        assert not self.images.disturbed_hosts

    @invariant()
    def nobody_pays_for_a_download(self) -> None:
        """A job that is Downloading without hosts has not begun, and stands in no line."""
        if not self.is_alive():
            return
        for job in self.sim.controller.live_state.jobs.values():
            if is_pulling_image(job):
                assert job.image is None or image_pull.GONE in job.timings
                assert (job.counted_from, attempt_started_at(job)) == (None, None)
                assert self.sim.controller.live_state.summary(job).queue_position is None

    @invariant()
    def jobs_run_the_image_on_their_record(self) -> None:
        """And no other one, whatever its name means by now."""
        if not self.is_alive():
            return
        for job, clusters in self.sim.world.job_clusters.items():
            record = self.sim.controller.store.job(job)
            assert record is not None
            assert record.image is not None
            assert {self.images.cluster_images[cluster] for cluster in clusters} == {record.image.id}
