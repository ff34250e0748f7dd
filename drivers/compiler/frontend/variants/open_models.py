"""The interfaces of models that are compiled for any lengths of their open dimensions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from neurald.drivers.compiler.frontend.variants.kept_variants import (
    OpenVariant,
    Shape,
)
from neurald.hal.device import ExecuteOptions, ExecutionResult
from neurald.hal.lazy_numpy import Array
from neurald.hal.model.request import Request


class OpenModel(Protocol):
    """A model compiled for any lengths of its open dimensions, within the limits of its code."""

    def for_shapes(self, shapes: Sequence[Shape | None]) -> OpenVariant | None:
        """Returns the model for these shapes of its inputs, without compiling anything.

        Returns None if its code does not support them.
        """
        ...

    def output_shapes(self, shapes: Sequence[Shape | None]) -> tuple[Shape, ...] | None:
        """Returns the shapes of its outputs for these shapes of its inputs.

        Returns None if its code does not support them, or if they depend on data.
        """
        ...

    def run_arrays(self, shapes: tuple[Shape, ...], arrays: Sequence[Array]) -> list[Array] | None:
        """Runs the model on arrays, in memory that executions of all shapes share.

        Args:
            shapes: the shapes of the arrays.
            arrays: the inputs.

        Returns:
            The outputs; None if it does not support these arrays, or if the execution failed.
        """
        ...

    def execute(
        self, shapes: Sequence[Shape | None], request: Request, options: ExecuteOptions
    ) -> ExecutionResult | None:
        """Executes a request in memory shared by all shapes; see `PreparedModel.execute`.

        Args:
            shapes: the shapes of its inputs.
            request: the request.
            options: the options of the execution.

        Returns:
            None if it does not support the request, which the model for these shapes may do.
        """
        ...


class OpenModels(Protocol):
    """Compiles a model for any lengths of its open dimensions."""

    def get(
        self, number: int, examples: Iterable[Mapping[int, Shape]], limits: ExecuteOptions
    ) -> OpenModel | None:
        """Returns the model from the cache, or compiles it for the first example for which it can.

        Args:
            number: distinguishes models that were compiled for different examples, from 0.
            examples: examples of input shapes, by operand. They affect for which other shapes the
                code is valid, and fast.
            limits: the limits of the execution that needs it.

        Returns:
            None if the model cannot be compiled, or only for each example alone.
        """
        ...

    def kept(self, number: int) -> OpenModel | None:
        """Returns the model from the cache; None if it is not there.

        Args:
            number: see `get`.
        """
        ...
