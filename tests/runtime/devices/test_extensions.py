"""Vendor extensions used by applications: names, types, refusal, conflicts, plans, daemons and
caches.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.daemon.processes import daemon_process, running_daemon
from support.devices.misbehaving import SampleDevice
from support.models.plans import cpu

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.sample.config import ALL
from neurald.drivers.sample.device import SampleDevice as Driver
from neurald.drivers.sample.device import create_all, create_float_fast
from neurald.drivers.sample.extension import EXTENSION
from neurald.hal.device import Performance, PrepareOptions, Verdict
from neurald.hal.errors import BadData, DeadObject, OpFailed
from neurald.hal.model.extension import Extension, ExtensionOperandType, ExtensionOperation
from neurald.hal.model.types import FeatureLevel
from neurald.hal.records import replace

NAME = "org.neurald.sample"
FLOAT = nd.OperandType.TENSOR_FLOAT32
Array = np.ndarray[Any, np.dtype[Any]]

WEIGHTS = np.array([0.5, 0.25, 0.25], np.float32)
IMAGE = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) * 10


@pytest.fixture(params=["in process", "daemon"])
def vendor(request: pytest.FixtureRequest) -> Iterator[nd.Device]:
    if request.param == "daemon":
        with running_daemon("sample-all") as address:
            yield nd.connect(address)
    else:
        yield create_all()


def gray_model(
    devices: Sequence[nd.Device] | None, shape: Sequence[int] = (2, 3), data: bytes = b""
) -> nd.Model:
    """Builds pixels -> gray -> FLOOR -> pixels, with the operations added last to first."""
    builder = nd.ModelBuilder(devices)
    pixels = builder.extension_operand_type(NAME, 0)
    weights = builder.add_operand(builder.extension_operand_type(NAME, 1))
    builder.set_operand_value(weights, WEIGHTS.view("V12")[0])
    source = builder.add_operand(pixels, shape, name="picture")
    gray, whole = (builder.add_operand(FLOAT, shape) for _ in range(2))
    result = builder.add_operand(pixels, shape)
    if data:
        builder.set_operand_extension_data(source, data)
    builder.add_operation(builder.extension_operation_type(NAME, 1), [whole], [result])
    builder.add_operation(nd.OperationType.FLOOR, [gray], [whole])
    builder.add_operation(builder.extension_operation_type(NAME, 0), [source, weights], [gray])
    builder.identify_inputs_and_outputs(
        [source],
        [
            result,
        ],
    )
    return builder.finish()


def expected(image: Array) -> Array:
    gray = np.floor(image.astype(np.float32) @ WEIGHTS)
    return np.repeat(gray.astype(np.uint8)[..., None], 3, axis=-1)


def pixels(image: Array) -> Array:
    return np.ascontiguousarray(image).view("V3")[..., 0]


def channels(array: Array) -> Array:
    return array.view(np.uint8).reshape(*array.shape, 3)


def compiled(model: nd.Model, devices: Sequence[nd.Device], cache: Path | None = None) -> nd.Compilation:
    builder = nd.CompilationBuilder(model, devices)
    if cache is None:
        builder.set_caching(None)
    else:
        builder.set_caching(cache, bytes(32))
    return builder.finish()


def test_one_device_runs_all_of_it(vendor: nd.Device) -> None:
    compilation = compiled(gray_model([vendor]), [vendor])
    (result,) = compilation.run(pixels(IMAGE))
    np.testing.assert_array_equal(channels(result), expected(IMAGE))
    assert compilation.plan.is_simple


def test_extension_data_reach_the_device(vendor: nd.Device) -> None:
    compilation = compiled(gray_model([vendor], data=b"bgr"), [vendor])
    (result,) = compilation.run(pixels(IMAGE))
    np.testing.assert_array_equal(channels(result), expected(IMAGE[..., ::-1]))
    assert any(expected(IMAGE[..., ::-1]).ravel() != expected(IMAGE).ravel())


def test_other_operations_go_to_the_cpu_device(vendor: nd.Device) -> None:
    """The vendor's device takes the vendor's types; other operations go to the CPU device."""
    builder = nd.CompilationBuilder(gray_model([vendor]), [cpu(), vendor])
    builder.set_partitioning(nd.Partitioning(overrides=(nd.pin("cpu", [1]),)))
    compilation = builder.finish()
    assert [step.device.name for step in compilation.plan.steps] == [vendor.name, "cpu", vendor.name]
    assert [step.operations for step in compilation.plan.steps] == [(2,), (1,), (0,)]
    (result,) = compilation.run(pixels(IMAGE))
    np.testing.assert_array_equal(channels(result), expected(IMAGE))
    told = compilation.explain()
    assert told.operations[0].type == f"{NAME}.GRAY_TO_PIXELS"
    assert "does not list the extension org.neurald.sample" in told.operations[0].rejected[0].reason
    assert f"operation 2 {NAME}.PIXELS_TO_GRAY -> {vendor.name}" in told.text()
    assert f"{NAME}.TENSOR_PIXELS" in str(told.to_json())
    assert NAME in told.to_html()
    assert {n for profile in compilation.profile() for n in profile.operations} == {0, 1, 2}


def test_open_shapes_bursts_fences_and_reuse(vendor: nd.Device) -> None:
    compilation = compiled(gray_model([vendor], (0, 3)), [vendor])
    for rows in (1, 2):
        (result,) = compilation.run(pixels(IMAGE[:rows]))
        np.testing.assert_array_equal(channels(result), expected(IMAGE[:rows]))
    compilation = compiled(gray_model([vendor]), [vendor])
    for _ in range(2):
        with compilation.create_burst() as burst:
            execution = nd.Execution(compilation)
            execution.set_input(0, pixels(IMAGE))
            output = np.zeros((2, 3), "V3")
            execution.set_output(0, output)
            execution.compute(burst=burst)
            np.testing.assert_array_equal(channels(output), expected(IMAGE))
    execution = nd.Execution(compilation)
    execution.set_reusable(True)
    source = np.zeros((2, 3), [("r", "u1"), ("g", "u1"), ("b", "u1")])
    output = np.zeros((2, 3), "V3")
    execution.set_input(0, source)
    execution.set_output(0, output)
    for image in (IMAGE, IMAGE + 1):
        source.view(np.uint8).reshape(2, 3, 3)[:] = image
        execution.compute()
        np.testing.assert_array_equal(channels(output), expected(image))
    with pytest.raises(BadData, match="V3"):
        nd.Execution(compilation).set_input(0, np.zeros((2, 3), np.uint8))


def test_branches_with_vendors_types(vendor: nd.Device) -> None:
    def graph(weight: float) -> nd.Model:
        builder = nd.ModelBuilder([vendor])
        weights = builder.add_operand(builder.extension_operand_type(NAME, 1))
        builder.set_operand_value(weights, np.full(3, weight, np.float32).view("V12")[0])
        source = builder.add_operand(builder.extension_operand_type(NAME, 0), (2, 3))
        result = builder.add_operand(FLOAT, (2, 3))
        builder.add_operation(builder.extension_operation_type(NAME, 0), [source, weights], [result])
        builder.identify_inputs_and_outputs([source], [result])
        return builder.finish()

    builder = nd.ModelBuilder([vendor])
    condition = builder.add_operand(nd.OperandType.TENSOR_BOOL8, (1,))
    then, otherwise = (builder.add_operand(nd.OperandType.MODEL) for _ in range(2))
    builder.set_operand_value_from_model(then, graph(0.25))
    builder.set_operand_value_from_model(otherwise, graph(0.0))
    source = builder.add_operand(builder.extension_operand_type(NAME, 0), (2, 3))
    result = builder.add_operand(FLOAT, (2, 3))
    builder.add_operation(nd.OperationType.IF, [condition, then, otherwise, source], [result])
    builder.identify_inputs_and_outputs([condition, source], [result])
    model = builder.finish()
    for devices in ([vendor], [cpu(), vendor]):
        compilation = compiled(model, devices)
        for value in (True, False):
            (gray,) = compilation.run(np.array([value]), pixels(IMAGE))
            np.testing.assert_array_equal(gray, IMAGE.sum(-1) * value / 4)
    (verdict,) = nd.supported_operations(model, [cpu()])["cpu"]
    assert not verdict.ok
    assert NAME in verdict.reason
    with pytest.raises(BadData, match=NAME):
        CpuDevice().prepare_model(model, PrepareOptions())


def test_no_device_supports_the_operation() -> None:
    model = gray_model([create_all()])
    with pytest.raises(BadData, match=rf"no device can run operation \d {NAME}\..*cpu: it does not list"):
        compiled(model, [cpu()])
    with pytest.raises(BadData, match="no device can run"):
        nd.CompilationBuilder(model).finish()


class Recorder(SampleDevice):
    """Supports every operation, and records what it was asked about."""

    def __init__(self, name: str, extensions: tuple[str, ...] = ()) -> None:
        super().__init__(name)
        self.extensions = extensions
        self.asked: list[nd.Model] = []

    def supported_operations(self, model: nd.Model) -> Sequence[Verdict]:
        self.asked.append(model)
        return [Verdict(ok=True)] * len(model.main.operations)


def tflite_model() -> nd.Model:
    builder = nd.ModelBuilder()
    x, y, z = (builder.add_operand(FLOAT, (2,)) for _ in range(3))
    builder.add_operation(nd.OperationType.TFLITE_FLOOR, [x], [y])
    builder.add_operation(nd.OperationType.FLOOR, [y], [z])
    builder.identify_inputs_and_outputs([x], [z])
    return builder.finish()


def test_a_device_is_never_asked_about_extensions_that_it_does_not_list() -> None:
    plain, all_listed = Recorder("plain"), Recorder("all", ("neurald.tflite", NAME))
    for model, ok in ((tflite_model(), [False, True]), (gray_model([create_all()]), [False, True, False])):
        verdicts = nd.supported_operations(model, [plain])["plain"]
        assert [verdict.ok for verdict in verdicts] == ok
        assert "it does not list the extension" in verdicts[0].reason
        assert [each.type.name for each in plain.asked[-1].main.operations] == ["FLOOR"]
        assert not plain.asked[-1].referenced
    assert all(v.ok for v in nd.supported_operations(tflite_model(), [all_listed])["all"])
    with pytest.raises(BadData, match=r"does not list the extension neurald\.tflite"):
        compiled(tflite_model(), [plain])


def test_shipped_devices_list_what_they_take() -> None:
    for device in (cpu(), create_all(), create_float_fast()):
        assert "neurald.tflite" in device.extensions
    assert NAME in create_all().extensions
    assert NAME not in create_float_fast().extensions


def test_a_daemon_refuses_extensions_that_its_device_does_not_list() -> None:
    with running_daemon("sample-float-fast") as address:
        device = nd.connect(address)
        model = gray_model([create_all()])
        with pytest.raises(BadData, match=f"extension {NAME} is not known here"):
            device.supported_operations(model)
        with pytest.raises(BadData, match=f"extension {NAME} is not known here"):
            device.prepare_model(model, PrepareOptions())
        assert not nd.supported_operations(model, [device])[device.name][0].ok


def test_a_daemon_refuses_operations_of_this_package_that_its_device_does_not_list() -> None:
    with running_daemon("support.devices.vendors:create_without_tflite") as address:
        device = nd.connect(address)
        with pytest.raises(
            BadData, match=r"operation 0 TFLITE_FLOOR: .*does not list the extension neurald\.tflite"
        ):
            device.supported_operations(tflite_model())
        with pytest.raises(BadData, match=r"does not list the extension neurald\.tflite"):
            device.prepare_model(tflite_model(), PrepareOptions())


def other_declaration(**changes: Any) -> Extension:
    return replace(EXTENSION, **changes)


def declaring(name: str, *extensions: Extension) -> SampleDevice:
    device = SampleDevice(name)
    device.declared_extensions = extensions
    device.extensions = (*device.extensions, *(extension.name for extension in extensions))
    return device


def test_different_declarations_disable_an_extension() -> None:
    wide = ExtensionOperandType(code=0, name="TENSOR_PIXELS", is_tensor=True, element_bytes=4)
    other = declaring("other", other_declaration(operand_types=(wide,)))
    ours = create_all()
    for method in ("extension_operation_type", "extension_operand_type"):
        with pytest.raises(BadData, match=f"{NAME} is disabled: sample-all and other declare the extension"):
            getattr(nd.ModelBuilder([ours, other]), method)(NAME, 0)
    model = gray_model([ours])
    verdicts = nd.supported_operations(model, [ours, other])
    for name in ("sample-all", "other"):
        assert [verdict.ok for verdict in verdicts[name]] == [False, True, False]
        assert "is disabled: sample-all and other declare" in verdicts[name][0].reason
    with pytest.raises(BadData, match="is disabled"):
        compiled(model, [ours, other])
    verdicts = nd.supported_operations(model, [other])
    assert "declares the extension org.neurald.sample differently" in verdicts["other"][0].reason
    # Each of them works alone and together with other devices.
    assert all(v.ok for v in nd.supported_operations(model, [ours, cpu()])["sample-all"])
    again = declaring("again", other_declaration(operations=EXTENSION.operations[::-1]))
    assert nd.supported_operations(model, [ours, again])["sample-all"][0].ok


def test_types_are_found_by_name_and_code() -> None:
    builder = nd.ModelBuilder([cpu(), create_all()])
    kind = builder.extension_operation_type(NAME, 1)
    assert kind is nd.OperationType(int(kind))
    assert kind.name == f"{NAME}.GRAY_TO_PIXELS"
    assert builder.extension_operand_type(NAME, 0).dtype == np.dtype("V3")
    assert not builder.extension_operand_type(NAME, 1).is_tensor
    wrong = (
        ("com.nobody.here", 0, "no device lists it; the devices are cpu, sample-all"),
        (NAME, 7, "has no operation 7; it has 0 .PIXELS_TO_GRAY., 1"),
        (NAME, "0", "an integer is expected"),
        ("neurald.tflite", 0, "part of neurald"),
        ("Com.vendor", 0, "a name like com.vendor.name is expected"),
        ("vendor", 0, "a name like com.vendor.name is expected"),
        (None, 0, "a name like com.vendor.name is expected"),
    )
    for name, code, words in wrong:
        with pytest.raises(BadData, match=words):
            builder.extension_operation_type(name, code)  # type: ignore[arg-type]
    with pytest.raises(BadData, match="has no operand type 2"):
        builder.extension_operand_type(NAME, 2)
    listing = SampleDevice("listing")
    listing.extensions = (NAME,)
    with pytest.raises(BadData, match="listing lists it without a declaration"):
        nd.ModelBuilder([listing]).extension_operation_type(NAME, 0)


def test_all_devices_are_asked_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadData, match="no device lists it"):
        nd.ModelBuilder().extension_operation_type(NAME, 0)
    monkeypatch.setattr("neurald.runtime.model_builder.devices", lambda: (cpu(), create_all()))
    assert nd.ModelBuilder().extension_operation_type(NAME, 0).name == f"{NAME}.PIXELS_TO_GRAY"


def test_extension_data_are_for_vendors_types() -> None:
    builder = nd.ModelBuilder([create_all()])
    plain = builder.add_operand(FLOAT, (2,))
    vendors = builder.add_operand(builder.extension_operand_type(NAME, 0), (2, 2), scale=0.5, zero_point=-7)
    with pytest.raises(BadData, match="TENSOR_FLOAT32 takes no extension data"):
        builder.set_operand_extension_data(plain, b"rgb")
    with pytest.raises(BadData, match="at most 1048576"):
        builder.set_operand_extension_data(vendors, bytes(1 << 21))
    with pytest.raises(BadData, match="bytes are expected"):
        builder.set_operand_extension_data(vendors, "rgb")  # type: ignore[arg-type]
    with pytest.raises(BadData, match="there is no operand 9"):
        builder.set_operand_extension_data(9, b"rgb")
    builder.set_operand_extension_data(vendors, b"bgr")
    builder.set_operand_extension_data(vendors, None)
    weights = builder.add_operand(builder.extension_operand_type(NAME, 1))
    with pytest.raises(BadData, match="12"):
        builder.set_operand_value(weights, np.zeros(2, np.float32))
    with pytest.raises(BadData, match="is a scalar"):
        builder.add_operand(builder.extension_operand_type(NAME, 1), (2,))
    gray = builder.add_operand(FLOAT, (2, 2))
    operation = builder.extension_operation_type(NAME, 0)
    with pytest.raises(BadData, match="has no outputs"):
        builder.add_operation(operation, [vendors], [])
    model = builder.add_operand(nd.OperandType.MODEL)
    with pytest.raises(BadData, match="takes no model"):
        builder.add_operation(operation, [model], [gray])
    with pytest.raises(BadData, match="TENSOR_PIXELS"):
        builder.add_operation(nd.OperationType.FLOOR, [vendors], [gray])
    builder.set_operand_value(weights, WEIGHTS.view("V12")[0])
    builder.add_operation(operation, [vendors, weights], [gray])
    builder.identify_inputs_and_outputs([vendors], [gray])
    builder.finish()
    with pytest.raises(nd.Error, match="the model is finished"):
        builder.set_operand_extension_data(vendors, b"")


def test_the_driver_refuses_operands_that_violate_its_signature(vendor: nd.Device) -> None:
    builder = nd.ModelBuilder([vendor])
    source = builder.add_operand(builder.extension_operand_type(NAME, 0), (2, 3))
    gray = builder.add_operand(FLOAT, (2, 3))
    builder.add_operation(builder.extension_operation_type(NAME, 0), [source], [gray])
    builder.identify_inputs_and_outputs([source], [gray])
    model = builder.finish()
    with pytest.raises(BadData, match="has 1 input and 1 output; 2 inputs"):
        compiled(model, [vendor])
    with pytest.raises(BadData, match="expected rgb or bgr"):
        compiled(gray_model([vendor], data=b"cmyk"), [vendor])


def test_older_devices_are_not_asked() -> None:
    old = Driver(ALL, feature_level=FeatureLevel.LEVEL_2)
    verdicts = nd.supported_operations(gray_model([old]), [old])["sample-all"]
    assert [verdict.ok for verdict in verdicts] == [False, True, False]
    assert "feature level" in verdicts[0].reason


def test_caches_tell_extensions_apart(vendor: nd.Device, tmp_path: Path) -> None:
    def reason(model: nd.Model) -> str:
        compilation = compiled(model, [vendor], tmp_path)
        np.testing.assert_array_equal(compilation.run(pixels(IMAGE))[0].shape, (2, 3))
        (report,) = compilation.report.steps
        return report.cache.value

    assert reason(gray_model([vendor])) == "miss"
    assert reason(gray_model([vendor])) == "hit"
    assert reason(gray_model([vendor], data=b"bgr")) == "miss"


def test_keys_do_not_depend_on_the_process() -> None:
    from neurald.hal.cache.key import key_parts

    extra = Extension(name="com.other.first", operations=(ExtensionOperation(code=0, name="A"),))
    extra.operation_type(0)
    model = gray_model([create_all()])
    known = key_parts(model, create_all(), PrepareOptions())
    moved = Extension(
        name="com.other.second", operations=EXTENSION.operations, operand_types=EXTENSION.operand_types
    )
    device = declaring("sample-all", moved)
    builder = nd.ModelBuilder([device])
    assert builder.extension_operation_type("com.other.second", 0) is not model.main.operations[0].type
    import subprocess
    import sys

    program = (
        "from neurald.hal.model.extension import *; "
        f"{'; '.join(f'Extension(name=chr(97) + chr(46) + {n!r}, operations=(ExtensionOperation(code=0, name=chr(65)),)).operation_type(0)' for n in ('x', 'y'))}; "
        "import sys; sys.path.insert(0, 'tests'); sys.path.insert(0, 'tests/runtime/devices'); "
        "from test_extensions import *; from neurald.hal.cache.key import key_parts; "
        "print(key_parts(gray_model([create_all()]), create_all(), PrepareOptions()).graphs)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == known.graphs


def test_the_cpu_cannot_take_over_vendor_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(Driver):
        def prepare_model(self, model: nd.Model, options: PrepareOptions) -> Any:
            raise OpFailed("out of order")

    failing = Failing(ALL)
    monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: (cpu(), failing))
    builder = nd.CompilationBuilder(gray_model([failing]))
    builder.set_caching(None)
    words = rf"out of order; cpu cannot take over: operation \d {NAME}.*does not list"
    with pytest.raises(OpFailed, match=words):
        builder.finish()


def test_executions_do_not_fall_back_if_the_cpu_cannot_take_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with daemon_process("sample-all") as (process, address):
        device = nd.connect(address)
        monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: (cpu(), device))
        compilation = nd.CompilationBuilder(gray_model([device])).finish()
        compilation.run(pixels(IMAGE))
        process.kill()
        process.wait()
        with pytest.raises(DeadObject, match="is gone"):
            compilation.run(pixels(IMAGE))


def test_capabilities_of_vendors_types(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_daemon("support.devices.vendors:create_measured") as address:
        found = nd.connect(address).capabilities().operand_performance
    kind = EXTENSION.operand_type(0)
    assert found[kind] == Performance(exec_time=0.25, power_usage=0.5)
