"""Recipes: tensors for elementwise arithmetic and matrix products."""

from neurald.service.conformance.recipes.recipe import RecipeArguments, RecipeRequest


def same(order: RecipeRequest) -> RecipeArguments:
    """Draws two tensors that broadcast."""
    names = [name for name in ("input1", "input2") if order.has(name)]
    low, high = order.ranks(names[0])
    first, second = order.draw.pair(low, high)
    return {"input1": first, "input2": second}


def equal(order: RecipeRequest) -> RecipeArguments:
    """Draws tensors of equal shape."""
    shape = order.draw.shape(*order.ranks("input1"))
    return {"condition": shape, "input1": shape, "input2": shape}


def prelu(order: RecipeRequest) -> RecipeArguments:
    """Draws a tensor, and slopes that broadcast with it."""
    shape = order.draw.shape(1, 4)
    return {"input": shape, "alpha": order.draw.partner(shape, 1)}


def fully_connected(order: RecipeRequest) -> RecipeArguments:
    """Draws a matrix, with fitting weights and a bias."""
    draw = order.draw
    batches, size, units = draw.batches(3), draw.length(), draw.channels(7)
    return {"input": (batches, size), "filter": (units, size), "bias": (units,), "keep_dimensions": False}


def matrix_product(order: RecipeRequest) -> RecipeArguments:
    """Draws stacks of matrices, each of which may be transposed."""
    draw = order.draw
    rows, inner, columns = draw.length(), draw.length(), draw.channels(7)
    outer = draw.shape(0, 2)
    first, second = draw.chance(0.4), draw.chance(0.4)
    return {
        "input1": (*outer, *((inner, rows) if first else (rows, inner))),
        "input2": (*outer, *((columns, inner) if second else (inner, columns))),
        "adjoint1": first,
        "adjoint2": second,
    }


def one_rank(order: RecipeRequest) -> RecipeArguments:
    """Draws arguments that must have rank 4 or a last dimension that is not empty."""
    draw = order.draw
    return {"input": draw.lengths(1, 4)}
