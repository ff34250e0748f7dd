"""LiteRT's counters of what a program creates, which count nothing, as in LiteRT's package.

Programs replace a method to learn what was created.
"""

from abc import ABC, abstractmethod
from typing import Any


class TFLiteMetricsInterface(ABC):
    """The interface that programs implement to count for themselves."""

    @abstractmethod
    def increase_counter_debugger_creation(self) -> None:
        """Is called by programs that create a debugger of quantisation."""

    @abstractmethod
    def increase_counter_interpreter_creation(self) -> None:
        """Is called when an `Interpreter` is created."""

    @abstractmethod
    def increase_counter_converter_attempt(self) -> None:
        """Is called by converters."""

    @abstractmethod
    def increase_counter_converter_success(self) -> None:
        """Is called by converters."""

    @abstractmethod
    def set_converter_param(self, name: str, value: Any) -> None:
        """Is called by converters."""

    @abstractmethod
    def set_converter_error(self, error_data: Any) -> None:
        """Is called by converters."""

    @abstractmethod
    def set_converter_latency(self, value: Any) -> None:
        """Is called by converters."""


class TFLiteMetrics(TFLiteMetricsInterface):
    """Counters with the names of LiteRT's.

    Args:
        model_hash: the model hash of the model; it is not used.
        model_path: the model path of the model; it is not used.
    """

    def __init__(self, model_hash: str | None = None, model_path: str | None = None) -> None:
        del model_hash, model_path

    def increase_counter_debugger_creation(self) -> None:
        """See `TFLiteMetricsInterface`."""

    def increase_counter_interpreter_creation(self) -> None:
        """See `TFLiteMetricsInterface`."""

    def increase_counter_converter_attempt(self) -> None:
        """See `TFLiteMetricsInterface`."""

    def increase_counter_converter_success(self) -> None:
        """See `TFLiteMetricsInterface`."""

    def set_converter_param(self, name: str, value: Any) -> None:
        """See `TFLiteMetricsInterface`."""

    def set_converter_error(self, error_data: Any) -> None:
        """See `TFLiteMetricsInterface`."""

    def set_converter_latency(self, value: Any) -> None:
        """See `TFLiteMetricsInterface`."""


class TFLiteConverterMetrics(TFLiteMetrics):
    """Counters of converters."""

    def set_export_required(self) -> None:
        """Is called by converters."""

    def export_metrics(self) -> None:
        """Is called by converters."""
