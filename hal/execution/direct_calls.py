"""The optional interface of prepared models that an application calls without layers in between.

Binding a request, locking an execution and copying arrays take longer than a small model computes.
A prepared model in this process can make functions that do all of it in native code.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from neurald.hal.device import ExecutionResult, PreparedModel
from neurald.hal.lazy_numpy import Array
from neurald.hal.memory.pool import Memory
from neurald.hal.model.request import Request

#: Runs a model on its input arrays and returns its outputs, in new arrays. Returns None if an array
#: is not a contiguous one of the input's type and shape, or if the execution failed.
ArrayFunction: TypeAlias = Callable[..., list[Array] | None]
#: Runs a request. Returns False if that failed, True if the result is that of the last execution of
#: the request, or else the result.
ShortExecution: TypeAlias = Callable[[], bool | ExecutionResult]


class CallsDirectly(Protocol):
    """An optional interface of a prepared model. Several threads may call its functions.

    The functions neither measure nor have limits. If one fails, the caller executes the same
    request by `PreparedModel.execute`, which raises the error.
    """

    def create_short_execution(self, request: Request) -> ShortExecution | None:
        """Binds a request like one that `execute` ran with success.

        An output may use the memory of an input. It is then written after the input was read, and
        only if the execution succeeds.

        Returns:
            A function that runs the request; all outputs fit if it succeeds. Native code keeps the
                GIL, so that no other thread of Python runs in the meantime, nor can cancel it. The
                function keeps the request alive. Strings are stored in the array of their
                `StringMemory`. None if executions take too long for that.
        """
        ...

    def create_array_function(
        self, shapes: Sequence[tuple[int, ...]], variables: Sequence[Memory]
    ) -> ArrayFunction | None:
        """Creates a function that runs the model on arrays.

        Args:
            shapes: the shapes of the arrays that it will be called with, in the order of the
                inputs.
            variables: memory of the model's last inputs, which are also its last outputs: each is
                replaced if the execution succeeds. The caller keeps others from using it during a
                call.

        Returns:
            The function, which keeps the memory alive; None if it cannot be made.
        """
        ...


class RunsAnyShapes(Protocol):
    """An optional interface of a prepared model with open dimensions and without variables."""

    def create_open_function(self) -> ArrayFunction | None:
        """Creates a function that runs the model on arrays of any shapes.

        It prepares nothing that stays for these shapes. It returns None also if something has to be
        compiled for them, and if the model has code of its own for them, which is faster.

        Returns:
            The function; None if it cannot be made.
        """
        ...


def short_execution(prepared_model: PreparedModel | None, request: Request) -> ShortExecution | None:
    """Calls `create_short_execution`; returns None also for a prepared model without it."""
    create: Callable[[Request], ShortExecution | None] | None
    create = getattr(prepared_model, "create_short_execution", None)
    return None if create is None else create(request)


def array_function(
    prepared_model: PreparedModel | None, shapes: Sequence[tuple[int, ...]], variables: Sequence[Memory]
) -> ArrayFunction | None:
    """Calls `create_array_function`; returns None also for a prepared model without it."""
    create: Callable[[Sequence[tuple[int, ...]], Sequence[Memory]], ArrayFunction | None] | None
    create = getattr(prepared_model, "create_array_function", None)
    return None if create is None else create(shapes, variables)


def open_function(prepared_model: PreparedModel | None) -> ArrayFunction | None:
    """Calls `create_open_function`; returns None also for a prepared model without it."""
    create: Callable[[], ArrayFunction | None] | None
    create = getattr(prepared_model, "create_open_function", None)
    return None if create is None else create()
