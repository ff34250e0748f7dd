"""Metrics in the text format of Prometheus, under the names that Triton uses."""

from collections.abc import Callable, Sequence
from typing import Final

from neurald.hal.accounting.exposition import Metric, Sample, event_metric, exposition
from neurald.hal.process.memory.heap import live_bytes, resident_bytes
from neurald.service.inference.models.served_version import ServedVersion
from neurald.service.inference.models.statistics.statistics import FailureReason
from neurald.service.inference.server.admission.request_budget import RequestBudget
from neurald.service.inference.server.calls.host_usage import HostUsage
from neurald.service.inference.server.http.distributions import distribution_metrics

_COUNTERS: Final[tuple[tuple[str, str, Callable[[ServedVersion], float]], ...]] = (
    (
        "nv_inference_request_success",
        "Requests that have an answer",
        lambda each: each.statistics.success.count,
    ),
    ("nv_inference_count", "Entries of batches that were run", lambda each: each.statistics.inferences),
    ("nv_inference_exec_count", "Runs of models", lambda each: each.statistics.executions),
    (
        "neurald_inference_refused_total",
        "Requests that were refused since too many waited",
        lambda each: each.statistics.refused,
    ),
    (
        "neurald_inference_retries_total",
        "Requests that were run again since a worker died",
        lambda each: each.statistics.retries,
    ),
)
_LATENCIES: Final[tuple[tuple[str, str, Callable[[ServedVersion], float]], ...]] = (
    (
        "nv_inference_request_duration_us",
        "Time of requests",
        lambda each: each.statistics.success.ns // 1000,
    ),
    ("nv_inference_queue_duration_us", "Time in queues", lambda each: each.statistics.queue.ns // 1000),
    (
        "nv_inference_compute_input_duration_us",
        "Time to read inputs",
        lambda each: each.statistics.compute_input.ns // 1000,
    ),
    (
        "nv_inference_compute_infer_duration_us",
        "Time to run models",
        lambda each: each.statistics.compute_infer.ns // 1000,
    ),
    (
        "nv_inference_compute_output_duration_us",
        "Time to write outputs",
        lambda each: each.statistics.compute_output.ns // 1000,
    ),
)
_GAUGES: Final[tuple[tuple[str, str, Callable[[ServedVersion], float]], ...]] = (
    ("nv_inference_pending_request_count", "Requests that wait", lambda each: each.waiting),
    ("neurald_model_ready", "1 if the model is ready", lambda each: int(each.is_ready)),
    ("neurald_model_workers", "Workers of the model", lambda each: len(each.processes)),
)

_MEMORY: Final[tuple[tuple[str, str, Callable[[], int]], ...]] = (
    (
        "neurald_front_end_resident_bytes",
        "Memory that the front end has, without files and shared memory",
        resident_bytes,
    ),
    (
        "neurald_front_end_live_bytes",
        "Memory that the front end uses, without what is freed and not returned to the system yet",
        live_bytes,
    ),
)


def metrics_text(
    versions: Sequence[ServedVersion],
    budget: RequestBudget,
    host: HostUsage,
    *,
    counts_latencies: bool = True,
) -> str:
    """Returns the metrics of models, the service and its host, and the events of its front end.

    Args:
        versions: all versions of models that are served.
        budget: the memory of requests.
        host: the usage of the host.
        counts_latencies: whether there are sums of latencies.
    """
    counters = (*_COUNTERS, *(_LATENCIES if counts_latencies else ()))
    metrics = [
        Metric(
            name=name,
            kind=kind,
            description=description,
            samples=[
                Sample({"model": each.name, "version": str(each.version)}, value(each)) for each in versions
            ],
        )
        for kind, described in (("counter", counters), ("gauge", _GAUGES))
        for name, description, value in described
    ]
    metrics.append(
        Metric(
            name="nv_inference_request_failure",
            kind="counter",
            description="Requests that failed",
            samples=[
                Sample(
                    {"model": each.name, "reason": reason.value, "version": str(each.version)},
                    each.statistics.reasons[reason],
                )
                for each in versions
                for reason in FailureReason
            ],
        )
    )
    metrics.append(
        Metric(
            name="neurald_request_bytes",
            kind="gauge",
            description="Memory of all requests that are there now",
            samples=[Sample({}, budget.used_bytes)],
        )
    )
    metrics += (
        Metric(name=name, kind="gauge", description=description, samples=[Sample({}, value())])
        for name, description, value in _MEMORY
    )
    metrics += distribution_metrics(versions)
    metrics += host.metrics()
    metrics.append(event_metric())
    return exposition(metrics)
