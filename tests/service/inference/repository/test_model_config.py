"""Fields of config.pbtxt that are read, and those that are refused."""

import json
from typing import Any

import pytest
from google.protobuf import json_format
from support.sweeps import sweep

from neurald.hal.lanes.opening import TensorDescription
from neurald.service.inference.protocol.errors import ServiceError
from neurald.service.inference.protocol.messages import POOL, ModelConfig
from neurald.service.inference.repository.config_fields import misspelt_field, unknown_fields
from neurald.service.inference.repository.model_config import (
    absent_versions,
    completed,
    parse_config,
    parse_config_json,
    settings_of,
    versions_to_serve,
)
from neurald.service.inference.repository.queue_policy import Priorities, QueuePolicy
from neurald.service.inference.worker.orders import ModelDescription

TEXT = """
name: "m"  # a comment with { braces
platform: "tflite"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] optional: true } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ -1 ] label_filename: "labels.txt" } ]
instance_group [ { count: 2 kind: KIND_CPU } ]
dynamic_batching { preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 500 }
parameters: { key: "threads" value: { string_value: "1" } }
parameters: { key: "loop_timeout" value: { string_value: "7.5" } }
model_warmup { name: "w" batch_size: 1 inputs { key: "x" value { data_type: TYPE_FP32 dims: 4 zero_data: true } } }
optimization { execution_accelerators { gpu_execution_accelerator : [ { name : "tensorrt" } ] } }
"""
LOADED = ModelDescription(
    inputs=(TensorDescription(name="x", kind="float32", shape=(-1, 4)),),
    outputs=(TensorDescription(name="y", kind="float32", shape=(-1, 3)),),
    devices=("cpu",),
    drivers=("1",),
)


def with_buckets(*buckets: str, family: str = "nv_inference_first_response_histogram_ms") -> Any:
    control = (
        f'metric_identifier {{ family: "{family}" }} histogram_options {{ buckets: [{", ".join(buckets)}] }}'
    )
    return parse_config("m", f"model_metrics {{ metric_control [ {{ {control} }} ] }}")


def test_bounds_of_the_histogram() -> None:
    assert settings_of("m", parse_config("m", "")).histogram_ms == (100, 500, 2000, 5000)
    assert settings_of("m", with_buckets("0.5", "1", "20")).histogram_ms == (0.5, 1, 20)


@pytest.mark.parametrize(
    "buckets",
    [(), ("0",), ("-1", "2"), ("2", "1"), ("1", "1"), ("inf",), ("nan",), tuple(map(str, range(1, 66)))],
)
def test_bounds_that_make_no_histogram_are_refused(buckets: tuple[str, ...]) -> None:
    with pytest.raises(ServiceError, match="each larger than the one before"):
        settings_of("m", with_buckets(*buckets))


def test_bounds_of_other_metrics_are_refused() -> None:
    with pytest.raises(
        ServiceError, match="has the family 'nv_cpu'; nv_inference_first_response_histogram_ms"
    ):
        settings_of("m", with_buckets("1", family="nv_cpu"))


def test_settings_follow_from_the_text() -> None:
    config = parse_config("m", TEXT)
    settings = settings_of("m", config)
    assert (settings.max_batch_size, settings.batches, settings.delay_s) == (8, True, 0.0005)
    assert (settings.instances, settings.preferred_sizes) == (2, (4,))
    order = settings.order
    assert (order.threads, order.device_type, order.is_batched) == (1, "cpu", True)
    assert order.loop_timeout_s == 7.5
    assert order.warmups[0].shapes == {"x": (4,)}
    full = completed(config, "m", LOADED)
    assert list(full.output[0].dims) == [3]
    assert full.output[0].label_filename == "labels.txt"
    assert full.input[0].optional
    assert full.version_policy.latest.num_versions == 1


_WITHOUT_EFFECT = """
input { name: "x" data_type: TYPE_FP32 dims: [ 4 ] allow_ragged_batch: true }
instance_group [ { count: 3 rate_limiter { resources [ { name: "R" count: 4 global: true } ] priority: 2 } } ]
response_cache { enable: true }
"""


