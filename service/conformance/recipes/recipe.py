"""A recipe draws tensor shapes and control values that are valid together for an operation.

It maps the name of each parameter to one of these:

- a `Shape`, for a tensor with arbitrary elements;
- a number or an array, for a value that controls the operation;
- a list of those, for a variadic parameter;
- None, for an omitted input.

Other parameters get a value by their name (`CONTROL_VALUES`), or a random one. A recipe may produce
invalid arguments. They are drawn again if the checks of the operation reject them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from neurald.hal.operations.machinery.call import Array, Shape
from neurald.hal.operations.machinery.signature import Form
from neurald.service.conformance.recipes.draw import Draw

#: Shapes and values by parameter name.
RecipeArguments = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeRequest:
    """A request to a recipe.

    Attributes:
        draw: the source of random choices.
        form: the form of the operation.
        inputs: the names of the inputs that are needed.
    """

    draw: Draw
    form: Form
    inputs: tuple[str, ...]

    def has(self, name: str) -> bool:
        """Returns True if an input is needed."""
        return name in self.inputs

    def ranks(self, name: str) -> tuple[int, int]:
        """Returns the lowest and highest rank of an input."""
        return next(each.ranks for each in self.form.inputs if each.name == name)

    def image(self, *, batches: int, height: int, width: int, channels: int, nchw: bool) -> Shape:
        """Returns the shape of a feature map in the requested layout."""
        return (batches, channels, height, width) if nchw else (batches, height, width, channels)

    def nchw(self) -> bool:
        """Draws whether the data is NCHW, if the form has that parameter."""
        return self.has("nchw") and bool(self.pinned("nchw", self.draw.chance(0.4)))

    def pinned(self, name: str, drawn: Any) -> Any:
        """Returns the pinned value of a parameter, or the drawn one if none is pinned."""
        return self.draw.pinned.get(name, drawn)


#: Draws the arguments of an operation.
Recipe = Callable[[RecipeRequest], RecipeArguments]


def integers(values: Iterable[int]) -> Array:
    """Returns integers as an array. It is converted to the type of the parameter later."""
    return np.array(list(values), np.int64)
