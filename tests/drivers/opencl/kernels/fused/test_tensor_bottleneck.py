"""Blocks of 8-bit and float16 layers as one kernel on tensor cores: which are supported, and that
results are the same.
"""

import itertools
from typing import Any

import numpy as np
import pytest
from support.opencl.blocks import (
    FLOAT,
    INT8,
    RELU6,
    UINT8,
    VALID,
    Block,
    precision_of,
    sources_of,
    taken,
)
from support.opencl.models import prepared_from, random_inputs, run
from support.opencl.warps import with_tensor_cores, without_warps
from support.sweeps import sweep
from support.tiers import one_in

import neurald as nd
from neurald.drivers.opencl.compiler import compile_model
from neurald.drivers.opencl.platform.device_facts import DeviceFacts, DeviceKind
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.hal.device import PrepareOptions
from neurald.hal.records import replace


def facts_of(opencl: DeviceContext) -> DeviceFacts:
    """Returns the device, or the same with tensor cores."""
    if opencl.facts.has_nvidia_capability((8, 0)):
        return opencl.facts
    return with_tensor_cores(opencl.facts)


SHAPES: tuple[dict[str, Any], ...] = (
    {},
    {"has_residual": True, "images": 2, "height": 5, "width": 9},
    {"height": 8, "width": 6, "stride": 2, "wide": 48, "outputs": 12},
    {"height": 9, "width": 9, "stride": 2, "kernel": (5, 5), "wide": 20},
    {"height": 10, "width": 11, "padding": VALID, "kernel": (3, 1), "channels": 4, "wide": 4, "outputs": 4},
    {"height": 9, "width": 8, "dilation": 2, "channels": 12, "wide": 36, "outputs": 20},
    {"height": 2, "width": 1, "channels": 16, "wide": 64, "outputs": 28, "activation": RELU6},
    {"channels": 96, "wide": 240, "outputs": 96, "has_residual": True},
    {"height": 14, "width": 14, "channels": 64, "wide": 96, "outputs": 64, "kernel": (2, 2)},
    {"has_expand": False, "channels": 32, "outputs": 16, "height": 12, "width": 12},
    {"has_expand": False, "channels": 20, "outputs": 36, "images": 3, "stride": 2, "kernel": (1, 4)},
    {"has_expand": False, "channels": 256, "outputs": 264, "height": 4, "width": 4},
)
TYPES: tuple[dict[str, Any], ...] = (
    {"type": INT8},
    {"type": INT8, "per_channel": True},
    {"type": UINT8},
    {"type": FLOAT, "relaxed": True},
    {"type": FLOAT},
)


# One in six of five types: nearly every shape runs by default, each time with another type.
@pytest.mark.sampled(2)
@pytest.mark.parametrize(("number", "kind"), one_in(6, itertools.product(range(len(SHAPES)), TYPES)))
def test_blocks_compute_the_same(number: int, kind: dict[str, Any], opencl: DeviceContext) -> None:
    block = Block(**SHAPES[number], **kind)
    model, facts = block.model(), facts_of(opencl)
    numbers = [n for n, source in enumerate(sources_of(block, facts)) if "tensor cores" in source.label]
    assert numbers
    inputs = random_inputs(model)
    expected = run(nd.devices()[0].prepare_model(model, PrepareOptions()), model, inputs)
    # With each type another one, so that all of them are seen with a few shapes.
    chosen = numbers[(number + TYPES.index(kind)) % len(numbers)]
    compiled = compile_model(
        model,
        {},
        facts,
        precision=precision_of(block),
        choose=lambda kernels, chains: taken(block, kernels, chains, chosen),
    )
    (label,) = (call.label for call in compiled.executable.calls if "tensor cores" in call.label)
    assert ("bottleneck" in label) is block.has_expand
    text = compiled.executable.text
    if not opencl.facts.is_nvidia:
        text = without_warps(text)
    prepared = prepared_from(opencl, compiled, text)
    for _ in range(2):
        (found,) = run(prepared, model, inputs)
        if block.type is FLOAT:
            scale = float(np.abs(expected[0]).max())
            tolerance = 4e-3 if block.relaxed else 3e-6
            np.testing.assert_allclose(found / scale, expected[0] / scale, atol=tolerance)
        else:
            np.testing.assert_array_equal(found, expected[0])


def test_results_are_not_constant(opencl: DeviceContext) -> None:
    """Otherwise the comparisons of the other tests would prove nothing."""
    for kind in TYPES:
        model = Block(**kind).model()
        (found,) = run(nd.devices()[0].prepare_model(model, PrepareOptions()), model, random_inputs(model))
        assert len(np.unique(found)) > 20


@sweep(
    "change",
    [
        {"also": "wide"},
        {"also": "between"},
        {"outputs": 10},
        {"wide": 22},
        {"channels": 6},
        {"kernel": (7, 7)},
    ],
)
def test_unsupported_blocks(change: dict[str, Any], opencl: DeviceContext) -> None:
    facts = replace(facts_of(opencl), reduction_order=opencl.facts.reduction_order)
    labels = [source.label for source in sources_of(Block(**{"type": INT8, **change}), facts)]
    assert not any("tensor cores" in label for label in labels)


def test_devices_without_tensor_cores(opencl: DeviceContext) -> None:
    facts = facts_of(opencl)
    for other in (
        replace(facts, compute_capability=(7, 5)),
        replace(facts, is_nvidia=False),
        replace(facts, kind=DeviceKind.CPU),
        replace(facts, local_memory_bytes=512),
    ):
        assert not sources_of(Block(type=INT8), other)
