"""Processes forked from one that uses OpenCL get an error, and never wait for threads that they
lack.
"""

import gc

import numpy as np
import pytest
from support.daemon.forking import in_child
from support.models.small import add_model

import neurald as nd
from neurald.drivers.opencl.device import OpenClDevice, create
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.hal.errors import DeadObject, UnavailableDevice

SHAPE = (64,)


def compiled(devices: list[nd.Device]) -> nd.Compilation:
    builder = nd.CompilationBuilder(add_model(SHAPE), devices)
    builder.set_caching(None)
    return builder.finish()


def run(compilation: nd.Compilation, value: float) -> bool:
    values = np.full(SHAPE, value, np.float32)
    return bool((compilation.run(values, values)[0] == 2 * value).all())


@pytest.mark.forks
def test_a_child_gets_an_error_and_its_parent_continues(opencl: DeviceContext) -> None:
    device = OpenClDevice(opencl.facts)
    other = OpenClDevice(opencl.facts)  # not opened
    compilation = compiled([device])
    assert run(compilation, 1)

    def work() -> None:
        for _ in range(2):
            with pytest.raises(
                DeadObject, match=r"forked from one that had used OpenCL.*spawn or forkserver"
            ):
                run(compilation, 2)
        with pytest.raises(DeadObject, match="forked"):
            compiled([device])
        with pytest.raises(UnavailableDevice, match="forked from one that had used OpenCL"):
            compiled([other])
        with pytest.raises(UnavailableDevice, match="forked from one that had used OpenCL"):
            create()
        assert run(compiled([nd.devices()[0]]), 3)

    in_child(work)
    assert run(compilation, 4)


@pytest.mark.forks
def test_a_child_frees_nothing_of_opencl(opencl: DeviceContext) -> None:
    """Releasing the last reference would wait for threads of the parent process."""
    things = [OpenClDevice(opencl.facts)]
    compilations = [compiled([things[0]])]
    assert run(compilations[0], 1)

    def work() -> None:
        compilations.clear()
        things.clear()
        gc.collect()

    in_child(work)
    assert run(compilations[0], 2)


@pytest.mark.forks
@pytest.mark.slow
def test_a_child_falls_back_to_the_cpu(opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    device = OpenClDevice(opencl.facts)
    monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: (nd.devices()[0], device))
    builder = nd.CompilationBuilder(add_model(SHAPE))
    builder.set_caching(None)
    builder.set_partitioning(nd.Partitioning(overrides=(nd.pin("opencl", [0]),)))
    compilation = builder.finish()
    assert compilation.plan.steps[0].device is device

    def work() -> None:
        assert all(run(compilation, number) for number in range(20))

    in_child(work)
    assert run(compilation, 4)
