"""Lists of devices: objects, names, and what is neither."""

from typing import Any

import pytest
from support.models.small import add_model
from support.sweeps import sweep

import neurald as nd
from neurald.runtime.devices.named_devices import chosen_devices


def test_names_stand_for_devices_that_are_there() -> None:
    reference = nd.open_device("reference")
    (cpu,) = chosen_devices(["cpu"])
    assert cpu is nd.devices()[0]
    assert chosen_devices((reference, "cpu")) == (reference, cpu)


def test_all_calls_that_take_devices_take_names() -> None:
    model = add_model()
    compilation = nd.CompilationBuilder(model, devices=["cpu"]).finish()
    assert [step.device.name for step in compilation.plan.steps] == ["cpu"]
    assert compilation.has_explicit_devices
    assert nd.supported_operations(model, ["cpu"])["cpu"][0].ok
    assert [step.device for step in nd.warm(model, ["cpu"])] == ["cpu"]


@sweep(
    ("devices", "kind", "words"),
    [
        ("cpu", nd.WrongType, "the devices are 'cpu'; a list of devices is expected"),
        (3, nd.WrongType, "a list of devices is expected"),
        ([], nd.BadData, "the list of devices is empty"),
        ([3], nd.WrongType, "3 is not a device"),
        (["cpu", "cpu"], nd.BadData, "device cpu is listed 2 times"),
        (["none"], nd.UnavailableDevice, "there is no device 'none'; there are: cpu"),
        (["reference"], nd.UnavailableDevice, "reference is a driver: .*open_device"),
    ],
)
def test_what_is_no_list_of_devices(devices: Any, kind: type[nd.Error], words: str) -> None:
    for call in (nd.CompilationBuilder, nd.supported_operations):
        with pytest.raises(kind, match=words):
            call(add_model(), devices)
