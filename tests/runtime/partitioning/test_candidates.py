"""find_candidates: which device is asked about what, and devices that fail."""

from collections.abc import Sequence

import pytest
from support.devices.misbehaving import SampleDevice
from support.models.graphs import graph, model
from support.models.small import add_model

import neurald as nd
from neurald.hal.device import Capabilities, Performance, Verdict
from neurald.hal.errors import BadData, DeadObject
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import DeviceType, OperandType, Preference
from neurald.runtime.model.branches import MAIN
from neurald.runtime.partitioning.candidates import find_candidates
from neurald.runtime.partitioning.options import PartitioningMode

ADD, MUL, IF = OperationType.ADD, OperationType.MUL, OperationType.IF
CPU = nd.devices()[0]


class Recorder(SampleDevice):
    """Records what it was asked about."""

    def __init__(self, name: str = "recorder") -> None:
        super().__init__(name)
        self.asked: list[Model] = []

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        self.asked.append(model)
        return super().supported_operations(model)


def flow() -> Model:
    """Builds an IF of two graphs, with the operand types that ADD and MUL need for their feature
    levels.
    """
    types = {"none": OperandType.INT32, "c": OperandType.TENSOR_BOOL8}
    shapes = {"none": (), "c": (1,)}
    inner = [
        graph("v none", [(kind, "v v none", "w")], "w", types=types, dimensions=shapes) for kind in (ADD, MUL)
    ]
    lines = [(IF, "c @1 @2 x none", "y")]
    return model("c x none", lines, "y", referenced=inner, types=types, dimensions=shapes)


def test_candidates_come_in_the_order_of_the_devices() -> None:
    found = find_candidates(add_model(), [SampleDevice("a"), CPU, SampleDevice("b")])
    assert [(c.name, c.is_cpu) for c in found] == [("a", False), ("cpu", True), ("b", False)]
    assert all(c.verdicts.keys() == {MAIN} for c in found)


def test_devices_are_asked_about_branches_as_models_of_their_own() -> None:
    device, subject = Recorder(), flow()
    found = find_candidates(subject, [CPU, device])
    assert found[1].verdicts.keys() == {MAIN, 1, 2}
    assert {id(asked.main) for asked in device.asked} == {id(subject.main), *map(id, subject.referenced)}
    assert all(asked.referenced is subject.referenced for asked in device.asked)


def test_devices_are_not_asked_about_branches_without_the_cpu_device() -> None:
    device = Recorder()
    (found,) = find_candidates(flow(), [device])
    assert len(device.asked) == 1
    assert found.unsupported_reason((1, 0)) == "it was not asked about graph 1"


def test_graphs_that_are_never_interpreted_are_not_asked_about() -> None:
    subject = flow()
    types = {"none": OperandType.INT32, "c": OperandType.TENSOR_BOOL8}
    shapes = {"none": (), "c": (1,), "x": (0, 3)}
    main = graph("c x none", [(IF, "c @1 @2 x none", "y")], "y", types=types, dimensions=shapes)
    device = Recorder()
    find_candidates(Model(main=main, referenced=subject.referenced), [CPU, device])
    assert len(device.asked) == 1


def test_with_mode_none_no_driver_is_asked() -> None:
    device = Recorder()

    class Loud(Recorder):
        def capabilities(self) -> Capabilities:
            raise AssertionError("it was asked")

    loud = Loud("loud")
    found = find_candidates(add_model(), [device, CPU, loud], PartitioningMode.NONE)
    assert device.asked == loud.asked == []
    assert [c.name for c in found] == ["recorder", "cpu", "loud"]
    assert found[0].unsupported_reason((MAIN, 0)) == "not asked, because partitioning is off"
    assert not found[1].unsupported_reason((MAIN, 0))
    (alone,) = find_candidates(add_model(), [device], PartitioningMode.NONE)
    assert device.asked == []
    assert alone.unsupported_reason((MAIN, 0))


def test_the_cpu_device_is_that_of_this_process_if_it_is_listed() -> None:
    class Remote(SampleDevice):
        type = DeviceType.CPU

    found = find_candidates(add_model(), [Remote("first"), CPU, Remote("second")])
    assert [c.is_cpu for c in found] == [False, True, False]
    found = find_candidates(add_model(), [SampleDevice("a"), Remote("first"), Remote("second")])
    assert [c.is_cpu for c in found] == [False, True, False]


