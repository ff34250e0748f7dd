"""Recipes: tensors that are joined, split, indexed or reshaped."""

import numpy as np

from neurald.service.conformance.recipes.recipe import RecipeArguments, RecipeRequest, integers


def concatenation(order: RecipeRequest) -> RecipeArguments:
    """Draws tensors that differ along one axis."""
    draw = order.draw
    shape = draw.shape(1, 4)
    axis = draw.integer(0, len(shape) - 1)
    lengths = [draw.integer(1, 4) for _ in range(draw.integer(1, 4))]
    shapes = [(*shape[:axis], length, *shape[axis + 1 :]) for length in lengths]
    return {"inputs": shapes, "axis": axis - len(shape) if draw.chance(0.3) else axis}


def alike(order: RecipeRequest) -> RecipeArguments:
    """Draws several tensors of equal shape."""
    shape = order.draw.shape(0, 4)
    return {"inputs": [shape] * order.draw.integer(1, 4), "axis": order.draw.integer(0, len(shape))}


def split(order: RecipeRequest) -> RecipeArguments:
    """Draws a tensor that can be split into equal parts."""
    draw = order.draw
    splits = draw.integer(1, 3)
    shape = list(draw.lengths(1, 4))
    axis = draw.integer(0, len(shape) - 1)
    shape[axis] = splits * draw.integer(1, 3)
    return {"input": tuple(shape), "axis": axis, "splits": splits, "#outputs": splits}


def split_sizes(order: RecipeRequest) -> RecipeArguments:
    """Draws a tensor, and lengths that add up to one of its axes."""
    draw = order.draw
    sizes = [draw.integer(1, 3) for _ in range(draw.integer(1, 3))]
    shape = list(draw.lengths(1, 4))
    axis = draw.integer(0, len(shape) - 1)
    shape[axis] = sum(sizes)
    return {"input": tuple(shape), "axis": axis, "sizes": integers(sizes), "#outputs": len(sizes)}


def unpack(order: RecipeRequest) -> RecipeArguments:
    """Draws a tensor to be unpacked along an axis."""
    draw = order.draw
    shape = [draw.integer(1, 4) for _ in range(draw.integer(1, 4))]
    axis = draw.integer(0, len(shape) - 1)
    return {"input": tuple(shape), "axis": axis, "#outputs": shape[axis]}


def gather(order: RecipeRequest) -> RecipeArguments:
    """Draws indices inside an axis."""
    draw = order.draw
    shape = draw.lengths(1, 4)
    axis = draw.integer(0, len(shape) - 1)
    where = draw.shape(0, 2)
    indices = np.array([draw.integer(0, shape[axis] - 1) for _ in range(int(np.prod(where)))], np.int64)
    return {"values": shape, "axis": axis, "indices": indices.reshape(where), "batch_dims": 0}


def gather_coordinates(order: RecipeRequest) -> RecipeArguments:
    """Draws coordinates inside a tensor."""
    draw = order.draw
    shape = draw.lengths(1, 4)
    depth, count = draw.integer(1, len(shape)), draw.length()
    places = [[draw.integer(0, length - 1) for length in shape[:depth]] for _ in range(count)]
    return {"values": shape, "indices": np.array(places, np.int64)}


def lookup(order: RecipeRequest) -> RecipeArguments:
    """Draws rows to be looked up by index, or by a key that may be missing."""
    draw = order.draw
    rows = draw.length()
    keys = sorted(draw.sample(range(20), rows))
    count = draw.length()
    if not order.has("keys"):
        lookups = [draw.integer(0, rows - 1) for _ in range(count)]
        return {"lookups": integers(lookups), "values": (rows, draw.length())}
    lookups = [draw.choice(keys) if draw.chance(0.7) else draw.integer(0, 20) for _ in range(count)]
    values = (rows, draw.length())
    return {"lookups": integers(lookups), "keys": integers(keys), "values": values}


def hashed(order: RecipeRequest) -> RecipeArguments:
    """Draws hash functions, and rows to apply them to."""
    draw = order.draw
    rows = draw.length()
    return {
        "hash": (draw.integer(1, 3), draw.integer(1, 8)),
        "input": (rows, draw.length()),
        "weight": (rows,) if draw.chance(0.5) else None,
        "type": draw.choice((1, 3)),
    }


def densify(order: RecipeRequest) -> RecipeArguments:
    """Draws a tensor with dense levels only."""
    levels = sum(name.startswith("segments_") for name in order.inputs)
    lengths = [order.draw.integer(1, 3) for _ in range(levels)]
    found: RecipeArguments = {
        "input": (int(np.prod(lengths)),),
        "order": integers(range(levels)),
        "block_map": None,
        "formats": integers([0] * levels),
        "lengths": integers(lengths),
    }
    return found | {name: None for name in order.inputs if name.startswith(("segments_", "indices_"))}


def reshape(order: RecipeRequest) -> RecipeArguments:
    """Draws a shape with the same number of elements, one length of which may be unspecified."""
    draw = order.draw
    shape = draw.lengths(1, 4)
    split = draw.integer(0, len(shape))
    sizes = [int(np.prod(shape[:split])), int(np.prod(shape[split:]))]
    if draw.chance(0.3):
        sizes[draw.integer(0, 1)] = -1
    return {"input": shape, "shape": integers(sizes)}


def squeeze(order: RecipeRequest) -> RecipeArguments:
    """Draws a tensor with some lengths of 1."""
    draw = order.draw
    shape = tuple(1 if draw.chance(0.5) else draw.length() for _ in range(draw.integer(1, 4)))
    ones = [axis for axis, length in enumerate(shape) if length == 1]
    return {"input": shape, "axes": integers(ones) if ones and draw.chance(0.6) else None}


def broadcast(order: RecipeRequest) -> RecipeArguments:
    """Draws a shape that the tensor broadcasts to."""
    draw = order.draw
    whole = draw.lengths(1, 4)
    return {"input": draw.partner(whole), "shape": integers(whole)}


def shuffle(order: RecipeRequest) -> RecipeArguments:
    """Draws a tensor whose axis can be divided into groups."""
    draw = order.draw
    groups = draw.integer(1, 3)
    shape = list(draw.lengths(1, 4))
    axis = draw.integer(0, len(shape) - 1)
    shape[axis] = groups * draw.integer(1, 3)
    return {"input": tuple(shape), "groups": groups, "axis": axis}


def fill(order: RecipeRequest) -> RecipeArguments:
    """Draws a shape."""
    shape = order.draw.shape(1, 4)
    return {"dimensions": integers(shape), "shape": integers(shape)}


def segments(order: RecipeRequest) -> RecipeArguments:
    """Draws segment numbers in ascending order, one for each row."""
    draw = order.draw
    shape = draw.lengths(1, 3)
    return {
        "input": shape,
        "segments": integers(sorted(draw.integer(0, 3) for _ in range(shape[0]))),
        "count": 4,
    }


def diagonal(order: RecipeRequest) -> RecipeArguments:
    """Draws stacks of matrices, and their diagonals."""
    draw = order.draw
    outer, rows, columns = draw.shape(0, 2), draw.length(), draw.length()
    return {"input": (*outer, rows, columns), "diagonal": (*outer, min(rows, columns))}
