"""Metrics of the library in an application's process."""

from neurald.hal.accounting.exposition import event_metric, exposition


def metrics() -> str:
    """Returns the metrics of this process in the text format of Prometheus.

    They count how often the CPU device ran a step or a model instead of a device that failed, how
    often executions missed their deadlines, and why compiled code was not in the cache. An
    application can add the text to its own metrics.
    """
    return exposition([event_metric()])
