"""Train on images whose augmentation costs more than the step, alone or fed by the hosts of another group.

One script for all hosts, as SageMaker starts it: a host of the group ``data`` serves augmented batches over gRPC, any
other host trains. Without a group ``data`` the trainer augments for itself. Needs torch, numpy and grpcio.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import queue
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # a trainer that leaves is no trouble

import grpc
import numpy as np
import torch
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FEEDERS = "data"
PORT = 6000
SERVICE = "smx.example.Feed"
SIDE = 48
AHEAD = 4
"""Batches that a worker makes ahead of requests."""
WARM_UP = 10
"""Steps that are not measured: the first ones fill queues and caches."""


def augmented(size: int, rounds: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Make a batch: ``size`` images (float32, 3 × 48 × 48) that went through ``rounds`` of augmentation, and labels."""
    torch.manual_seed(seed)
    images, labels = torch.rand(size, 3, SIDE, SIDE), torch.randint(0, 10, (size,))
    images += labels.view(-1, 1, 1, 1) / 10  # something that can be learnt
    blur = torch.full((3, 1, 5, 5), 1 / 25)
    for _ in range(rounds):
        angle = (torch.rand(size) - 0.5) / 4
        turn = torch.zeros(size, 2, 3)
        turn[:, 0, 0], turn[:, 0, 1] = angle.cos(), -angle.sin()
        turn[:, 1, 0], turn[:, 1, 1] = angle.sin(), angle.cos()
        grid = functional.affine_grid(turn, list(images.shape), align_corners=False)
        images = functional.grid_sample(images, grid, padding_mode="reflection", align_corners=False)
        images = functional.conv2d(images, blur, padding=2, groups=3)
    return images.numpy(), labels.numpy()


def work(out: Any, size: int, rounds: int, seed: int) -> None:
    """Fill a queue with batches, forever, on one CPU."""
    torch.set_num_threads(1)
    for number in itertools.count(seed, 1000):
        images, labels = augmented(size, rounds, number)
        out.put(labels.astype("<i8").tobytes() + images.astype("<f4").tobytes())


def workers(count: int, size: int, rounds: int, seed: int) -> Callable[[], bytes]:
    """Start ``count`` processes that make batches, and give the function that takes the next one."""
    made = multiprocessing.get_context("spawn")
    out = made.Queue(AHEAD * count)
    for number in range(count):
        made.Process(target=work, args=(out, size, rounds, seed + number), daemon=True).start()
    return out.get


def serve(take: Callable[[], bytes]) -> None:
    """Serve batches until the trainer reports that it is done."""
    done = threading.Event()

    def batches(_request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        while context.is_active():
            yield take()

    def stop(_request: bytes, _context: grpc.ServicerContext) -> bytes:
        done.set()
        return b""

    server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.max_send_message_length", -1)])
    handlers = {
        "Batches": grpc.unary_stream_rpc_method_handler(batches),
        "Stop": grpc.unary_unary_rpc_method_handler(stop),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    server.add_insecure_port(f"{os.environ['SM_CURRENT_HOST']}:{PORT}")
    server.start()
    print("serving batches", flush=True)
    done.wait()
    server.stop(grace=1).wait()  # at once it would cut off its answer to Stop as well


class Fed:
    """The trainer's side: batches from all hosts of the group, as they come."""

    def __init__(self, hosts: list[str]) -> None:
        self._waiting: queue.Queue[bytes] = queue.Queue(AHEAD * len(hosts))
        self._lines = [
            grpc.insecure_channel(f"{host}:{PORT}", options=[("grpc.max_receive_message_length", -1)]) for host in hosts
        ]
        for line in self._lines:
            grpc.channel_ready_future(line).result(timeout=120)
            threading.Thread(target=self._pump, args=(line,), daemon=True).start()

    def _pump(self, line: grpc.Channel) -> None:
        try:
            for batch in line.unary_stream(f"/{SERVICE}/Batches")(b""):
                self._waiting.put(batch)
        except grpc.RpcError:
            pass  # the other side was asked to stop

    def take(self) -> bytes:
        """Wait for the next batch."""
        return self._waiting.get()

    def stop(self) -> None:
        """Stop the hosts of the other group: SageMaker waits for every host of a job."""
        for line in self._lines:
            line.unary_unary(f"/{SERVICE}/Stop")(b"")


def read(batch: bytes, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Read a batch as the workers write it."""
    labels = np.frombuffer(batch, "<i8", size)
    images = np.frombuffer(batch, "<f4", offset=labels.nbytes).reshape(size, 3, SIDE, SIDE)
    return torch.from_numpy(images.copy()), torch.from_numpy(labels.copy())


def train(take: Callable[[], bytes], size: int, steps: int, device: str) -> list[float]:
    """Train a small network; gives the seconds of each measured step, waiting for its batch included."""
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, stride=2, padding=1), torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, stride=2, padding=1), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.Linear(32 * (SIDE // 4) ** 2, 10),
    ).to(device)  # fmt: skip
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    took = []
    for step in range(WARM_UP + steps):
        began = time.perf_counter()
        images, labels = read(take(), size)
        loss = functional.cross_entropy(net(images.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        value = loss.item()  # also waits for the device
        took.append(time.perf_counter() - began)
        if step % 20 == 0:
            print(f"step={step} loss={value:.4f}", flush=True)
    return took[WARM_UP:]


def main() -> None:
    """Be a feeder or the trainer, by the group of this host."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    cpus, host = int(os.environ["SM_NUM_CPUS"]), os.environ["SM_CURRENT_HOST"]
    groups = json.loads(os.environ["SM_INSTANCE_GROUPS_DICT"])
    seed = json.loads(os.environ["SM_HOSTS"]).index(host) * 100
    if os.environ["SM_CURRENT_INSTANCE_GROUP"] == FEEDERS:
        serve(workers(cpus, options.batch_size, options.rounds, seed))
        return
    torch.set_num_threads(cpus)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    fed = Fed(groups[FEEDERS]["hosts"]) if FEEDERS in groups else None
    take = fed.take if fed else workers(cpus, options.batch_size, options.rounds, seed)
    took = train(take, options.batch_size, options.steps, device)
    if fed:
        fed.stop()
    print(
        f"step_ms={statistics.median(took) * 1000:.2f} mean_step_ms={statistics.fmean(took) * 1000:.2f} device={device}"
    )


if __name__ == "__main__":
    main()