@sweep(
    ("text", "logged", "instances"),
    [
        (TEXT, ["optimization"], 2),
        (_WITHOUT_EFFECT, ["input.allow_ragged_batch", "instance_group.rate_limiter", "response_cache"], 3),
        ('name: "m" parameters { key: "rate_limiter" value { string_value: "optimization {" } }', [], 1),
    ],
)
def test_fields_without_effect_are_logged(
    text: str, logged: list[str], instances: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    config = parse_config("m", text)
    assert len(caplog.records) == bool(logged)
    assert all(each.getMessage().endswith(f"no effect here: {', '.join(logged)}") for each in caplog.records)
    assert settings_of("m", config).instances == instances


@sweep(
    ("text", "words"),
    [
        ("max_batch_sizes: 8", "max_batch_sizes, which is no field; max_batch_size seems to be meant"),
        ("dynamic_batch {}", "dynamic_batch, which is no field; dynamic_batching"),
        ("dynamic_batching { prefered_batch_size: [4] }", "prefered_batch_size, .*; preferred_batch_size"),
        ("instance_groups [ { count: 2 } ]", "instance_groups, .*; instance_group"),
        ('input { name: "x" datatype: TYPE_FP32 }', r"input\.datatype, .*; data_type"),
    ],
)
def test_misspelt_fields_are_refused(text: str, words: str) -> None:
    with pytest.raises(ServiceError, match=words):
        parse_config("m", text)


def test_no_field_of_triton_is_taken_for_a_misspelt_one() -> None:
    message = ModelConfig.DESCRIPTOR
    fields = {
        "": (
            "platform backend runtime batch_input batch_output optimization sequence_batching "
            "ensemble_scheduling cc_model_filenames metric_tags model_operations model_transaction_policy "
            "model_repository_agents response_cache"
        ),
        "input": "is_shape_tensor allow_ragged_batch is_non_linear_format_io",
        "output": "is_shape_tensor is_non_linear_format_io",
        "instance_group": "rate_limiter gpus secondary_devices profile passive host_policy name",
        "dynamic_batching": "preserve_ordering",
        "model_warmup": "count",
    }
    for outer, names in fields.items():
        for name in names.split():
            path = (outer, name) if outer else (name,)
            known = not unknown_fields([path], message)
            assert known or misspelt_field(path, message) is None, path


def test_fields_without_effect_of_json_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    config = parse_config("m", _WITHOUT_EFFECT)
    document: Any = json_format.MessageToDict(config, descriptor_pool=POOL)
    document["input"][0]["allowRaggedBatch"] = True
    document["instanceGroup"][0]["rateLimiter"] = {"resources": [{"name": "R", "count": 4}]}
    document["responseCache"] = {"enable": True}
    caplog.clear()
    assert parse_config_json("m", json.dumps(document)) == config
    assert "input.allow_ragged_batch, instance_group.rate_limiter, response_cache" in caplog.text


def test_a_log_line_has_some_of_many_fields_without_effect(caplog: pytest.LogCaptureFixture) -> None:
    parse_config("m", "".join(f"other_{number}: 1 " for number in range(1000)))
    assert "(1000 fields)" in caplog.text
    assert len(caplog.text) < 1000


@sweep("name", ["ensemble_scheduling", "ensembleScheduling"])
def test_refused_fields_are_refused_in_both_forms_of_json(name: str) -> None:
    with pytest.raises(ServiceError, match="ensemble_scheduling, which is not supported"):
        parse_config_json("m", json.dumps({name: {}}))


def test_a_model_without_a_configuration_has_one() -> None:
    config = parse_config("m", "")
    settings = settings_of("m", config)
    assert (settings.max_batch_size, settings.batches, settings.instances, settings.lanes) == (0, False, 1, 2)
    full = completed(config, "m", LOADED)
    assert [list(each.dims) for each in full.input] == [[-1, 4]]
    assert (full.name, full.backend) == ("m", "neurald")


def test_priorities_have_policies() -> None:
    config = parse_config(
        "m",
        """dynamic_batching {
            priority_levels: 3
            default_priority_level: 2
            default_queue_policy { max_queue_size: 7 default_timeout_microseconds: 1000 timeout_action: DELAY }
            priority_queue_policy { key: 1 value { timeout_action: DELAY allow_timeout_override: true } }
            priority_queue_policy { key: 3 value { max_queue_size: 1 allow_timeout_override: true } }
        }""",
    )
    priorities = settings_of("m", config).priorities
    assert (priorities.levels, priorities.default) == (3, 2)
    assert priorities.policy_of(1) == QueuePolicy(delays=True, allows_shorter=True)
    assert priorities.policy_of(2) == QueuePolicy(size=7, timeout_s=0.001, delays=True)
    assert priorities.policy_of(3) == QueuePolicy(size=1)
    assert completed(config, "m", LOADED).dynamic_batching.priority_levels == 3


@pytest.mark.parametrize(
    ("field", "given"),
    [("default_priority_level", ": 4294967296"), ("priority_queue_policy", " { key: 1 }")],
    ids=("default", "policy"),
)
def test_priorities_without_levels_have_no_effect(
    field: str, given: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Triton serves such models, too."""
    config = parse_config(
        "m", f"dynamic_batching {{ {field}{given} default_queue_policy {{ max_queue_size: 7 }} }}"
    )
    priorities = settings_of("m", config).priorities
    assert priorities == Priorities(policy=QueuePolicy(size=7))
    assert priorities.of(1) == 0
    assert f"configured with {field}, which has no effect without priority_levels" in caplog.text
    assert getattr(completed(config, "m", LOADED).dynamic_batching, field)


def test_policies_choose_versions() -> None:
    found = (1, 2, 5, 7)
    for text, chosen, absent in (
        ("", (7,), ()),
        ("version_policy { latest { num_versions: 9 } }", found, ()),
        ("version_policy { latest { num_versions: 2 } }", (5, 7), ()),
        ("version_policy { all {} }", found, ()),
        ("version_policy { specific { versions: [2, 5] } }", (2, 5), ()),
        ("version_policy { specific { versions: [9, 2, -1, 9] } }", (2,), (-1, 9)),
    ):
        config = parse_config("m", text)
        assert versions_to_serve(config, found) == chosen
        assert absent_versions(config, found) == absent


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("max_batch_size: x", "not valid"),
        ("max_batch_size: -1", "max_batch_size"),
        ('name: "other"', "its name"),
        ('backend: "python"', "backend"),
        ("sequence_batching { }", "sequence_batching"),
        ("ensemble_scheduling { step [ ] }", "ensemble_scheduling"),
        ("model_transaction_policy { decoupled: true }", "decoupled"),
        ("instance_group [ { count: 1000 } ]", "instances"),
        ('parameters: { key: "threads" value: { string_value: "many" } }', "threads"),
        ('parameters: { key: "loop_timeout" value: { string_value: "16" } }', "up to 15 seconds"),
        ('parameters: { key: "loop_timeout" value: { string_value: "nan" } }', "loop_timeout is 'nan'"),
        ('parameters: { key: "loop_timeout" value: { string_value: "long" } }', "loop_timeout is 'long'"),
        ('parameters: { key: "startup" value: { string_value: "soon" } }', "startup"),
        ("a {" * 100_000, "nested"),
        ("dynamic_batching { max_queue_delay_microseconds: 99999999999 }", "max_queue_delay"),
        ("dynamic_batching { priority_levels: 2 }", "default_priority_level is 0"),
        ("dynamic_batching { priority_levels: 2 default_priority_level: 3 }", "1 to 2 is expected"),
        (
            "dynamic_batching { priority_levels: 1 default_priority_level: 1 priority_queue_policy { key: 2 } }",
            "given for 2, but priority_levels is 1",
        ),
        (
            'model_warmup { inputs { key: "x" value { input_data_file: "/etc/passwd" } } }',
            "input_data_file",
        ),
    ],
)
def test_what_cannot_be_obeyed_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ServiceError, match=reason):
        settings_of("m", parse_config("m", text))


def test_configurations_in_json() -> None:
    config = parse_config_json("m", '{"max_batch_size": 4, "dynamic_batching": {}, "unknown": 1}')
    assert settings_of("m", config).batches
    for text in ("[", "[]", '{"sequence_batching": {}}', '{"max_batch_size": "x"}', "[" * 100_000):
        with pytest.raises(ServiceError):
            settings_of("m", parse_config_json("m", text))
    with pytest.raises(ServiceError, match="has 2000002 characters"):
        parse_config_json("m", "{" + " " * 2_000_000 + "}")


@pytest.mark.parametrize(
    "declared",
    [
        'input [ { name: "z" dims: [ 4 ] } ]',
        'input [ { name: "x" dims: [ 5 ] } ]',
        'input [ { name: "x" dims: [ 4, 1 ] } ]',
        'input [ { name: "x" dims: [ -2 ] } ]',
        'input [ { name: "x" data_type: TYPE_INT8 dims: [ 4 ] } ]',
    ],
)
def test_configurations_that_contradict_the_model_are_refused(declared: str) -> None:
    with pytest.raises(ServiceError, match="the model m"):
        completed(parse_config("m", "max_batch_size: 2 " + declared), "m", LOADED)
