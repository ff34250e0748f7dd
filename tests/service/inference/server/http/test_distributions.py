"""The text of distributions, and that of a service with real requests."""

import http.client
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.inference import zoo
from support.inference.serving import Serving

from neurald.hal.accounting.exposition import exposition
from neurald.service.inference.models.statistics.latencies import MeasuredLatencies
from neurald.service.inference.models.statistics.statistics import Durations, Latencies, Statistics
from neurald.service.inference.server.http.distributions import distribution_metrics


def text_of(measured: MeasuredLatencies | None, requests_ms: list[int]) -> str:
    """Returns the metrics of a model with these requests, half of whose time they have waited."""
    latencies = None if measured is None else Latencies(measured, (1, 2.5))
    statistics = Statistics(latencies=latencies)
    for ms in requests_ms:
        statistics.succeeded(1, ms * 1_000_000, Durations(queue_ns=ms * 500_000), "")
    version: Any = SimpleNamespace(name="m", version=1, statistics=statistics)
    return exposition(distribution_metrics([version]))


def test_a_histogram() -> None:
    text = text_of(MeasuredLatencies(histogram=True), [1, 2, 3, 4])
    assert text.splitlines()[1:] == [
        "# TYPE nv_inference_first_response_histogram_ms histogram",
        'nv_inference_first_response_histogram_ms_count{model="m",version="1"} 4',
        'nv_inference_first_response_histogram_ms_sum{model="m",version="1"} 10',
        'nv_inference_first_response_histogram_ms_bucket{model="m",version="1",le="1"} 1',
        'nv_inference_first_response_histogram_ms_bucket{model="m",version="1",le="2.5"} 2',
        'nv_inference_first_response_histogram_ms_bucket{model="m",version="1",le="+Inf"} 4',
    ]


def test_summaries() -> None:
    text = text_of(MeasuredLatencies(quantiles=(0.5, 0.999)), [2] * 9 + [200])
    assert "histogram" not in text
    assert 'nv_inference_request_summary_us_count{model="m",version="1"} 10\n' in text
    assert 'nv_inference_queue_summary_us_sum{model="m",version="1"} 109000\n' in text
    for name, half, most in (("request", 2000, 200_000), ("queue", 1000, 100_000)):
        found = re.findall(rf'{name}_summary_us{{model="m",version="1",quantile="(.*)"}} (.*)', text)
        assert [each for each, _ in found] == ["0.5", "0.999"]
        assert [float(each) for _, each in found] == pytest.approx([half, most], rel=0.01)
    assert text.count(" summary\n") == 5


def test_without_requests_there_are_no_quantiles() -> None:
    text = text_of(MeasuredLatencies(quantiles=(0.5,)), [])
    assert 'nv_inference_request_summary_us{model="m",version="1",quantile="0.5"} NaN\n' in text


def test_nothing_is_measured_by_default() -> None:
    assert "nv_" not in text_of(None, [1, 2])


def test_a_service_with_bounds_of_a_model(tmp_path: Path) -> None:
    config = (
        "max_batch_size: 4 model_metrics { metric_control: [ { metric_identifier: { family: "
        '"nv_inference_first_response_histogram_ms" } histogram_options: { buckets: [ 0.5, 60000 ] } } ] }'
    )
    zoo.write_model(tmp_path, "batched", zoo.dense(), config=config)
    metrics = {"counter_latencies": False, "histogram_latencies": True, "summary_latencies": True}
    with Serving(tmp_path, metrics=metrics) as service:
        service.wait_ready()
        host, port = service.http.split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        tensor = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
        for _ in range(3):
            connection.request("POST", "/v2/models/batched/infer", json.dumps({"inputs": [tensor]}))
            answer = connection.getresponse()
            assert (answer.status, answer.read()[:1]) == (200, b"{")
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
    labels = 'model="batched",version="1"'
    name = "nv_inference_first_response_histogram_ms"
    assert f'{name}_bucket{{{labels},le="60000"}} 3\n' in text
    assert f'{name}_bucket{{{labels},le="100"}}' not in text
    assert f"nv_inference_request_summary_us_count{{{labels}}} 3\n" in text
    assert f"nv_inference_request_success{{{labels}}} 3\n" in text
    assert "_duration_us" not in text
