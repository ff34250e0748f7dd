"""Messages in a pool of their own."""

import subprocess
import sys

import pytest
from support.daemon.processes import python_path

from neurald.service.inference.protocol.messages import ModelConfig, ModelInferRequest, as_json, message_type

triton = pytest.importorskip("tritonclient.grpc", reason="the group test is not installed")
from tritonclient.grpc import model_config_pb2, service_pb2  # noqa: E402 - optional


@pytest.mark.parametrize(
    "order",
    [
        "import neurald.service.inference.protocol.messages, tritonclient.grpc",
        "import tritonclient.grpc, neurald.service.inference.protocol.messages",
    ],
)
def test_messages_coexist_with_those_of_clients(order: str) -> None:
    subprocess.run([sys.executable, "-c", order], check=True, env={"PYTHONPATH": python_path()})


def test_every_field_has_the_number_and_type_of_the_clients() -> None:
    """Compares all messages with those of tritonclient, which may have more."""
    compared = 0
    for theirs in (service_pb2, model_config_pb2):
        waiting = [
            (message_type(name).DESCRIPTOR, descriptor)
            for name, descriptor in theirs.DESCRIPTOR.message_types_by_name.items()
            if name in ModelInferRequest.DESCRIPTOR.file.message_types_by_name
        ]
        while waiting:
            ours, other = waiting.pop()
            for field in ours.fields:
                same = other.fields_by_name[field.name]
                assert (field.number, field.type, field.is_repeated) == (
                    same.number,
                    same.type,
                    same.is_repeated,
                ), field.full_name
                if field.enum_type is not None:
                    values = {each.name: each.number for each in field.enum_type.values}
                    assert (
                        values.items() <= {each.name: each.number for each in same.enum_type.values}.items()
                    )
                compared += 1
            waiting += [(each, other.nested_types_by_name[each.name]) for each in ours.nested_types]
    assert compared > 150


def test_json_has_all_fields_and_numbers() -> None:
    config = ModelConfig(name="a", max_batch_size=2)
    config.input.add(name="x", data_type=11, dims=[1, 2])
    config.parameters["k"].string_value = "v"
    document = as_json(config)
    assert document["input"] == [
        {"name": "x", "data_type": "TYPE_FP32", "format": "FORMAT_NONE", "dims": [1, 2], "optional": False}
    ]
    assert document["parameters"] == {"k": {"string_value": "v"}}
    assert document["output"] == []
    assert "dynamic_batching" not in document
