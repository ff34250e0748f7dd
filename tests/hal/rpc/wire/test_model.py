"""Conversion to messages and back: nothing is lost, and invalid messages are refused."""

import math
import random
import time
from collections.abc import Iterable
from enum import IntEnum

import numpy as np
import pytest
from support.models.addition import AddingDevice, addition
from support.sweeps import sweep

import neurald.hal.rpc.wire.device as wire_device
import neurald.hal.rpc.wire.model as wire
from neurald._proto import device_pb2, types_pb2
from neurald.hal.device import (
    CacheFilesNeeded,
    Capabilities,
    ExecuteOptions,
    ExecutionResult,
    OutputShape,
    Performance,
    PrepareOptions,
    Timing,
    Verdict,
)
from neurald.hal.errors import BadData, Error, ResourceExhaustedPersistent, ResultCode
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.graph import ChannelQuant, Location, Operand, Operation, Subgraph
from neurald.hal.model.model import Model, SignatureNames
from neurald.hal.model.operation_type import TFLITE_EXTENSION_BASE, OperationType
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import (
    DeviceType,
    Dimensions,
    FeatureLevel,
    Lifetime,
    OperandType,
    Preference,
    Priority,
)
from neurald.hal.records import replace
from neurald.hal.rpc.transport.status import parse
from neurald.hal.validation.model_rules import validate_model

pytestmark = pytest.mark.quick


@sweep(
    ("members", "message", "prefix"),
    [
        (ResultCode, types_pb2.ResultCode, "RESULT_CODE_"),
        (OperandType, types_pb2.OperandType, "OPERAND_TYPE_"),
        (Lifetime, types_pb2.Lifetime, "LIFETIME_"),
        (FeatureLevel, types_pb2.FeatureLevel, "FEATURE_LEVEL_"),
        (DeviceType, types_pb2.DeviceType, "DEVICE_TYPE_"),
        (Preference, types_pb2.Preference, "PREFERENCE_"),
        (Priority, types_pb2.Priority, "PRIORITY_"),
        (wire_device.DeviceStatus, device_pb2.DeviceStatus, "DEVICE_STATUS_"),
        (
            [code for code in OperationType if code < TFLITE_EXTENSION_BASE],
            types_pb2.OperationType,
            "OPERATION_TYPE_",
        ),
    ],
)
def test_enums_agree_with_those_of_the_contract(
    members: Iterable[IntEnum], message: type[types_pb2.ResultCode], prefix: str
) -> None:
    ours = {prefix + member.name: member.value for member in members}
    theirs = dict(message.items())
    if not any(value == 0 for value in ours.values()):
        assert theirs.pop(prefix + "UNSPECIFIED") == 0
    assert theirs == ours


# Models


def _dimensions(rng: random.Random) -> Dimensions:
    rank = rng.choice([None, 0, 1, 4, 8])
    return None if rank is None else tuple(rng.choice([0, 1, 7, 2**32 - 1]) for _ in range(rank))


def _operand(rng: random.Random) -> Operand:
    return Operand(
        type=rng.choice(list(OperandType)),
        dimensions=_dimensions(rng),
        scale=rng.choice([0.0, 0.1, 1e-300, math.inf]),
        zero_point=rng.choice([0, -(2**31), 2**31 - 1]),
        channel_quant=rng.choice([None, ChannelQuant(dimension=3, scales=(0.1, 1 / 3))]),
        lifetime=rng.choice(list(Lifetime)),
        value=rng.randbytes(rng.choice([0, 5])),
        location=rng.choice(
            [None, Location(pool=0, offset=0, length=0), Location(pool=7, offset=2**40, length=1)]
        ),
        subgraph=rng.choice([None, 0, 3]),
        name=rng.choice(["", "ein Name – 漢字"]),
        number=_number(rng),
        extension_data=rng.randbytes(rng.choice([0, 3])),
    )


def _number(rng: random.Random) -> int | None:
    return rng.choice([None, 0, 2**31 - 1])


