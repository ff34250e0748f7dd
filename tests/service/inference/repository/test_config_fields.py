"""Fields of a model's configuration in its two forms."""

import json
from typing import Any

import pytest
from google.protobuf import json_format, text_format
from support.sweeps import sweep

from neurald.service.inference.protocol.messages import POOL, ModelConfig
from neurald.service.inference.repository.config_fields import (
    MAX_DEPTH,
    DeepNesting,
    fields_of_json,
    fields_of_text,
    unknown_fields,
    with_colons,
)

_TEXT = """
name: "rate_limiter { }"  # optimization { }
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4, 2 ] allow_ragged_batch: true },
        { name: 'y' is_shape_tensor: true, reshape: { shape: [ ] } } ]
instance_group < count: 1 kind: KIND_CPU rate_limiter { resources [ { name: "R" count: 4 } ] } >
parameters { key: "threads" value: { string_value: "1" bytes_value: "2" } }
version_policy: { latest { num_versions: 1 } }; optimization # a comment
  { cuda { graphs: true } }
"""
_UNKNOWN = {
    ("input", "allow_ragged_batch"),
    ("input", "is_shape_tensor"),
    ("instance_group", "rate_limiter"),
    ("parameters", "value", "bytes_value"),
    ("optimization",),
}


def test_unknown_fields_of_text_are_found() -> None:
    fields = set(fields_of_text(_TEXT))
    assert unknown_fields(fields, ModelConfig.DESCRIPTOR) == _UNKNOWN
    assert ("instance_group", "rate_limiter", "resources", "count") in fields


def test_text_and_json_have_the_same_fields() -> None:
    config = ModelConfig()
    text_format.Parse(with_colons(_TEXT), config, allow_unknown_field=True, descriptor_pool=POOL)
    for names_are_kept in (False, True):
        document = json_format.MessageToDict(
            config, preserving_proto_field_name=names_are_kept, descriptor_pool=POOL
        )
        known = {
            path
            for path in fields_of_text(_TEXT)
            if not unknown_fields([path], ModelConfig.DESCRIPTOR) and path[-1] not in ("key", "shape")
        }
        of_json = set(fields_of_json(document, ModelConfig.DESCRIPTOR))
        # A map is an object in JSON, and has no entries with keys and values.
        assert of_json == known - {("parameters", "value")}


@sweep(
    ("document", "unknown"),
    [
        ({"rateLimiter": {}}, {("rate_limiter",)}),
        ({"instance_group": [{"rate_limiter": {"priority": 1}}, 3]}, {("instance_group", "rate_limiter")}),
        ({"parameters": {"a": {"other": "1"}}}, {("parameters", "value", "other")}),
        ({"parameters": [1], "input": "x", "name": {}}, set()),
    ],
)
def test_unknown_fields_of_json_are_found(document: dict[str, Any], unknown: set[tuple[str, ...]]) -> None:
    document = json.loads(json.dumps(document))
    assert unknown_fields(fields_of_json(document, ModelConfig.DESCRIPTOR), ModelConfig.DESCRIPTOR) == unknown


def test_deep_nesting_is_refused() -> None:
    assert len(list(fields_of_text("a {" * MAX_DEPTH + "}" * MAX_DEPTH))) == MAX_DEPTH
    with pytest.raises(DeepNesting, match=str(MAX_DEPTH)):
        list(fields_of_text("a {" * (MAX_DEPTH + 1)))


@sweep("text", ["}} a: 1", "{", ">", ": : [", "a", "", '"open', "#", "a: b: c"])
def test_text_that_is_not_valid_has_some_fields_or_none(text: str) -> None:
    assert len(list(fields_of_text(text))) <= 2
