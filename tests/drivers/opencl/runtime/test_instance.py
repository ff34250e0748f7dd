"""Instances: the buffers and kernels of one execution at a time."""

import numpy as np
import pytest
from support.opencl.models import FLOAT, INT32, Models

import neurald as nd
from neurald.drivers.opencl.compiler import compile_model
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.precision import Precision
from neurald.drivers.opencl.runtime.instance import Instance, allocate, clear
from neurald.drivers.opencl.runtime.program import BuiltProgram
from neurald.drivers.opencl.runtime.staging import upload
from neurald.hal.errors import OpFailed

_Op = nd.OperationType
TABLE = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.fixture(scope="module")
def instance(opencl: DeviceContext) -> Instance:
    """Returns an instance with two rows of a constant table, and an input without readers."""
    models = Models()
    places, _ = models.input(INT32, (2,)), models.input(FLOAT, (7,))
    picked = models.add(_Op.GATHER, [models.constant(TABLE), models.number(0), places], FLOAT, (2, 2))
    compiled = compile_model(
        models.finish(picked),
        {},
        opencl.facts,
        precision=Precision.F32,
        choose=lambda kernels, pairs: [sources[0] for sources in kernels],
    )
    constants = allocate(opencl, compiled.constants.nbytes)
    upload(opencl, opencl.queue(), constants, compiled.constants)
    program = BuiltProgram.from_source(opencl, compiled.executable.text)
    return Instance(opencl, compiled.executable, program, constants)


def picked(instance: Instance, *places: int) -> np.ndarray:
    result = np.zeros((2, 2), np.float32)
    wanted = np.array(places, np.int32)
    elapsed = instance.run([wanted.ctypes.data, None], [result.ctypes.data])
    assert elapsed is not None
    assert elapsed > 0
    return result


def test_repeated_runs(instance: Instance) -> None:
    instance.launch()
    for places in ((0, 2), (1, 1), (2, 0)):
        np.testing.assert_array_equal(picked(instance, *places), TABLE[list(places)])


def test_a_failed_requirement_is_reported_once(instance: Instance) -> None:
    with pytest.raises(OpFailed, match="operation 0"):
        picked(instance, 0, 3)
    np.testing.assert_array_equal(picked(instance, 0, 1), TABLE[:2])


def test_omitted_inputs_are_refused(instance: Instance) -> None:
    result = np.zeros(16, np.uint8)
    with pytest.raises(OpFailed, match="input 0 is omitted"):
        instance.run([None, None], [result.ctypes.data])
    np.testing.assert_array_equal(picked(instance, 1, 2), TABLE[1:])


def test_profiles(instance: Instance) -> None:
    times = instance.profile()
    assert [each.operations for each in times if not each.is_copy] == [(0,)]
    np.testing.assert_array_equal(picked(instance, 1, 2), TABLE[1:])


def test_ranges_are_cleared(opencl: DeviceContext) -> None:
    import pyopencl as cl

    queue, buffer, content = opencl.queue(), allocate(opencl, 0), np.full(16, 7, np.uint8)
    cl.enqueue_copy(queue, buffer, content)
    clear(opencl, queue, buffer, 4, 8)
    cl.enqueue_copy(queue, content, buffer)
    np.testing.assert_array_equal(content, [7] * 4 + [0] * 8 + [7] * 4)
