"""Random networks give the results of the references in every way in which executions can run."""

from collections.abc import Iterator

import pytest
from random_graphs.execution_ways import PLACES, execution_mismatch
from support.daemon.processes import running_daemon
from support.sweeps import sweep

import neurald as nd

SEEDS = range(40)


@pytest.fixture(scope="module")
def daemon() -> Iterator[nd.Device]:
    with running_daemon() as address:
        device = nd.connect(address)
        yield device
        device.close()


@sweep("place", PLACES)
@sweep("seed", SEEDS[:3], full=SEEDS[3:])
def test_executions_equal_the_references(
    place: str, seed: int, daemon: nd.Device, compiles_here: None
) -> None:
    assert execution_mismatch(seed, place, daemon if place == "daemon" else None) == ""
