"""Blocks of three layers as one kernel: which there are, and that they compute the same."""

import dataclasses

import numpy as np
import pytest
from support.opencl_adding import without_ptx
from support.opencl_models import FLOAT, Models, expect_close, random_inputs, run

import neurald as nd
from neurald.drivers.opencl.compiler import compile_model
from neurald.drivers.opencl.kernels.chains import Chain
from neurald.drivers.opencl.platform import DeviceContext, DeviceFacts, DeviceKind
from neurald.drivers.opencl.precision import Precision
from neurald.drivers.opencl.prepared_model import OpenClPreparedModel
from neurald.drivers.opencl.program import Program
from neurald.drivers.opencl.source import Source
from neurald.drivers.opencl.sums import Sums
from neurald.hal.device import PrepareOptions
from neurald.hal.types import Model

_Op = nd.OperationType
_RELU6, _SAME, _VALID = 3, 1, 2


def facts_of(opencl: DeviceContext) -> DeviceFacts:
    """A GPU that adds in memory, float by float."""
    return dataclasses.replace(
        opencl.facts, kind=DeviceKind.GPU, compute_units=16, is_nvidia=True, compute_capability=(7, 0)
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Block:
    """An image, its layers, and what else there is."""

    images: int = 1
    height: int = 7
    width: int = 7
    channels: int = 8
    wide: int = 24
    outputs: int = 8
    kernel: tuple[int, int] = (3, 3)
    stride: int = 1
    padding: int = _SAME
    dilation: int = 1
    has_residual: bool = False
    activation: int = 0
    also: str = ""

    def model(self) -> Model:
        models = Models(self.wide + self.outputs)
        random = models.generator

        def weights(*lengths: int) -> int:
            return models.constant(random.standard_normal(lengths).astype(np.float32))

        one, relu6 = models.number(1), models.number(_RELU6)
        shape = (self.images, self.height, self.width)
        source = models.input(FLOAT, (*shape, self.channels))
        wide = models.add(
            _Op.CONV_2D,
            [
                source,
                weights(self.wide, 1, 1, self.channels),
                weights(self.wide),
                models.number(_SAME),
                one,
                one,
                relu6,
            ],
            FLOAT,
            (*shape, self.wide),
        )
        reach = [(length - 1) * self.dilation + 1 for length in self.kernel]
        size = tuple(
            -(-(length if self.padding == _SAME else length - far + 1) // self.stride)
            for length, far in zip(shape[1:], reach, strict=True)
        )
        step = models.number(self.stride)
        options = [models.number(self.padding), step, step, one, relu6]
        if self.dilation > 1:
            options += [models.number(False), models.number(self.dilation), models.number(self.dilation)]
        between = models.add(
            _Op.DEPTHWISE_CONV_2D,
            [wide, weights(1, *self.kernel, self.wide), weights(self.wide), *options],
            FLOAT,
            (self.images, *size, self.wide),
        )
        after = models.add(
            _Op.CONV_2D,
            [
                between,
                weights(self.outputs, 1, 1, self.wide),
                weights(self.outputs),
                models.number(_SAME),
                one,
                one,
                models.number(self.activation),
            ],
            FLOAT,
            (self.images, *size, self.outputs),
        )
        if self.has_residual:
            after = models.add(
                _Op.ADD, [after, source, models.number(0)], FLOAT, (self.images, *size, self.outputs)
            )
        return models.finish(after, *({"wide": (wide,), "between": (between,)}.get(self.also, ())))


def sources_of(model: Model, facts: DeviceFacts) -> list[Source]:
    """Every way to compute a block as one kernel."""
    found: list[Source] = []

    def choose(kernels, chains):  # type: ignore[no-untyped-def]
        found.extend(source for chain in chains if len(chain.members) == 3 for source in list(chain.sources))
        return [sources[0] for sources in kernels]

    compile_model(model, {}, facts, precision=Precision.F32, choose=choose)
    return found


BLOCKS = (
    Block(),
    Block(has_residual=True, images=2, height=5, width=9),
    Block(height=8, width=6, stride=2, wide=48, outputs=12),
    Block(height=9, width=9, stride=2, kernel=(5, 5), wide=20),
    Block(height=10, width=11, padding=_VALID, kernel=(3, 1), channels=4, wide=4, outputs=4),
    Block(height=9, width=8, dilation=2, channels=12, wide=36, outputs=20),
    Block(height=2, width=1, channels=16, wide=64, outputs=28),
    Block(height=7, width=7, channels=160, wide=240, outputs=160, has_residual=True),
    Block(height=14, width=14, channels=64, wide=96, outputs=64),
)


@pytest.mark.parametrize("block", BLOCKS)
def test_blocks_compute_the_same(block: Block, opencl: DeviceContext) -> None:
    model = block.model()
    facts = opencl.facts if opencl.facts.is_nvidia else facts_of(opencl)
    inputs = random_inputs(model)
    expected = run(nd.devices()[0].prepare_model(model, PrepareOptions()), model, inputs)
    count = len(sources_of(model, facts))
    assert count > 0
    for number in {0, count // 2, count - 1}:

        def choose(kernels, chains):  # type: ignore[no-untyped-def]
            (chain,) = (each for each in chains if len(each.members) == 3)
            return _taken(kernels, chain, chain.sources[number])  # noqa: B023 - called at once

        compiled = compile_model(model, {}, facts, precision=Precision.F32, choose=choose)
        labels = [call.label for call in compiled.executable.calls]
        assert ["zeros" in label for label in labels] == [True, False]
        text = compiled.executable.text
        if not opencl.facts.is_nvidia:
            text = without_ptx(text)
        prepared = OpenClPreparedModel(
            opencl,
            compiled.executable,
            Program.from_source(opencl, text),
            compiled.constants,
            keeps_artifact=False,
        )
        for _ in range(2):
            scale = float(np.abs(expected[0]).max())
            found = run(prepared, model, inputs)
            expect_close([each / scale for each in found], [each / scale for each in expected], 1e-5)


def _taken(kernels: list[list[Source]], chain: Chain, source: Source) -> list[Source | None]:
    chosen: list[Source | None] = [sources[0] for sources in kernels]
    for position in chain.members:
        chosen[position] = None
    chosen[chain.members[-1]] = source
    return chosen


@pytest.mark.parametrize(
    "block",
    [
        Block(also="wide"),
        Block(also="between"),
        Block(activation=_RELU6),
        Block(outputs=10),
        Block(wide=22),
        Block(channels=6),
        Block(kernel=(7, 7)),
    ],
)
def test_other_layers_are_computed_one_by_one(block: Block, opencl: DeviceContext) -> None:
    assert not sources_of(block.model(), facts_of(opencl))


def test_devices_that_do_not_add_in_memory_compute_layers_one_by_one(opencl: DeviceContext) -> None:
    facts = facts_of(opencl)
    model = Block().model()
    for other in (
        dataclasses.replace(facts, sums=Sums.ORDERED),
        dataclasses.replace(facts, is_nvidia=False),
        dataclasses.replace(facts, kind=DeviceKind.CPU),
        dataclasses.replace(facts, local_memory_bytes=512),
    ):
        assert not sources_of(model, other)
