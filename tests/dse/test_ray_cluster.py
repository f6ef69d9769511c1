"""A real two-node cluster on this machine: joining it, and losing a node in the middle."""

from __future__ import annotations

import threading

import pytest

from dse.executors.base import Batch, Chunk
from dse.executors.ray_pool import RayPool
from dse.testing import SPACE, Factory, FakeScorer, Faults


# JAX, where an earlier test imported it, warns of every fork; Ray's children replace themselves by
# another program at once. `ray_runtime` says the same for the Rays that the tool starts.
@pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning")
@pytest.mark.slow
def test_a_lost_node_costs_a_retry_and_no_result() -> None:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "num_gpus": 0})
    node = cluster.add_node(num_cpus=1, num_gpus=0)
    rows = SPACE.sample(24, seed=3)
    batch = Batch(tuple(Chunk(i, rows[i * 2 : i * 2 + 2]) for i in range(12)), 0)
    pool = RayPool(Factory(Faults(delay_s=0.5)), 2, address=cluster.address)
    try:
        results = {}
        for result in pool.evaluate(batch, threading.Event()):
            if not results:
                cluster.remove_node(node, allow_graceful=False)
            results[result.index] = result
        scores = [score for i in range(12) for score in results[i].scores]
        assert scores == FakeScorer().score(rows)
    finally:
        pool.close()
        cluster.shutdown()