def test_a_device_that_fails_supports_nothing() -> None:
    class Dead(SampleDevice):
        def supported_operations(self, model: Model) -> Sequence[Verdict]:
            raise DeadObject("gone")

    class Mute(SampleDevice):
        def capabilities(self) -> Capabilities:
            raise DeadObject("gone")

    dead, mute = find_candidates(add_model(), [Dead("dead"), Mute("mute")])
    assert dead.unsupported_reason((MAIN, 0)) == "gone"
    assert mute.unsupported_reason((MAIN, 0)) == "its capabilities are unknown: gone"


def test_a_device_alone_is_not_asked_how_fast_it_is() -> None:
    """Some devices have to measure that."""

    class Mute(SampleDevice):
        def capabilities(self) -> Capabilities:
            raise DeadObject("gone")

    (alone,) = find_candidates(add_model(), [Mute("alone")])
    assert not alone.unsupported_reason((MAIN, 0))


def test_an_old_device_is_asked_about_operations_of_its_level() -> None:
    device = SampleDevice("old")
    device.feature_level = nd.FeatureLevel.LEVEL_1
    _, old = find_candidates(flow(), [CPU, device])
    assert old.unsupported_reason((MAIN, 0)) == "newer than its feature level, LEVEL_1"
    # The branches of an interpreted IF are not too new for the device.
    assert not old.unsupported_reason((1, 0))
    assert not old.unsupported_reason((2, 0))


def test_wrong_lists() -> None:
    with pytest.raises(BadData, match="empty"):
        find_candidates(add_model(), [])
    with pytest.raises(BadData, match="listed 2 times"):
        find_candidates(add_model(), [SampleDevice("a"), SampleDevice("a")])
    with pytest.raises(BadData, match="half of a surrogate pair"):
        find_candidates(add_model(), [SampleDevice("\ud800")])


class Sleeping(Recorder):
    """A device whose driver does not run, with figures relative to the CPU device."""

    is_started = False

    def __init__(self, time: float, power: float = 2.0) -> None:
        super().__init__("sleeping")
        figure = Performance(exec_time=time, power_usage=power)
        self._known = Capabilities(
            operand_performance=dict.fromkeys(OperandType, figure),
            relaxed_float32_scalar=figure,
            relaxed_float32_tensor=figure,
            if_performance=figure,
            while_performance=figure,
        )

    def capabilities(self) -> Capabilities:
        return self._known


def test_a_driver_that_could_win_nothing_is_left_alone() -> None:
    slow, fast = Sleeping(1.0), Sleeping(0.5)
    (found, _) = find_candidates(add_model(), [slow, CPU], spares=Preference.FAST_SINGLE_ANSWER)
    assert not slow.asked
    assert "the CPU device is at least as fast" in found.unsupported_reason((MAIN, 0))
    (found, _) = find_candidates(add_model(), [fast, CPU], spares=Preference.FAST_SINGLE_ANSWER)
    assert fast.asked
    assert not found.unsupported_reason((MAIN, 0))
    thirsty = Sleeping(0.5, power=1.5)
    find_candidates(add_model(), [thirsty, CPU], spares=Preference.LOW_POWER)
    assert not thirsty.asked
    # Branches count, too.
    device = Sleeping(0.5)
    find_candidates(flow(), [device, CPU], spares=Preference.FAST_SINGLE_ANSWER)
    assert len(device.asked) == 3


def test_all_are_started_that_the_application_or_the_model_needs() -> None:
    listed, only = Sleeping(2.0), Sleeping(2.0)
    find_candidates(add_model(), [listed, CPU])
    find_candidates(add_model(), [only], spares=Preference.FAST_SINGLE_ANSWER)
    assert listed.asked
    assert only.asked
    # What the CPU device cannot run may run elsewhere.
    unable = SampleDevice("cpu", supports=lambda kind: kind is not ADD)
    unable.type = DeviceType.CPU
    device = Sleeping(2.0)
    find_candidates(add_model(), [unable, device], spares=Preference.FAST_SINGLE_ANSWER)
    assert device.asked
