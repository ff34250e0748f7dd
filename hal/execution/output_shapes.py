"""The optional interface of prepared models that know the shapes of their outputs."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from neurald.hal.device import PreparedModel

_Shape: TypeAlias = tuple[int, ...]


class InfersOutputShapes(Protocol):
    """An optional interface of a prepared model with open dimensions in this process.

    To infer the shapes from all operations takes longer than a small model runs.
    """

    def output_shapes(self, shapes: Sequence[_Shape | None]) -> Sequence[_Shape] | None:
        """Returns the shapes of the outputs for given shapes of the inputs.

        Args:
            shapes: the shapes of the inputs in order; None for one that is omitted. Variables, the
                last inputs, may be left out.

        Returns:
            The shapes; None if they are not known, or if the model may refuse such inputs.
        """
        ...


def inferred_output_shapes(
    prepared_model: PreparedModel | None, shapes: Sequence[_Shape | None]
) -> Sequence[_Shape] | None:
    """Calls `output_shapes`; returns None also for a prepared model without it."""
    infer: Callable[[Sequence[_Shape | None]], Sequence[_Shape] | None] | None
    infer = getattr(prepared_model, "output_shapes", None)
    return None if infer is None else infer(shapes)
