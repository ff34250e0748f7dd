"""Models on a device with the limits of a phone's GPU, whose kernels read images.

Such a GPU has 32 KB of local memory, work-groups of at most 256 work-items, neither doubles nor
dot products of bytes, and images of at most 65,536 texels. No kernel may need more, be it chosen
or one of those that are measured.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import numpy as np
import pytest
from support.models.small_network import FLOAT16, FLOAT32, SIGNED, UNSIGNED, small_network
from support.opencl.batch import BatchingDevice
from support.opencl.models import FLOAT, Models, expect_close, random_inputs, random_model, run

import neurald as nd
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.compiler import compile_model
from neurald.drivers.opencl.kernels.fused.chains import KernelChain
from neurald.drivers.opencl.platform.device_facts import DeviceFacts, DeviceKind
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.precision import Precision
from neurald.drivers.opencl.platform.reduction_order import ReductionOrder
from neurald.drivers.opencl.platform.storage import Storage
from neurald.drivers.opencl.prepared_model import OpenClPreparedModel
from neurald.drivers.opencl.tuning.tuning import TUNING_VARIABLE, Tuning
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import PrepareOptions
from neurald.hal.model.model import Model
from neurald.hal.records import replace

_Op = nd.OperationType
LOCAL_BYTES: Final = 32 << 10
ITEMS: Final = 256
#: How many candidates for each kernel, and for each chain of kernels, are checked.
MAX_CANDIDATES: Final = 12
#: What other devices have. Kernels that need it would not build on such a GPU.
ABSENT: Final = ("asm volatile", "asm(", "sub_group", "double", "arm_dot", "dot_4x8packed")


def attention(*, relaxed: bool) -> Model:
    """Returns attention with a head of 32 features to 24 rows, and a residual sum."""
    rows, width = 24, 32
    models = Models(5)
    x = models.input(FLOAT, (rows, width))
    no, yes = (models.number(each) for each in (False, True))

    def dense(source: int) -> int:
        weights = models.constant(np.random.default_rng(source).standard_normal((width, width)) / 6)
        return models.add(
            _Op.FULLY_CONNECTED,
            [source, weights, models.constant(np.zeros(width, np.float32)), models.number(0)],
            FLOAT,
            (rows, width),
        )

    query, key, value = (dense(x) for _ in range(3))
    scores = models.add(_Op.BATCH_MATMUL, [query, key, no, yes], FLOAT, (rows, rows))
    weights = models.add(_Op.SOFTMAX, [scores, models.number(0.2)], FLOAT, (rows, rows))
    mixed = models.add(_Op.BATCH_MATMUL, [weights, value, no, no], FLOAT, (rows, width))
    total = models.add(_Op.ADD, [dense(mixed), x, models.number(0)], FLOAT, (rows, width))
    return models.finish(total, relaxed=relaxed)


MODELS: Final = {
    "FLOAT32": small_network(FLOAT32, 7, 3, 8),
    "FLOAT16": small_network(FLOAT16, 5, 4, 12),
    "UNSIGNED": small_network(UNSIGNED, 5, 4, 12),
    "SIGNED": small_network(SIGNED, 6, 5, 7),
    "attention": attention(relaxed=False),
    "relaxed attention": attention(relaxed=True),
    "random": random_model(6),
}
TOLERANCES: Final = {"FLOAT16": 5e-3, "relaxed attention": 5e-3}


def mobile(opencl: DeviceContext) -> DeviceFacts:
    if not opencl.facts.max_image_texels:
        pytest.skip(f"{opencl.facts.name} has no images of buffers")
    return replace(
        opencl.facts,
        kind=DeviceKind.GPU,
        compute_units=8,
        max_work_group_size=ITEMS,
        local_memory_bytes=LOCAL_BYTES,
        has_fp64=False,
        has_dot_product=False,
        is_nvidia=False,
        compute_capability=None,
        max_image_texels=1 << 16,
        storage=Storage.IMAGE,
        reduction_order=ReductionOrder.ORDERED,
    )


@pytest.fixture(scope="module")
def device(opencl: DeviceContext) -> Iterator[BatchingDevice]:
    with pytest.MonkeyPatch.context() as patch:
        # What is fastest differs between runs, and with it the rounding of results.
        patch.setenv(TUNING_VARIABLE, Tuning.FAST.value)
        found = BatchingDevice(mobile(opencl))
        found.build(MODELS.values())
        yield found


@pytest.mark.parametrize("name", MODELS)
def test_models_compute_what_references_do(name: str, device: BatchingDevice) -> None:
    model = MODELS[name]
    inputs = random_inputs(model)
    prepared = device.prepare_model(model, PrepareOptions())
    assert isinstance(prepared, OpenClPreparedModel)
    assert any(call.images for call in prepared.executable.calls)
    expected = run(ReferenceDevice().prepare_model(model, PrepareOptions()), model, inputs)
    expect_close(run(prepared, model, inputs), expected, TOLERANCES.get(name, 1e-4))


@pytest.mark.parametrize("precision", [Precision.F32, Precision.F16])
@pytest.mark.parametrize("name", MODELS)
def test_no_kernel_exceeds_the_limits(name: str, precision: Precision, device: BatchingDevice) -> None:
    """Also none of those that are only measured, or compute a chain."""
    seen: list[Source] = []

    def choose(kernels: Sequence[Sequence[Source]], chains: Sequence[KernelChain]) -> list[Source]:
        for sources in (*kernels, *(each.sources for each in chains)):
            seen.extend(islice(sources, MAX_CANDIDATES))
        return [sources[0] for sources in kernels]

    facts = device.context.facts
    compile_model(MODELS[name], {}, facts, precision=precision, choose=choose)
    assert seen
    for source in seen:
        assert source.local_size <= ITEMS, source.label
        assert source.scratch_bytes <= LOCAL_BYTES, source.label
        assert not source.is_retargeted, source.label
        assert not [word for word in ABSENT if word in source.text], source.label
