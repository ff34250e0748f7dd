"""Attributes of extensions, set by applications, on the sample driver in this process and in a
daemon.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.daemon.processes import running_daemon
from support.models.plans import cpu
from support.models.small import add_model
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.sample.config import ALL
from neurald.drivers.sample.device import SampleDevice, create_all
from neurald.drivers.sample.extension import EXTENSION, GRAY_TO_PIXELS, ORIENTATION, ROUNDING, TENSOR_PIXELS
from neurald.hal.device import PrepareOptions
from neurald.hal.errors import BadData, BadState, UnexpectedNull
from neurald.hal.model.extension_attribute import AttributeValue
from neurald.hal.records import replace
from neurald.runtime.cache_warming import warm

NAME = "org.neurald.sample"
SHAPE = (2, 3)
GRAY = np.array([[1.75, 2.25, 3.0], [4.75, 5.5, 6.0]], np.float32)
NEAREST = [[2, 2, 3], [5, 6, 6]]
DOWN = [[1, 2, 3], [4, 5, 6]]
Array = np.ndarray[Any, np.dtype[Any]]


@pytest.fixture(params=["in process", "daemon"])
def vendor(request: pytest.FixtureRequest) -> Iterator[nd.Device]:
    if request.param == "daemon":
        with running_daemon("sample-all") as address:
            yield nd.connect(address)
    else:
        yield create_all()


def picture_model(device: nd.Device) -> nd.Model:
    """Builds a model that converts gray values to pictures."""
    builder = nd.ModelBuilder([device])
    gray = builder.add_operand(nd.OperandType.TENSOR_FLOAT32, SHAPE)
    picture = builder.add_operand(TENSOR_PIXELS, SHAPE)
    builder.add_operation(GRAY_TO_PIXELS, [gray], [picture])
    builder.identify_inputs_and_outputs([gray], [picture])
    return builder.finish()


def builder_for(device: nd.Device, rounding: bytes | None = None) -> nd.CompilationBuilder:
    builder = nd.CompilationBuilder(picture_model(device), [device])
    builder.set_caching(None)
    if rounding is not None:
        builder.add_extension_attribute(NAME, ROUNDING, rounding)
    return builder


def execution_of(
    compilation: nd.Compilation, orientation: bytes | None = None, *, reusable: bool = False
) -> tuple[nd.Execution, Array]:
    execution = nd.Execution(compilation, reusable=reusable)
    output = np.zeros(SHAPE, "V3")
    execution.set_input(0, GRAY)
    execution.set_output(0, output)
    if orientation is not None:
        execution.add_extension_attribute(NAME, ORIENTATION, orientation)
    return execution, output


def values(picture: Array) -> Any:
    channels = picture.view(np.uint8).reshape(*SHAPE, 3)
    assert (channels == channels[..., :1]).all()
    return channels[..., 0].tolist()


def test_a_device_sees_the_attributes_of_a_compilation(vendor: nd.Device) -> None:
    for rounding, expected in ((None, NEAREST), (b"nearest", NEAREST), (b"down", DOWN)):
        (picture,) = builder_for(vendor, rounding).finish().run(GRAY)
        assert values(picture) == expected


def compute(execution: nd.Execution, compilation: nd.Compilation) -> None:
    execution.compute()


def compute_in_burst(execution: nd.Execution, compilation: nd.Compilation) -> None:
    with compilation.create_burst() as burst:
        execution.compute(burst=burst)


def compute_apart(execution: nd.Execution, compilation: nd.Compilation) -> None:
    execution.start_compute().wait()


def compute_fenced(execution: nd.Execution, compilation: nd.Compilation) -> None:
    execution.start_compute_with_dependencies().wait()


WAYS = (compute, compute_in_burst, compute_apart, compute_fenced)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", WAYS)
def test_a_device_sees_the_attributes_of_an_execution(
    vendor: nd.Device, way: Callable[[nd.Execution, nd.Compilation], None]
) -> None:
    """The device sees them in each computation of that execution, and in no other execution."""
    compilation = builder_for(vendor, b"down").finish()
    flipped, first = execution_of(compilation, b"flipped", reusable=True)
    plain, second = execution_of(compilation, reusable=True)
    for _ in range(3):
        first[:], second[:] = bytes(3), bytes(3)
        way(flipped, compilation)
        way(plain, compilation)
        assert values(first) == DOWN[::-1]
        assert values(second) == DOWN


def test_one_burst_takes_executions_with_attributes_and_without(vendor: nd.Device) -> None:
    compilation = builder_for(vendor).finish()
    flipped, first = execution_of(compilation, b"flipped", reusable=True)
    plain, second = execution_of(compilation, reusable=True)
    with compilation.create_burst() as burst:
        for _ in range(3):
            first[:], second[:] = bytes(3), bytes(3)
            plain.compute(burst=burst)
            flipped.compute(burst=burst)
            assert (values(first), values(second)) == (NEAREST[::-1], NEAREST)


def test_a_device_refuses_values_that_mean_nothing(vendor: nd.Device) -> None:
    with pytest.raises(BadData, match=r"ROUNDING of org\.neurald\.sample is b'up'; expected nearest or down"):
        builder_for(vendor, b"up").finish()
    compilation = builder_for(vendor).finish()
    execution, picture = execution_of(compilation, b"")
    with pytest.raises(
        BadData, match=r"ORIENTATION of org\.neurald\.sample is b''; expected upright or flipped"
    ):
        execution.compute()
    assert not picture.view(np.uint8).any()
    execution, picture = execution_of(compilation)
    execution.compute()
    assert values(picture) == NEAREST


WRONG: tuple[tuple[Any, Any, Any, str], ...] = (
    (NAME, 1, b"down", r"has no {use} attribute 1; it has 0 .{name}."),
    (NAME, -1, b"down", "has no {use} attribute -1"),
    (NAME, "0", b"down", "the code of the attribute is '0'; an integer is expected"),
    (NAME, 0, "down", "the value of the attribute is 'down'; bytes are expected"),
    (NAME, 0, bytes(1 << 17), "have 131072 bytes; at most 65536"),
    ("com.nobody.here", 0, b"", "com.nobody.here: no device lists it; the devices are .*sample-all"),
    ("neurald.tflite", 0, b"", "part of neurald"),
    ("Com.vendor", 0, b"", "a name like com.vendor.name is expected"),
    (None, 0, b"", "a name like com.vendor.name is expected"),
)


@sweep(("name", "code", "value", "words"), WRONG)
def test_attributes_that_are_refused_change_nothing(name: Any, code: Any, value: Any, words: str) -> None:
    device = create_all()
    builder = builder_for(device)
    with pytest.raises(BadData, match=words.format(use="compilation", name="ROUNDING")):
        builder.add_extension_attribute(name, code, value)
    builder.add_extension_attribute(NAME, ROUNDING, b"down")
    compilation = builder.finish()
    execution, picture = execution_of(compilation)
    with pytest.raises(BadData, match=words.format(use="execution", name="ORIENTATION")):
        execution.add_extension_attribute(name, code, value)
    execution.add_extension_attribute(NAME, ORIENTATION, b"flipped")
    execution.compute()
    assert values(picture) == DOWN[::-1]


def test_each_attribute_is_given_once() -> None:
    device = create_all()
    builder = builder_for(device, b"down")
    with pytest.raises(
        BadData, match=r"the compilation has a value for attribute 0 of org.neurald.sample al"
    ):
        builder.add_extension_attribute(NAME, ROUNDING, b"nearest")
    with pytest.raises(UnexpectedNull, match="None"):
        builder.add_extension_attribute(NAME, ROUNDING, None)  # type: ignore[arg-type]
    compilation = builder.finish()
    execution, picture = execution_of(compilation, b"flipped")
    with pytest.raises(BadData, match="the execution has a value for attribute 0"):
        execution.add_extension_attribute(NAME, ORIENTATION, b"upright")
    execution.compute()
    assert values(picture) == DOWN[::-1]


def test_a_compilation_takes_them_before_it_is_finished(vendor: nd.Device) -> None:
    builder = builder_for(vendor)
    builder.finish()
    with pytest.raises(BadState, match="the builder has finished its compilation"):
        builder.add_extension_attribute(NAME, ROUNDING, b"down")


def test_an_execution_takes_them_before_it_starts(vendor: nd.Device) -> None:
    compilation = builder_for(vendor).finish()
    for reusable in (False, True):
        execution, _ = execution_of(compilation, reusable=reusable)
        execution.compute()
        with pytest.raises(BadState, match="the execution has started"):
            execution.add_extension_attribute(NAME, ORIENTATION, b"flipped")


def test_they_need_exactly_one_device_that_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    vendor = create_all()
    monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: (cpu(), vendor))
    model = picture_model(vendor)
    for devices, count in ((None, "none is"), ([vendor, cpu()], "2 are")):
        builder = nd.CompilationBuilder(model, devices)
        builder.set_caching(None)
        words = f"needs exactly one device in the list; {count} listed"
        with pytest.raises(BadData, match=words):
            builder.add_extension_attribute(NAME, ROUNDING, b"down")
        compilation = builder.finish()
        execution, picture = execution_of(compilation)
        with pytest.raises(BadData, match=words):
            execution.add_extension_attribute(NAME, ORIENTATION, b"flipped")
        execution.compute()
        # As on Android, this is checked before the state.
        with pytest.raises(BadData, match=words):
            execution.add_extension_attribute(NAME, ORIENTATION, b"flipped")
        assert values(picture) == NEAREST


def test_a_device_without_the_extension_refuses_them() -> None:
    builder = nd.CompilationBuilder(add_model((2,)), [cpu()])
    builder.set_caching(None)
    words = f"extension {NAME}: no device lists it; the devices are cpu"
    with pytest.raises(BadData, match=words):
        builder.add_extension_attribute(NAME, ROUNDING, b"down")
    with pytest.raises(BadData, match=words):
        nd.Execution(builder.finish()).add_extension_attribute(NAME, ORIENTATION, b"flipped")
    listing = SampleDevice(ALL)
    listing.declared_extensions = ()
    with pytest.raises(BadData, match="sample-all lists it without a declaration"):
        builder_for(listing).add_extension_attribute(NAME, ROUNDING, b"down")


def test_caches_tell_values_apart(vendor: nd.Device, tmp_path: Path) -> None:
    def outcome(rounding: bytes | None) -> tuple[str, Any]:
        builder = builder_for(vendor, rounding)
        builder.set_caching(tmp_path, bytes(32))
        compilation = builder.finish()
        (report,) = compilation.report.steps
        return report.cache.value, values(compilation.run(GRAY)[0])

    assert outcome(None) == ("miss", NEAREST)
    assert outcome(b"down") == ("miss", DOWN)
    assert outcome(b"nearest") == ("miss", NEAREST)
    for rounding, expected in ((None, NEAREST), (b"down", DOWN), (b"nearest", NEAREST)):
        assert outcome(rounding) == ("hit", expected)


def test_caches_are_warmed_with_values(tmp_path: Path) -> None:
    device = create_all()
    warm(
        picture_model(device),
        [device],
        directory=tmp_path,
        token=bytes(32),
        attributes=[(NAME, ROUNDING, b"down")],
    )
    builder = builder_for(device, b"down")
    builder.set_caching(tmp_path, bytes(32))
    assert [step.cache.value for step in builder.finish().report.steps] == ["hit"]


def test_a_daemon_that_declares_the_extension_differently_refuses_them() -> None:
    """A daemon ignores the declaration of an application that got it from another device."""
    other = replace(EXTENSION, compilation_attributes=())
    with running_daemon("sample-all") as address:
        device = nd.connect(address)
        model = picture_model(device)
        wrong = AttributeValue(extension=other, code=0, value=b"down")
        with pytest.raises(BadData, match="the device declares differently"):
            device.prepare_model(model, PrepareOptions(attributes=(wrong,)))
        unknown = AttributeValue(extension=EXTENSION, code=5, value=b"down")
        with pytest.raises(BadData, match="has no compilation attribute 5"):
            device.prepare_model(model, PrepareOptions(attributes=(unknown,)))
