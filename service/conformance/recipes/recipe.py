"""Arguments that go together: for each operation the shapes of its tensors and the values of what steers it.

A recipe gives, by the name of a parameter, a `Shape` for a tensor of any elements, a number or an array for a value that
matters, a list of those for a variadic parameter, or None for an argument that is left out. What a recipe does not name
follows from the parameter's name (`GENERAL`), or is random. A recipe need not be right every time: what the operation's own
checks refuse is drawn again.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from neurald.hal.operations.machinery.call import Array, Shape
from neurald.hal.operations.machinery.signature import Form
from neurald.service.conformance.recipes.draw import Draw

Arguments = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a recipe is for: a form of an operation, and how many of its inputs are given."""

    draw: Draw
    form: Form
    inputs: tuple[str, ...]

    def has(self, name: str) -> bool:
        """Whether that input is given."""
        return name in self.inputs

    def ranks(self, name: str) -> tuple[int, int]:
        """The lowest and highest rank of an input."""
        return next(each.ranks for each in self.form.inputs if each.name == name)

    def image(self, *, batches: int, height: int, width: int, channels: int, nchw: bool) -> Shape:
        """The shape of a feature map in the layout that is asked for."""
        return (batches, channels, height, width) if nchw else (batches, height, width, channels)

    def nchw(self) -> bool:
        """Whether the data are to be NCHW."""
        return self.has("nchw") and bool(self.pinned("nchw", self.draw.chance(0.4)))

    def pinned(self, name: str, drawn: Any) -> Any:
        """The value of a parameter that is pinned, or what was drawn for it."""
        return self.draw.pinned.get(name, drawn)


Recipe = Callable[[Order], Arguments]


def integers(values: Iterable[int]) -> Array:
    """A list of integers as an array, whatever integer type the parameter has."""
    return np.array(list(values), np.int64)