def _graph(rng: random.Random) -> Subgraph:
    def indexes() -> tuple[int, ...]:
        return tuple(rng.randrange(2**32) for _ in range(rng.randrange(4)))

    return Subgraph(
        operands=tuple(_operand(rng) for _ in range(rng.randrange(6))),
        operations=tuple(
            Operation(
                type=rng.choice(list(OperationType)),
                inputs=indexes(),
                outputs=indexes(),
                number=_number(rng),
            )
            for _ in range(rng.randrange(5))
        ),
        inputs=indexes(),
        outputs=indexes(),
        number=rng.choice([0, 5]),
    )


@sweep("seed", range(30))
def test_a_model_survives_the_way(seed: int) -> None:
    rng = random.Random(seed)
    model = Model(
        main=_graph(rng),
        referenced=tuple(_graph(rng) for _ in range(rng.randrange(3))),
        relaxed=rng.random() < 0.5,
        input_names=("a", "b"),
        output_names=("",),
        signatures={
            "serving": SignatureNames(inputs=("x", "y"), outputs=()),
            "": SignatureNames(inputs=(), outputs=("z",)),
        },
    )
    pools = (HostMemory(b"123"),)
    message = parse(types_pb2.Model, wire.model_to_wire(model, [b"token"]).SerializeToString())
    back = wire.model_from_wire(message, pools)
    assert list(message.pools) == [b"token"]
    assert back.pools == pools
    for name in ("main", "referenced", "relaxed", "input_names", "output_names"):
        assert getattr(back, name) == getattr(model, name)
    assert dict(back.signatures) == dict(model.signatures)
    assert _numbers(back) == _numbers(model)


def _numbers(model: Model) -> list[tuple[int, list[int | None]]]:
    """Returns the numbers for messages, which do not count in comparisons of models."""
    return [
        (graph.number, [o.number for o in graph.operands] + [o.number for o in graph.operations])
        for graph in (model.main, *model.referenced)
    ]


def test_names_that_are_no_text_are_sent_all_the_same() -> None:
    operand = Operand(type=OperandType.INT32, name="a\udc80b")
    graph = Subgraph(operands=(operand,), operations=(), inputs=(), outputs=())
    message = wire.model_to_wire(Model(main=graph, input_names=("\ud800",)), ())
    assert wire.model_from_wire(message, ()).main.operands[0].name == "a?b"


@sweep(
    "operand",
    [
        Operand(type=OperandType.TENSOR_FLOAT32, dimensions=(2**32,)),
        Operand(type=OperandType.TENSOR_FLOAT32, dimensions=(-1,)),
        Operand(type=OperandType.TENSOR_FLOAT32, zero_point=2**31),
        Operand(type=OperandType.TENSOR_FLOAT32, location=Location(pool=0, offset=-1, length=0)),
        Operand(type=OperandType.TENSOR_FLOAT32, dimensions=("4",)),  # type: ignore[arg-type]
    ],
)
def test_what_no_field_holds_is_refused(operand: Operand) -> None:
    graph = Subgraph(operands=(operand,), operations=(), inputs=(), outputs=())
    with pytest.raises(BadData, match="cannot be sent"):
        wire.model_to_wire(Model(main=graph), ())


@sweep("number", [-1, 16, 12345, 2**31 - 1, -(2**31)])
def test_numbers_that_are_not_known_are_refused(number: int) -> None:
    message = types_pb2.Model()
    message.main.operands.add().type = number  # type: ignore[assignment]
    with pytest.raises(BadData, match=f"operand 0: type is {number}"):
        wire.model_from_wire(message, ())
    message = types_pb2.Model()
    message.main.operands.add().lifetime = number  # type: ignore[assignment]
    with pytest.raises(BadData, match="operand 0: lifetime"):
        wire.model_from_wire(message, ())
    message = types_pb2.Model()
    message.main.operations.add().type = number ^ 2048  # type: ignore[assignment]
    with pytest.raises(BadData, match="operation 0: type"):
        wire.model_from_wire(message, ())


