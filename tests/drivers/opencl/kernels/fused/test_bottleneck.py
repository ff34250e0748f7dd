"""Blocks of three layers as one kernel: which are supported, and that results are the same."""

import numpy as np
import pytest
from support.opencl.adding import without_ptx
from support.opencl.blocks import RELU6, VALID, Block, sources_of, taken
from support.opencl.models import expect_close, prepared_from, random_inputs, run
from support.sweeps import sweep
from support.tiers import one_in

import neurald as nd
from neurald.drivers.opencl.compiler import compile_model
from neurald.drivers.opencl.platform.device_facts import DeviceFacts, DeviceKind
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.precision import Precision
from neurald.drivers.opencl.platform.reduction_order import ReductionOrder
from neurald.hal.device import PrepareOptions
from neurald.hal.records import replace


def facts_of(opencl: DeviceContext) -> DeviceFacts:
    """Returns a GPU that adds floats in memory, one at a time."""
    return replace(
        opencl.facts, kind=DeviceKind.GPU, compute_units=16, is_nvidia=True, compute_capability=(7, 0)
    )


BLOCKS = (
    Block(),
    Block(has_residual=True, images=2, height=5, width=9),
    Block(height=8, width=6, stride=2, wide=48, outputs=12),
    Block(height=9, width=9, stride=2, kernel=(5, 5), wide=20),
    Block(height=10, width=11, padding=VALID, kernel=(3, 1), channels=4, wide=4, outputs=4),
    Block(height=9, width=8, dilation=2, channels=12, wide=36, outputs=20),
    Block(height=2, width=1, channels=16, wide=64, outputs=28),
    Block(height=7, width=7, channels=160, wide=240, outputs=160, has_residual=True),
    Block(height=14, width=14, channels=64, wide=96, outputs=64),
)


@pytest.mark.parametrize("block", one_in(2, BLOCKS))
def test_blocks_compute_the_same(block: Block, opencl: DeviceContext) -> None:
    model = block.model()
    facts = opencl.facts if opencl.facts.is_nvidia else facts_of(opencl)
    inputs = random_inputs(model)
    expected = run(nd.devices()[0].prepare_model(model, PrepareOptions()), model, inputs)
    # Where there are tensor cores, there are other ways, too.
    numbers = [
        n for n, source in enumerate(sources_of(block, facts)) if source.label.startswith("bottleneck")
    ]
    assert numbers
    for number in {numbers[0], numbers[len(numbers) // 2], numbers[-1]}:

        def choose(kernels, chains):  # type: ignore[no-untyped-def]
            return taken(block, kernels, chains, number)  # noqa: B023 - called at once

        compiled = compile_model(model, {}, facts, precision=Precision.F32, choose=choose)
        labels = [call.label for call in compiled.executable.calls]
        assert ["clears" in label for label in labels] == [True, False]
        text = compiled.executable.text
        if not opencl.facts.is_nvidia:
            text = without_ptx(text)
        prepared = prepared_from(opencl, compiled, text)
        for _ in range(2):
            scale = float(np.abs(expected[0]).max())
            found = run(prepared, model, inputs)
            expect_close([each / scale for each in found], [each / scale for each in expected], 1e-5)


@sweep(
    "block",
    [
        Block(also="wide"),
        Block(also="between"),
        Block(activation=RELU6),
        Block(outputs=10),
        Block(wide=22),
        Block(channels=6),
        Block(kernel=(7, 7)),
    ],
)
def test_unsupported_blocks(block: Block, opencl: DeviceContext) -> None:
    assert not sources_of(block, facts_of(opencl))


def test_devices_without_atomic_addition(opencl: DeviceContext) -> None:
    facts = facts_of(opencl)
    for other in (
        replace(facts, reduction_order=ReductionOrder.ORDERED),
        replace(facts, is_nvidia=False),
        replace(facts, kind=DeviceKind.CPU),
        replace(facts, local_memory_bytes=512),
    ):
        assert not sources_of(Block(), other)
