"""Executables for new lengths fit their arena, and similar lengths share a plan of it."""

import random
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

import neurald as nd
from neurald.drivers.compiler.memory.extent_evaluation import ExtentEvaluation
from neurald.drivers.cpu.artifact import check_executable
from neurald.drivers.cpu.device import process_settings
from neurald.drivers.cpu.native.records.step_records import StepRecords
from neurald.drivers.cpu.native.sizing.sized_executables import SizedExecutables
from neurald.drivers.cpu.native.thread_pool import process
from neurald.drivers.cpu.open_artifact import read_open_artifact
from neurald.drivers.cpu.preparation import Preparation
from neurald.drivers.cpu.target.open_executable import OpenExecutable
from neurald.drivers.cpu.target.step_sizes import StepSizes
from neurald.drivers.cpu.target.target import host_target
from neurald.hal.memory import arena_planner

_Op, _FLOAT = nd.OperationType, nd.OperandType.TENSOR_FLOAT32


@cache
def opened() -> OpenExecutable:
    """Returns products of matrices whose number of rows is open, one after the other."""
    builder = nd.ModelBuilder()
    first = last = builder.add_operand(_FLOAT, (0, 16))
    none = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(none, nd.FusedActivation.NONE)
    for width in (48, 16, 32):
        weights = builder.add_operand(_FLOAT, (width, 16 if width != 16 else 48))
        builder.set_operand_value(weights, np.ones((width, 16 if width != 16 else 48), np.float32))
        bias = builder.add_operand(_FLOAT, (width,))
        builder.set_operand_value(bias, np.ones(width, np.float32))
        result = builder.add_operand(_FLOAT, (0, width))
        builder.add_operation(_Op.FULLY_CONNECTED, [last, weights, bias, none], [result])
        last = result
    builder.identify_inputs_and_outputs([first], [last])
    model = builder.finish()
    found = Preparation(host_target(process_settings()), 1, keeps_artifact=True).open(
        model, {model.main.inputs[0]: (67, 16)}
    )
    assert found is not None
    return read_open_artifact(found.artifact()).opened


def sized_executables() -> SizedExecutables:
    """Returns the sizes of `opened`."""
    return SizedExecutables(opened(), process.step_program(host_target(process_settings())).addresses)


def test_executables_in_any_order_fit_their_arena() -> None:
    sized, constants = sized_executables(), opened().template.constants_bytes
    lengths = [*range(2, 250), *range(5_000, 10_000, 1_009)]
    random.Random(0).shuffle(lengths)
    for length in lengths:
        sizes = sized.sizes([(length, 16)])
        assert sizes is not None
        executable = sizes.executable
        check_executable(executable, constants)
        assert executable.inputs[0].dimensions == (length, 16)
        assert executable.outputs[0].size_bytes == 4 * 32 * length
        assert executable.outputs[0].dimensions == (length, 32)
        assert sized.output_shapes([(length, 16)]) == ((length, 32),)
        alone = sized_executables().sizes([(length, 16)])
        assert alone is not None
        assert executable.extents == alone.executable.extents
        assert executable.calls.work_items == alone.executable.calls.work_items
        # There is memory for up to an eighth more, and in small arenas for twice as much.
        numbers = ExtentEvaluation(opened().program).evaluate((length,))
        assert numbers is not None
        exact = opened().planned([value.size_bytes(numbers.tolist()) for value in opened().values], 64)
        factor = 2 if executable.arena_bytes <= 1 << 20 else 1.125
        assert executable.arena_bytes <= factor * exact.size_bytes + 1024


@pytest.mark.parametrize(("lengths", "count"), [(range(129, 257), 1), (range(16_385, 32_768, 127), 8)])
def test_similar_lengths_share_a_plan(lengths: range, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = []

    def counted(self: OpenExecutable, sizes: list[int], alignment: int) -> arena_planner.MemoryPlan:
        plans.append(sizes)
        return plan(self, sizes, alignment)

    plan = OpenExecutable.planned
    sized = sized_executables()
    monkeypatch.setattr(OpenExecutable, "planned", counted)
    for length in lengths:
        assert sized.sizes([(length, 16)]) is not None
    assert len(plans) == count


@pytest.mark.parametrize("threads", [1, 4])
def test_records_of_a_size_are_those_of_its_executable(threads: int) -> None:
    sized = sized_executables()
    for length in (2, 7, 300, 10_000, 1_000_000):
        sizes = sized.sizes([(length, 16)])
        assert sizes is not None
        records = StepRecords.__new__(StepRecords)
        records._team = SimpleNamespace(threads=threads)  # type: ignore[assignment]
        expected = [*zip(*records._sizes(sizes.executable), strict=False)]
        assert [*map(tuple, records._divided(sizes).tolist())] == expected
        assert [*map(tuple, records._divided(StepSizes.of(sizes.executable)).tolist())] == expected


def test_other_shapes_are_not_supported() -> None:
    sized = sized_executables()
    for shapes in ([(5, 17)], [(5, 16, 1)], [None], [], [(0, 16)], [(1 << 60, 16)]):
        assert sized.sizes(shapes) is None
        assert sized.output_shapes(shapes) is None
