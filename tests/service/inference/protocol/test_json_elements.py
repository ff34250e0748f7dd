"""Elements in JSON become exactly the bytes of a tensor, or are refused."""

import json

import msgspec
import numpy as np
import pytest
from support.sweeps import sweep

from neurald.service.inference.protocol.errors import ServiceError
from neurald.service.inference.protocol.json_elements import decoded_elements


def decoded(data: str, datatype: str, count: int) -> bytes:
    return bytes(decoded_elements("x", datatype, msgspec.Raw(data.encode()), (count,)))


@sweep("template", ["[{}]", "[[{}]]"], ids=["flat", "nested"])
@sweep(
    ("values", "datatype", "dtype"),
    [
        ([1, 2**63, 2**64 - 1], "UINT64", np.uint64),
        ([-(2**63), 0, 2**63 - 1], "INT64", np.int64),
        ([1, 10**20, -(2**63)], "FP32", np.float32),
        ([1.5, 10**20, 2**63], "FP64", np.float64),
    ],
    ids=["UINT64", "INT64", "FP32", "FP64"],
)
def test_numbers_of_any_size_are_exact_or_refused(
    template: str, values: list[float], datatype: str, dtype: type
) -> None:
    data = template.format(", ".join(map(str, values)))
    assert decoded(data, datatype, len(values)) == np.array(values, dtype).tobytes()
    for wrong in (f"{10**400}", "true", '"1"', "null", "{}"):
        data = template.format(", ".join([*map(str, values[:-1]), wrong]))
        with pytest.raises(ServiceError, match=r"data|range"):
            decoded(data, datatype, len(values))


@sweep(
    ("data", "datatype"),
    [("[-1, 18446744073709551615]", "INT64"), ("[-1, 9223372036854775808]", "UINT64"), ("[0, 256]", "UINT8")],
    ids=["INT64", "UINT64", "UINT8"],
)
def test_integers_beyond_the_range_of_a_type_are_refused(data: str, datatype: str) -> None:
    with pytest.raises(ServiceError, match=f"beyond the range of {datatype}"):
        decoded(data, datatype, 2)


def test_many_elements_are_those_of_a_short_list() -> None:
    """Lists of more than 256 KiB are decoded in parts."""
    values = np.random.default_rng(1).integers(-(2**31), 2**31, 100_000)
    texts = {"flat": json.dumps(values.tolist()), "nested": json.dumps(values.reshape(100, -1).tolist())}
    for text in texts.values():
        assert len(text) > 1 << 20
        assert decoded(text, "INT32", values.size) == values.astype(np.int32).tobytes()
        for count, message in (
            (values.size - 1, "Shape does not match true shape of 'data' field"),
            (values.size + 1, "Failed to parse 'data' field"),
        ):
            with pytest.raises(ServiceError, match=message):
                decoded(text, "INT32", count)
    with pytest.raises(ServiceError, match="not INT32"):
        decoded(texts["flat"][:-1] + ", true]", "INT32", values.size + 1)
    with pytest.raises(ServiceError, match="not understood"):
        decoded(texts["flat"][:-1] + ",]", "INT32", values.size)


def test_nesting_has_a_limit() -> None:
    assert decoded("[" * 100 + "1.5" + "]" * 100, "FP32", 1) == np.float32(1.5).tobytes()
    with pytest.raises(ServiceError, match=r"nesting depth exceeds maximum allowed limit \(100\)"):
        decoded("[" * 101 + "1.5" + "]" * 101, "FP32", 1)


def test_datatypes_that_the_protocol_does_not_have_are_refused() -> None:
    with pytest.raises(ServiceError, match="has the datatype 'FP31'"):
        decoded("[1]", "FP31", 1)
