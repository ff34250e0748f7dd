"""Recipes: for each operation, tensor shapes and control values that fit together.

A recipe maps the name of a parameter to a `Shape` for a tensor of arbitrary elements, to a number
or an array for a value that matters, to a list of those for a variadic parameter, or to None for an
omitted argument. Parameters that a recipe omits get a value by their name (`RULES`), or a random
one. A recipe may produce invalid arguments: they are drawn again if the operation's own checks
reject them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from neurald.hal.operations.machinery.call import Array, Shape
from neurald.hal.operations.machinery.signature import Form
from neurald.service.conformance.recipes.draw import Draw

RecipeArguments = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeRequest:
    """Request to a recipe: a form of an operation, and the inputs to be given."""

    draw: Draw
    form: Form
    inputs: tuple[str, ...]

    def has(self, name: str) -> bool:
        """Returns True if that input is given."""
        return name in self.inputs

    def ranks(self, name: str) -> tuple[int, int]:
        """Returns the lowest and highest rank of an input."""
        return next(each.ranks for each in self.form.inputs if each.name == name)

    def image(self, *, batches: int, height: int, width: int, channels: int, nchw: bool) -> Shape:
        """Returns the shape of a feature map in the requested layout."""
        return (batches, channels, height, width) if nchw else (batches, height, width, channels)

    def nchw(self) -> bool:
        """Returns True if the data must be NCHW."""
        return self.has("nchw") and bool(self.pinned("nchw", self.draw.chance(0.4)))

    def pinned(self, name: str, drawn: Any) -> Any:
        """Returns the pinned value of a parameter, or else the drawn one."""
        return self.draw.pinned.get(name, drawn)


Recipe = Callable[[RecipeRequest], RecipeArguments]


def integers(values: Iterable[int]) -> Array:
    """Converts integers to an array, whatever integer type the parameter has."""
    return np.array(list(values), np.int64)