def test_counts_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_OPERANDS", 3)
    monkeypatch.setattr(wire, "MAX_OPERATIONS", 2)
    monkeypatch.setattr(wire, "MAX_REFERENCED", 1)
    message = types_pb2.Model()
    message.main.operands.extend(types_pb2.Operand() for _ in range(2))
    message.main.operations.extend(types_pb2.Operation() for _ in range(2))
    message.referenced.add().operands.add()
    wire.model_from_wire(message, ())
    graph = types_pb2.Subgraph
    for more, what in (
        (types_pb2.Model(main=graph(operands=[types_pb2.Operand()])), "4 operands; at most 3"),
        (types_pb2.Model(main=graph(operations=[types_pb2.Operation()])), "3 operations; at most 2"),
        (types_pb2.Model(referenced=[graph()]), "2 referenced graphs; at most 1"),
    ):
        more.MergeFrom(message)
        with pytest.raises(ResourceExhaustedPersistent, match=what):
            wire.model_from_wire(more, ())


def test_bytes_that_are_no_message_are_refused() -> None:
    data = wire.model_to_wire(addition(np.ones((2, 3))), [b"t"]).SerializeToString()
    parse(types_pb2.Model, data)
    with pytest.raises(BadData, match="not a valid message"):
        parse(types_pb2.Model, data[:-1])
    with pytest.raises(BadData, match="not known"):
        parse(types_pb2.Model, data + b"\xfa\x3f\x01x")
    nested = types_pb2.Model()
    nested.main.MergeFromString(b"\xfa\x3f\x01x")
    with pytest.raises(BadData, match="not known"):
        parse(types_pb2.Model, nested.SerializeToString())


def test_mutated_messages_give_a_model_or_an_error() -> None:
    rng = random.Random(1)
    model = addition(np.ones((2, 3)))
    data = wire.model_to_wire(model, [b"t"]).SerializeToString()
    refused = 0
    for _ in range(2000):
        changed = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        try:
            validate_model(wire.model_from_wire(parse(types_pb2.Model, bytes(changed)), model.pools))
        except Error:
            refused += 1
    assert refused > 1000


# Requests and results


def test_a_request_survives_the_way() -> None:
    request = Request(
        inputs=(
            Argument(),
            Argument(pool=0, offset=2**40, length=5, dimensions=(1, 0)),
            Argument(pool=3, length=1, dimensions=()),
        ),
        outputs=(Argument(pool=1, offset=1, length=2, dimensions=None),),
        pools=(HostMemory(b"1"),),
    )
    message = wire.request_to_wire(request, [types_pb2.RequestPool(memory=b"x")])
    assert wire.request_from_wire(message, request.pools) == request
    with pytest.raises(BadData, match="cannot be sent"):
        wire.request_to_wire(Request(inputs=(Argument(offset=-1),), outputs=(), pools=()), ())


@sweep("timing", [Timing(), Timing(on_device_ns=0, in_driver_ns=2**63)])
def test_a_result_survives_the_way(timing: Timing) -> None:
    shapes = (
        OutputShape(dimensions=None, sufficient=False),
        OutputShape(dimensions=()),
        OutputShape(dimensions=(3, 0), length=8),
    )
    result = ExecutionResult(output_shapes=shapes, timing=timing)
    message = wire.result_to_wire(result, [b"a"])
    assert wire.result_from_wire(message, 3) == result
    with pytest.raises(BadData, match="3 output shapes; 2"):
        wire.result_from_wire(message, 2)


# Options


def test_prepare_options_survive_the_way() -> None:
    options = PrepareOptions(preference=Preference.LOW_POWER, priority=Priority.HIGH, threads=3)
    back = wire_device.prepare_options_from_wire(wire_device.prepare_options_to_wire(options))
    assert back == options
    assert (
        wire_device.prepare_options_from_wire(wire_device.prepare_options_to_wire(PrepareOptions()))
        == PrepareOptions()
    )
    with pytest.raises(BadData):
        wire_device.prepare_options_to_wire(PrepareOptions(threads=-1))


