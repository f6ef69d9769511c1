"""Starting, joining and leaving Ray, with its surprises switched off."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import Any

from dse.errors import UserError
from dse.executors.ray_worker import Worker
from dse.score import ScorerFactory

_OBJECT_STORE_BYTES = 80 * 2**20  # Ray's minimum is 75 MB; its default, 30 % of RAM, breaks in CI
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # else `uv run` is repeated in every worker
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # leave CUDA_VISIBLE_DEVICES alone
}


@dataclass(frozen=True)
class Runtime:
    """The `ray` module, connected. owned: this process started or joined it and must leave it."""

    module: Any
    where: str
    owned: bool

    def cpus(self) -> int:
        """CPUs of all nodes now in the cluster."""
        return max(1, int(self.module.cluster_resources().get("CPU", 0)))

    def close(self) -> None:
        """Disconnect, and end a local Ray, unless it was there before."""
        if self.owned:
            self.module.shutdown()


def connect(workers: int | None, address: str | None) -> Runtime:
    """Start a local Ray with `workers` CPUs (None: all), or join the cluster at `address`.

    A Ray that this process already runs is used as it is. `RAY_ADDRESS` is not followed: a study
    joins a cluster only when it is told to. Raises UserError when the cluster cannot be reached.
    """
    os.environ.update(_ENVIRONMENT)
    import ray

    if ray.is_initialized():
        return Runtime(ray, "the Ray of this process", owned=False)
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        with warnings.catch_warnings():
            # JAX warns of every fork; Ray's children replace themselves by another program at once.
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            ray.init(
                address="local",
                num_cpus=workers,
                num_gpus=0,
                include_dashboard=False,
                object_store_memory=_OBJECT_STORE_BYTES,
                **quiet,
            )
        return Runtime(ray, "a local Ray", owned=True)
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UserError(
            f"no Ray cluster answers at {address}: {error}\n"
            "Start one with `ray start --head`, or leave out --ray-address."
        ) from error
    return Runtime(ray, f"the Ray cluster at {address}", owned=True)


def actor_class() -> Any:
    """The remote class of `Worker`: one CPU each, and no retries but the pool's own."""
    import ray

    return ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Worker)


def pickled(factory: ScorerFactory) -> bytes:
    """The factory as bytes that a worker can load."""
    from ray import cloudpickle

    dumps: Any = cloudpickle.dumps
    return bytes(dumps(factory))
