"""LiteRT's counters of what a program creates, which count nothing, as in LiteRT's package.

Programs replace a method to learn what was created.
"""

from abc import ABC, abstractmethod
from typing import Any


class TFLiteMetricsInterface(ABC):
    """The interface that programs implement to count for themselves."""

    @abstractmethod
    def increase_counter_debugger_creation(self) -> None:
        """Counts a debugger of quantisation; programs that create one call it."""

    @abstractmethod
    def increase_counter_interpreter_creation(self) -> None:
        """Counts an `Interpreter` when it is created."""

    @abstractmethod
    def increase_counter_converter_attempt(self) -> None:
        """Counts an attempt of a converter."""

    @abstractmethod
    def increase_counter_converter_success(self) -> None:
        """Counts a success of a converter."""

    @abstractmethod
    def set_converter_param(self, name: str, value: Any) -> None:
        """Notes a parameter of a converter."""

    @abstractmethod
    def set_converter_error(self, error_data: Any) -> None:
        """Notes an error of a converter."""

    @abstractmethod
    def set_converter_latency(self, value: Any) -> None:
        """Notes how long a conversion took."""


class TFLiteMetrics(TFLiteMetricsInterface):
    """Counters with the names of LiteRT's.

    Args:
        model_hash: the hash of the model, which is not used.
        model_path: the path of the model, which is not used.
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
        """Notes that the counters are to be exported."""

    def export_metrics(self) -> None:
        """Exports the counters."""
