"""Recipes for operations that concatenate, split, index or reshape tensors."""

import numpy as np

from neurald.service.conformance.recipes.recipe import RecipeArguments, RecipeRequest, integers


def concatenation(request: RecipeRequest) -> RecipeArguments:
    """Draws tensors that differ along one axis."""
    draw = request.draw
    shape = draw.shape(1, 4)
    axis = draw.integer(0, len(shape) - 1)
    lengths = [draw.integer(1, 4) for _ in range(draw.integer(1, 4))]
    shapes = [(*shape[:axis], length, *shape[axis + 1 :]) for length in lengths]
    return {"inputs": shapes, "axis": axis - len(shape) if draw.chance(0.3) else axis}


def alike(request: RecipeRequest) -> RecipeArguments:
    """Draws several tensors of equal shape."""
    shape = request.draw.shape(0, 4)
    return {"inputs": [shape] * request.draw.integer(1, 4), "axis": request.draw.integer(0, len(shape))}


def split(request: RecipeRequest) -> RecipeArguments:
    """Draws a tensor that can be split into equal parts."""
    draw = request.draw
    splits = draw.integer(1, 3)
    shape = list(draw.lengths(1, 4))
    axis = draw.integer(0, len(shape) - 1)
    shape[axis] = splits * draw.integer(1, 3)
    return {"input": tuple(shape), "axis": axis, "splits": splits, "#outputs": splits}


def split_sizes(request: RecipeRequest) -> RecipeArguments:
    """Draws a tensor, and lengths that add up to one of its axes."""
    draw = request.draw
    sizes = [draw.integer(1, 3) for _ in range(draw.integer(1, 3))]
    shape = list(draw.lengths(1, 4))
    axis = draw.integer(0, len(shape) - 1)
    shape[axis] = sum(sizes)
    return {"input": tuple(shape), "axis": axis, "sizes": integers(sizes), "#outputs": len(sizes)}


def unpack(request: RecipeRequest) -> RecipeArguments:
    """Draws a tensor to be unpacked along an axis."""
    draw = request.draw
    shape = [draw.integer(1, 4) for _ in range(draw.integer(1, 4))]
    axis = draw.integer(0, len(shape) - 1)
    return {"input": tuple(shape), "axis": axis, "#outputs": shape[axis]}


def gather(request: RecipeRequest) -> RecipeArguments:
    """Draws a tensor, and indices along one of its axes."""
    draw = request.draw
    shape = draw.lengths(1, 4)
    axis = draw.integer(0, len(shape) - 1)
    where = draw.shape(0, 2)
    indices = np.array([draw.integer(0, shape[axis] - 1) for _ in range(int(np.prod(where)))], np.int64)
    return {"values": shape, "axis": axis, "indices": indices.reshape(where), "batch_dims": 0}


def gather_coordinates(request: RecipeRequest) -> RecipeArguments:
    """Draws a tensor, and indices of its elements or slices."""
    draw = request.draw
    shape = draw.lengths(1, 4)
    depth, count = draw.integer(1, len(shape)), draw.length()
    coordinates = [[draw.integer(0, length - 1) for length in shape[:depth]] for _ in range(count)]
    return {"values": shape, "indices": np.array(coordinates, np.int64)}


def lookup(request: RecipeRequest) -> RecipeArguments:
    """Draws rows, and indices or keys to look them up by. A key may be missing."""
    draw = request.draw
    rows = draw.length()
    keys = sorted(draw.sample(range(20), rows))
    count = draw.length()
    if not request.has("keys"):
        lookups = [draw.integer(0, rows - 1) for _ in range(count)]
        return {"lookups": integers(lookups), "values": (rows, draw.length())}
    lookups = [draw.choice(keys) if draw.chance(0.7) else draw.integer(0, 20) for _ in range(count)]
    values = (rows, draw.length())
    return {"lookups": integers(lookups), "keys": integers(keys), "values": values}


def hashed(request: RecipeRequest) -> RecipeArguments:
    """Draws hash functions, and rows to apply them to."""
    draw = request.draw
    rows = draw.length()
    return {
        "hash": (draw.integer(1, 3), draw.integer(1, 8)),
        "input": (rows, draw.length()),
        "weight": (rows,) if draw.chance(0.5) else None,
        "type": draw.choice((1, 3)),
    }


def densify(request: RecipeRequest) -> RecipeArguments:
    """Draws a sparse tensor whose levels are all dense."""
    levels = sum(name.startswith("segments_") for name in request.inputs)
    lengths = [request.draw.integer(1, 3) for _ in range(levels)]
    found: RecipeArguments = {
        "input": (int(np.prod(lengths)),),
        "order": integers(range(levels)),
        "block_map": None,
        "formats": integers([0] * levels),
        "lengths": integers(lengths),
    }
    return found | {name: None for name in request.inputs if name.startswith(("segments_", "indices_"))}


def reshape(request: RecipeRequest) -> RecipeArguments:
    """Draws a tensor, and a shape with as many elements. One of its lengths may be -1."""
    draw = request.draw
    shape = draw.lengths(1, 4)
    split = draw.integer(0, len(shape))
    sizes = [int(np.prod(shape[:split])), int(np.prod(shape[split:]))]
    if draw.chance(0.3):
        sizes[draw.integer(0, 1)] = -1
    return {"input": shape, "shape": integers(sizes)}


def squeeze(request: RecipeRequest) -> RecipeArguments:
    """Draws a tensor with some lengths of 1."""
    draw = request.draw
    shape = tuple(1 if draw.chance(0.5) else draw.length() for _ in range(draw.integer(1, 4)))
    ones = [axis for axis, length in enumerate(shape) if length == 1]
    return {"input": shape, "axes": integers(ones) if ones and draw.chance(0.6) else None}


def broadcast(request: RecipeRequest) -> RecipeArguments:
    """Draws a tensor, and a shape that it broadcasts to."""
    draw = request.draw
    whole = draw.lengths(1, 4)
    return {"input": draw.partner(whole), "shape": integers(whole)}


def shuffle(request: RecipeRequest) -> RecipeArguments:
    """Draws a tensor whose axis can be divided into groups."""
    draw = request.draw
    groups = draw.integer(1, 3)
    shape = list(draw.lengths(1, 4))
    axis = draw.integer(0, len(shape) - 1)
    shape[axis] = groups * draw.integer(1, 3)
    return {"input": tuple(shape), "groups": groups, "axis": axis}


def fill(request: RecipeRequest) -> RecipeArguments:
    """Draws a shape."""
    shape = request.draw.shape(1, 4)
    return {"dimensions": integers(shape), "shape": integers(shape)}


def segments(request: RecipeRequest) -> RecipeArguments:
    """Draws segment numbers in ascending request, one for each row."""
    draw = request.draw
    shape = draw.lengths(1, 3)
    return {
        "input": shape,
        "segments": integers(sorted(draw.integer(0, 3) for _ in range(shape[0]))),
        "count": 4,
    }


def diagonal(request: RecipeRequest) -> RecipeArguments:
    """Draws stacks of matrices, and their diagonals."""
    draw = request.draw
    outer, rows, columns = draw.shape(0, 2), draw.length(), draw.length()
    return {"input": (*outer, rows, columns), "diagonal": (*outer, min(rows, columns))}
