"""Recipes for elementwise arithmetic and matrix products."""

from neurald.service.conformance.recipes.recipe import RecipeArguments, RecipeRequest


def same(request: RecipeRequest) -> RecipeArguments:
    """Draws two tensors that broadcast."""
    names = [name for name in ("input1", "input2") if request.has(name)]
    low, high = request.ranks(names[0])
    first, second = request.draw.pair(low, high)
    return {"input1": first, "input2": second}


def equal(request: RecipeRequest) -> RecipeArguments:
    """Draws tensors of equal shape."""
    shape = request.draw.shape(*request.ranks("input1"))
    return {"condition": shape, "input1": shape, "input2": shape}


def prelu(request: RecipeRequest) -> RecipeArguments:
    """Draws a tensor and slopes that broadcast to it."""
    shape = request.draw.shape(1, 4)
    return {"input": shape, "alpha": request.draw.partner(shape, 1)}


def fully_connected(request: RecipeRequest) -> RecipeArguments:
    """Draws a matrix, and weights and a bias of matching shapes."""
    draw = request.draw
    batches, size, units = draw.batches(3), draw.length(), draw.channels(7)
    return {"input": (batches, size), "filter": (units, size), "bias": (units,), "keep_dimensions": False}


def matrix_product(request: RecipeRequest) -> RecipeArguments:
    """Draws stacks of matrices, each of which may be transposed."""
    draw = request.draw
    rows, inner, columns = draw.length(), draw.length(), draw.channels(7)
    outer = draw.shape(0, 2)
    first, second = draw.chance(0.4), draw.chance(0.4)
    return {
        "input1": (*outer, *((inner, rows) if first else (rows, inner))),
        "input2": (*outer, *((columns, inner) if second else (inner, columns))),
        "adjoint1": first,
        "adjoint2": second,
    }


def rank_1_to_4(request: RecipeRequest) -> RecipeArguments:
    """Draws a tensor of rank 1 to 4 without empty dimensions, unless one is pinned."""
    draw = request.draw
    return {"input": draw.lengths(1, 4)}
