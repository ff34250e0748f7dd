"""Kernel times of an OpenCL device."""

import numpy as np
import pytest
from support.models.addition import addition, request
from support.models.graphs import chain

import neurald as nd
from neurald.drivers.opencl.device import OpenClDevice
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.hal.device import COPY_IN, COPY_OUT, ExecuteOptions, PrepareOptions
from neurald.hal.errors import OpFailed
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.request import Argument, Request

T = nd.OperationType
RUN = ExecuteOptions()


@pytest.fixture
def device(opencl: DeviceContext) -> OpenClDevice:
    return OpenClDevice(opencl.facts)


def test_every_operation_has_a_kernel(device: OpenClDevice) -> None:
    profile = device.prepare_model(chain(T.TANH, T.LOGISTIC, T.RELU), PrepareOptions()).profile()
    assert [each.label for each in profile if each.is_copy] == [COPY_IN, COPY_OUT]
    first, *kernels, last = profile
    assert (first.label, last.label) == (COPY_IN, COPY_OUT)
    assert {position for kernel in kernels for position in kernel.operations} == {0, 1, 2}
    assert all(kernel.duration_ns > 0 for kernel in kernels)
    assert all(kernel.name and kernel.label for kernel in kernels)
    assert not any(kernel.is_reference for kernel in kernels)


def test_a_profile_changes_no_result(device: OpenClDevice) -> None:
    constant, values = np.arange(6, dtype=np.float32), np.full(6, 2, np.float32)
    prepared = device.prepare_model(addition(constant), PrepareOptions())
    for _ in range(2):
        result = np.zeros_like(values)
        prepared.execute(request(values, result), RUN)
        np.testing.assert_array_equal(result, values + constant)
        assert [kernel.operations for kernel in prepared.profile() if not kernel.is_copy] == [(0,)]


def test_with_unspecified_dimensions_after_the_first_execution(device: OpenClDevice) -> None:
    prepared = device.prepare_model(addition(np.ones((1, 3)), dynamic=True), PrepareOptions())
    assert prepared.profile() == ()
    values = np.zeros((4, 3), np.float32)
    prepared.execute(request(values, values.copy()), RUN)
    assert [kernel.operations for kernel in prepared.profile() if not kernel.is_copy] == [(0,)]


def test_profiles_of_invalid_inputs(device: OpenClDevice) -> None:
    """The arena may contain invalid inputs, which must not make the next execution fail."""
    builder = nd.ModelBuilder()
    table = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (4, 2))
    index = builder.add_operand(nd.OperandType.TENSOR_INT32, (1,))
    found = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (1, 2))
    builder.add_operation(T.EMBEDDING_LOOKUP, [index, table], [found])
    builder.identify_inputs_and_outputs([index, table], [found])
    prepared = device.prepare_model(builder.finish(), PrepareOptions())
    rows, result = np.arange(8, dtype=np.float32).reshape(4, 2), np.zeros((1, 2), np.float32)

    def looking_up(row: int) -> Request:
        arrays = (np.array([row], np.int32), rows, result)
        arguments = [Argument(pool=n, length=array.nbytes) for n, array in enumerate(arrays)]
        return Request(
            inputs=tuple(arguments[:2]),
            outputs=tuple(arguments[2:]),
            pools=tuple(HostMemory(array) for array in arrays),
        )

    with pytest.raises(OpFailed):
        prepared.execute(looking_up(9), RUN)
    assert prepared.profile()
    prepared.execute(looking_up(3), RUN)
    np.testing.assert_array_equal(result, rows[3:])
