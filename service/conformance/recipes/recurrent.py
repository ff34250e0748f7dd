"""Recipes for recurrent networks."""

from neurald.hal.operations.machinery.call import Shape
from neurald.hal.operations.machinery.signature import Form
from neurald.service.conformance.recipes.recipe import RecipeArguments, RecipeRequest


def recurrent(request: RecipeRequest) -> RecipeArguments:
    """Draws a sequence or one step, with weights and states of matching shapes."""
    draw = request.draw
    batches, size, units, steps = (
        draw.integer(1, 3),
        draw.integer(1, 4),
        draw.integer(1, 4),
        draw.integer(1, 3),
    )
    time_major = draw.chance(0.5)
    sequence = (steps, batches, size) if time_major else (batches, steps, size)
    found: RecipeArguments = {
        "time_major": time_major,
        "merge_outputs": "bw_output" not in _outputs(request.form),
    }
    found["input"] = sequence if request.ranks("input") == (3, 3) else (batches, size)
    for name in request.inputs:
        ending = name.removeprefix("fw_").removeprefix("bw_")
        if ending in ("aux_input", "aux_weights"):
            found[name] = None
        elif ending == "weights":
            found[name] = (units, size)
        elif ending == "recurrent_weights":
            found[name] = (units, units)
        elif ending == "bias":
            found[name] = (units,)
        elif ending == "hidden_state_in":
            found[name] = (batches, units)
    return found


def _outputs(form: Form) -> tuple[str, ...]:
    return tuple(each.name for each in form.outputs)


def long_short_term_memory(request: RecipeRequest) -> RecipeArguments:
    """Draws a sequence or one step of an LSTM, in any combination of its optional parts."""
    draw = request.draw
    batches, size, cells, steps = (
        draw.integer(1, 2),
        draw.integer(1, 4),
        draw.integer(1, 4),
        draw.integer(1, 3),
    )
    projected, coupled = draw.chance(0.4), draw.chance(0.3)
    peephole, normalized = draw.chance(0.4), draw.chance(0.4)
    units = draw.integer(1, 4) if projected else cells
    time_major = draw.chance(0.5)
    sequence = (steps, batches, size) if time_major else (batches, steps, size)
    found: RecipeArguments = {
        "time_major": time_major,
        "merge_outputs": "bw_output" not in _outputs(request.form),
        "cell_activation": draw.choice((0, 1, 3, 4, 6)),
        "cell_clip": draw.choice((0.0, 3.0)),
        "projection_clip": draw.choice((0.0, 3.0)),
        "input": sequence if request.ranks("input") == (3, 3) else (batches, size),
    }
    shapes: list[tuple[str, Shape | None]] = [
        ("aux_input", None),
        ("layer_norm_weights", (cells,) if normalized else None),
        ("_intermediate_scale", None),
        ("input_to_", (cells, size)),
        ("recurrent_to_", (cells, units)),
        ("cell_to_", (cells,) if peephole else None),
        ("projection_weights", (units, cells) if projected else None),
        ("projection_bias", (units,) if projected and draw.chance(0.5) else None),
        ("bias", (cells,)),
        ("output_state_in", (batches, units)),
        ("cell_state_in", (batches, cells)),
    ]
    of_input_gate = (
        "input_to_input",
        "recurrent_to_input",
        "cell_to_input",
        "input_gate_bias",
        "input_layer_norm",
    )
    for name in request.inputs:
        shape = next((shape for part, shape in shapes if part in name), found.get(name))
        is_omitted = coupled and name.removeprefix("fw_").removeprefix("bw_").startswith(of_input_gate)
        if name not in found:
            found[name] = None if is_omitted else shape
    return {name: value for name, value in found.items() if value is not None or _is_optional(request, name)}


def _is_optional(request: RecipeRequest, name: str) -> bool:
    return any(each.name == name and each.optional for each in request.form.inputs)


def svdf(request: RecipeRequest) -> RecipeArguments:
    """Draws one step, with the filters and the state of each unit."""
    draw = request.draw
    batches, size, units, rank, memory = (draw.integer(1, 3) for _ in range(5))
    return {
        "input": (batches, size),
        "weights_feature": (units * rank, size),
        "weights_time": (units * rank, memory),
        "bias": (units,) if draw.chance(0.6) else None,
        "state_in": (batches, memory * units * rank),
        "rank": rank,
        "cell_activation": draw.integer(0, 1),
    }