def test_deadlines_travel_as_the_time_that_is_left() -> None:
    before_s = time.monotonic()
    message = wire_device.execute_options_to_wire(ExecuteOptions(deadline_s=before_s + 500))
    sent_s = time.monotonic()
    assert before_s + 500 - sent_s <= message.deadline_s <= 500
    back = wire_device.execute_options_from_wire(message).deadline_s
    assert back is not None
    # The time that passes on the way is not known to the receiver.
    assert message.deadline_s <= back - sent_s
    assert back <= time.monotonic() + message.deadline_s
    assert wire_device.execute_options_to_wire(ExecuteOptions(deadline_s=before_s - 5)).deadline_s == 0
    assert not wire_device.execute_options_to_wire(ExecuteOptions(deadline_s=math.inf)).HasField("deadline_s")


@sweep("seconds", [-1.0, math.nan, math.inf])
def test_deadlines_that_are_none_are_refused(seconds: float) -> None:
    with pytest.raises(BadData, match="deadline"):
        wire_device.execute_options_from_wire(device_pb2.ExecuteOptions(deadline_s=seconds))
    with pytest.raises(BadData, match="deadline"):
        wire_device.prepare_options_from_wire(
            device_pb2.PrepareOptions(deadline_s=seconds, priority=types_pb2.PRIORITY_LOW)
        )


@sweep("seconds", [1e9, 1e10, 1e300])
def test_deadlines_that_no_wait_could_count_are_none(seconds: float) -> None:
    assert (
        wire_device.execute_options_from_wire(device_pb2.ExecuteOptions(deadline_s=seconds)).deadline_s
        is None
    )


def test_options_outside_their_limits_are_refused() -> None:
    medium = types_pb2.PRIORITY_MEDIUM
    for threads in (0, 5000):
        with pytest.raises(BadData, match="threads"):
            wire_device.prepare_options_from_wire(device_pb2.PrepareOptions(priority=medium, threads=threads))
    with pytest.raises(BadData, match="priority is 0"):
        wire_device.prepare_options_from_wire(device_pb2.PrepareOptions())
    with pytest.raises(BadData, match="preference is 9"):
        wire_device.prepare_options_from_wire(device_pb2.PrepareOptions(priority=medium, preference=9))  # type: ignore[arg-type]
    for seconds in (-0.5, math.nan):
        with pytest.raises(BadData, match="loop timeout"):
            wire_device.execute_options_from_wire(device_pb2.ExecuteOptions(loop_timeout_s=seconds))
    cut = wire_device.execute_options_from_wire(device_pb2.ExecuteOptions(loop_timeout_s=99, measure=True))
    assert cut == ExecuteOptions(loop_timeout_s=15, measure=True)


# Devices


def test_a_description_survives_the_way() -> None:
    device = AddingDevice()
    assert wire_device.description_from_wire(wire_device.description_to_wire(device)) == (
        wire_device.DeviceDescription(
            name="adder",
            type=DeviceType.OTHER,
            version="1",
            feature_level=FeatureLevel.LEVEL_3,
            extensions=("example.extension",),
            cache_files_needed=CacheFilesNeeded(model=1, data=2),
        )
    )
    with pytest.raises(BadData, match="feature level is 0"):
        wire_device.description_from_wire(device_pb2.DescribeReply())


def test_capabilities_survive_the_way() -> None:
    capabilities = AddingDevice().capabilities()
    assert wire_device.capabilities_from_wire(wire_device.capabilities_to_wire(capabilities)) == capabilities


@sweep("wrong", [math.nan, 0.0, -1.0])
@sweep("name", ["exec_time", "power_usage"])
def test_performance_that_is_not_positive_is_refused(wrong: float, name: str) -> None:
    usual = Performance(exec_time=1.0, power_usage=1.0)
    capabilities = Capabilities(
        relaxed_float32_scalar=replace(usual, **{name: wrong}),
        relaxed_float32_tensor=usual,
        if_performance=usual,
        while_performance=usual,
    )
    with pytest.raises(BadData, match="positive"):
        wire_device.capabilities_from_wire(wire_device.capabilities_to_wire(capabilities))


def test_verdicts_survive_the_way() -> None:
    verdicts = (Verdict(ok=True), Verdict(ok=False, reason="rank 9"))
    message = wire_device.verdicts_to_wire(verdicts)
    assert wire_device.verdicts_from_wire(message, 2) == verdicts
    with pytest.raises(BadData, match="2 verdicts for 3"):
        wire_device.verdicts_from_wire(message, 3)
