"""Enumerates the cases of a signature that do not depend on a seed.

Structural cases cover layouts, padding, ranks, broadcasting, empty and long dimensions and optional
arguments. For each choice a random case is drawn.

Each signature also has a base case. Its neighbours differ from it in one parameter, scale, zero
point or constant. Their inputs are chosen so that the results differ, which detects devices that
ignore the parameter or confuse models.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np

from neurald.hal.errors import BadData, OpFailed
from neurald.hal.execution.output_comparison import describe_difference
from neurald.hal.model.graph import Operand
from neurald.hal.model.quantization import QUANTIZED
from neurald.hal.model.types import FusedActivation, OperandType, PaddingScheme
from neurald.hal.operations.machinery.call import Array, Shape, UnknownValue
from neurald.hal.records import replace
from neurald.service.conformance.cases.case import Case, CaseSignature, generate_pinned
from neurald.service.conformance.cases.elements import elements
from neurald.service.conformance.cases.selection import ALL_CASES, CaseSelection
from neurald.service.conformance.recipes.draw import (
    BROADCAST,
    BROADCASTS,
    COUNT,
    EMPTY,
    GIVEN,
    LONG,
    OMITTED,
    RANK,
    SCALE,
    Draw,
)

#: Number of draws for a choice, which not every signature supports.
_MAX_ATTEMPTS = 12
#: Number of draws from which the base case is chosen.
_MAX_BASE_DRAWS = 12
#: Number of draws of inputs for which a neighbour's result differs.
_MAX_RESEEDS = 4
#: A base case with this many output elements is large enough.
_ENOUGH_ELEMENTS = 6
_MAX_RANK = 5
#: More optional arguments than this depend on each other. Instead of each of them, this many
#: selections are drawn.
_MAX_INDEPENDENT, _SELECTIONS = 4, 8
_BASE_RANK = 3
#: Inputs of operations with an activation are multiples of this number.
_STEP = 1 / 8

_ACTIVATIONS = tuple(FusedActivation)
_SWAPPED = (
    ("padding_left", "padding_right"),
    ("padding_top", "padding_bottom"),
    ("stride_width", "stride_height"),
    ("dilation_width", "dilation_height"),
    ("filter_width", "filter_height"),
)
_PER_CHANNEL = OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL


def structural_cases(signature: CaseSignature, selection: CaseSelection = ALL_CASES) -> Iterator[Case]:
    """Yields the selected structural cases of a signature."""
    seen = set()
    for label, pinned in selection.apply(_choices(signature)):
        seed = int(pinned.get("#group", 0))
        case = generate_pinned(signature, seed, {EMPTY: False} | dict(pinned), label, _MAX_ATTEMPTS)
        if case is not None and label not in seen:
            seen.add(label)
            yield case


def _choices(signature: CaseSignature) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the label and the pinned choices of each structural case."""
    form = signature.definition.forms[signature.form]
    names = {parameter.name for parameter in form.inputs}
    counts = form.input_counts()
    for count in counts if len(counts) > 1 else ():
        yield f"{count} inputs", {COUNT: count}
    yield from _window_choices(names, max(counts), signature.row)
    free = next((p for p in form.inputs if isinstance(p.types, str)), None)
    low, high = (0, 0) if free is None else free.ranks
    for rank in range(low, min(high, _MAX_RANK) + 1) if low < high else ():
        yield f"rank {rank}", {RANK: rank}
    yield "empty", {EMPTY: True}
    yield "long", {LONG: True}
    if {"input1", "input2"} <= names:
        for how in BROADCASTS:
            yield how, {BROADCAST: how, RANK: min(high, _BASE_RANK)}
    optional = [parameter.name for parameter in form.inputs if parameter.optional]
    if len(optional) > _MAX_INDEPENDENT:
        # The recipe draws a valid selection of them for each number.
        for number in range(_SELECTIONS):
            yield f"group {number}", {"#group": number}
        return
    for name in optional:
        yield f"without {name}", {OMITTED: name}
        yield f"with {name}", {GIVEN: name}


def _window_choices(names: set[str], count: int, row: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields combinations of layouts, padding schemes, strides and dilations.

    The first row of types has all combinations, the other rows some of them.
    """
    layouts: list[Sequence[Mapping[str, Any]]] = []
    if "nchw" in names:
        layouts.append([{"nchw": False}, {"nchw": True}])
    if "padding_scheme" in names:
        layouts.append([{"padding_scheme": int(scheme)} for scheme in PaddingScheme])
    steps: list[Sequence[Mapping[str, Any]]] = []
    for kind in ("stride", "dilation"):
        if {f"{kind}_width", f"{kind}_height"} <= names:
            sides = ((1, 1), (2, 2), (2, 1) if kind == "stride" else (1, 2))
            steps.append([{f"{kind}_width": width, f"{kind}_height": height} for width, height in sides])
    if not layouts and not steps:
        return
    combinations_of_steps = list(product(*steps))
    for number, layout in enumerate(product(*layouts)):
        for position, step in enumerate(combinations_of_steps):
            if row and (position + number + row) % min(3, len(combinations_of_steps)):
                continue
            pinned = {name: value for each in (*layout, *step) for name, value in each.items()}
            label = " ".join(f"{name}={value!r}" for name, value in pinned.items())
            # In some forms the parameters only exist if all inputs are given.
            yield label, pinned | {COUNT: count}


def base_case(signature: CaseSignature) -> Case | None:
    """Returns the base case of a signature; None if no valid call was found.

    It has enough elements for its neighbours to have different results.
    """
    form = signature.definition.forms[signature.form]
    pinned: dict[str, Any] = {EMPTY: False, COUNT: max(form.input_counts()), SCALE: 0.1}
    free = next((p for p in form.inputs if isinstance(p.types, str)), None)
    has_activation = any(parameter.name == "activation" for parameter in form.inputs)
    if has_activation:
        pinned["activation"] = 0
    best: tuple[int, Case] | None = None
    for seed in range(_MAX_BASE_DRAWS):
        # Operations of several ranks are drawn with a medium rank and with any rank alternately.
        ranked = {RANK: min(max(_BASE_RANK, free.ranks[0]), free.ranks[1])} if free and seed % 2 == 0 else {}
        case = generate_pinned(signature, seed, pinned | ranked, "base", _MAX_ATTEMPTS)
        if case is None:
            continue
        if has_activation:
            case = reseeded(case, seed, spread=6.0) or case
        score = min(sum(value.size for value in case.expected), _ENOUGH_ELEMENTS)
        score += 10 * _distinguished_activations(case) if has_activation else 0
        if best is None or score > best[0]:
            best = score, case
        if score >= _ENOUGH_ELEMENTS + (
            10 * len(list(combinations(_ACTIVATIONS, 2))) if has_activation else 0
        ):
            break
    return None if best is None else best[1]


def _elements(case: Case, position: int, draw: Draw, shape: Shape, spread: float = 2.0) -> Array:
    """Draws other elements of an input.

    Operations with an activation sum products. Their inputs are multiples of a power of two, whose
    sums are exact in any order. Otherwise large numbers could cancel, which exposes rounding.
    """
    positions = _positions(case)
    (name,) = (name for name, indexes in positions.items() if position in indexes)
    step = _STEP if any(each.endswith("activation") for each in positions) else 0.0
    return elements(draw, case.type, name, case.operands[position].type, shape, spread=spread, step=step)


def _distinguished_activations(case: Case) -> int:
    """Returns the number of pairs of activations with different results."""
    position = _positions(case)["activation"][0]
    cases = [_changed_value(case, position, np.asarray(int(each)), "") for each in _ACTIVATIONS]
    return sum(
        first is not None and second is not None and _differ(first, second)
        for first, second in combinations(cases, 2)
    )


def reseeded(case: Case, seed: int, spread: float = 2.0) -> Case | None:
    """Returns a case with the same model and other inputs.

    Returns None if other inputs are invalid, or change the shapes of outputs.
    """
    draw = Draw("inputs", case.identifier, seed)
    values = list(case.values)
    for position in sorted(case.free & set(case.model_inputs)):
        old = values[position]
        if old is not None:
            values[position] = _elements(case, position, draw, old.shape, spread)
    found = _changed_or_none(case, values=values)
    if found is None or [e.shape for e in found.expected] != [e.shape for e in case.expected]:
        return None
    return replace(found, model=case.model)


def neighbours(case: Case, selection: CaseSelection = ALL_CASES) -> Iterator[Case]:
    """Yields the selected neighbours of a base case."""
    seen = set()
    for neighbour in selection.apply(filter(None, _changes(case))):
        if neighbour.label in seen:
            continue
        found = _distinguishable(case, neighbour)
        if found is not None:
            seen.add(neighbour.label)
            yield found
    yield from selection.apply(_constant_variants(case))


def _distinguishable(case: Case, neighbour: Case) -> Case | None:
    """Returns the neighbour with inputs for which its results differ from those of the base case.

    Returns None if no such inputs are found. Activations and axes are returned in any case.
    """
    if _differ(case, neighbour):
        return neighbour
    for seed in range(_MAX_RESEEDS):
        first, second = reseeded(case, seed, spread=6.0), _with_inputs_of(case, neighbour, seed)
        if first is not None and second is not None and _differ(first, second):
            return second
    return neighbour if neighbour.label.startswith(("activation=", "axis=")) else None


def _with_inputs_of(case: Case, neighbour: Case, seed: int) -> Case | None:
    other = reseeded(case, seed, spread=6.0)
    if other is None:
        return None
    values = [
        other.values[position] if position in case.free else value
        for position, value in enumerate(neighbour.values)
    ]
    return _changed_or_none(neighbour, values=values)


def _differ(first: Case, second: Case) -> bool:
    """Returns True if the results of the cases differ by more than the tolerances."""
    if len(first.expected) != len(second.expected):
        return True
    kinds = [operand.type for operand in first.operands[len(first.values) :]]
    return any(
        describe_difference(first.type, kind, one, other, relaxed=first.relaxed or second.relaxed)
        for kind, one, other in zip(kinds, first.expected, second.expected, strict=True)
    )


def _changed_or_none(
    case: Case,
    *,
    label: str | None = None,
    values: Sequence[Array | None] | None = None,
    operands: Sequence[Operand] | None = None,
    model_inputs: Sequence[int] | None = None,
) -> Case | None:
    try:
        return case.changed(label=label, values=values, operands=operands, model_inputs=model_inputs)
    except (BadData, OpFailed, UnknownValue, ValueError, OverflowError):
        return None


def _positions(case: Case) -> Mapping[str, tuple[int, ...]]:
    return case.signature.definition.bind(case.operation, case.operands, values_known=False).inputs


def _changed_value(case: Case, position: int, value: Array, label: str) -> Case | None:
    values = list(case.values)
    values[position] = np.asarray(value, case.operands[position].type.dtype)
    return _changed_or_none(case, label=label, values=values)


def _changes(case: Case) -> Iterator[Case | None]:
    positions = _positions(case)
    names = {index: name for name, indexes in positions.items() for index in indexes}
    for position, value in enumerate(case.values):
        if value is None or position in case.free:
            continue
        name = names[position]
        for label, changed in _other_values(name, value, case):
            yield _changed_value(case, position, changed, f"{name}={label}")
    for first, second in _SWAPPED:
        if first in positions and second in positions:
            values = list(case.values)
            (one,), (other,) = positions[first], positions[second]
            value, swapped = values[one], values[other]
            if value is not None and swapped is not None and np.array_equal(value, swapped):
                values[one] = np.asarray(value + 1, value.dtype)
                yield _changed_or_none(case, label=f"{first}+1", values=values)
            values[one], values[other] = values[other], values[one]
            yield _changed_or_none(case, label=f"{first} and {second} swapped", values=values)
    yield from _quantization_changes(case, names)


def _other_values(name: str, value: Array, case: Case) -> Iterator[tuple[str, Array]]:
    """Yields other values for a parameter, each with a label."""
    if value.dtype.kind not in "iuf" and value.dtype.kind != "b":
        return
    if value.ndim or value.size > 1:
        yield from _other_arrays(value)
        return
    number = value.item()
    candidates: Sequence[float | int | bool]
    if value.dtype.kind == "b":
        candidates = (not number,)
    elif value.dtype.kind == "f":
        candidates = (number * 1.5 + 0.125,)
    elif name in ("activation", "cell_activation"):
        candidates = _ACTIVATIONS
    elif name == "axis":
        ranks = [given.ndim for index in case.free if (given := case.values[index]) is not None]
        rank = max(ranks, default=0)
        candidates = range(-rank, rank)
    elif name.startswith(("stride_", "dilation_")):
        candidates = (1, 2, 3)
    else:
        candidates = (number + 1, number - 1)
    for candidate in candidates:
        if candidate != number:
            text = repr(int(candidate)) if value.dtype.kind in "iu" else repr(candidate)
            text = candidate.name if isinstance(candidate, FusedActivation) else text
            yield text, np.asarray(candidate, value.dtype)


def _other_arrays(value: Array) -> Iterator[tuple[str, Array]]:
    flat = value.reshape(-1)
    if value.dtype.kind == "f":
        yield "other numbers", value * np.asarray(1.25, value.dtype)
        return
    if value.dtype.kind == "b" or not flat.size:
        return
    yield "reversed", flat[::-1].reshape(value.shape)
    for position, step in ((0, 1), (flat.size - 1, -1)):
        changed = flat.astype(np.int64)
        changed[position] += step
        yield f"element {position} {step:+d}", changed.reshape(value.shape)
    yield "turned negative", value - max(1, flat.size)


def _quantization_changes(case: Case, names: Mapping[int, str]) -> Iterator[Case | None]:
    """Yields cases with another scale or zero point of one operand."""
    outputs = len(case.values)
    for index, operand in enumerate(case.operands):
        if index < outputs and case.values[index] is None:
            continue
        name = names.get(index, f"output {index - outputs}")
        if operand.type is _PER_CHANNEL and operand.channel_quant is not None:
            scales = operand.channel_quant.scales
            other = replace(operand.channel_quant, scales=(*scales[:-1], scales[-1] * 1.5))
            yield _with_operand(case, index, replace(operand, channel_quant=other), f"scales of {name}")
        elif operand.type in QUANTIZED and operand.scale:
            # Some operations only accept larger or smaller scales, and zero points have limits.
            for factor in (1.5, 0.5):
                changed = replace(operand, scale=float(np.float32(operand.scale * factor)))
                found = _with_operand(case, index, changed, f"scale of {name} times {factor}")
                if found is not None:
                    yield found
                    break
            for step in (5, -5):
                changed = replace(operand, zero_point=operand.zero_point + step)
                found = _with_operand(case, index, changed, f"zero point of {name} {step:+d}")
                if found is not None:
                    yield found
                    break


def _with_operand(case: Case, index: int, operand: Operand, label: str) -> Case | None:
    operands = list(case.operands)
    operands[index] = operand
    found = _changed_or_none(case, label=label, operands=operands)
    if found is not None or len(case.values) < 3:
        return found
    # The scale of a bias must be the product of the first two scales.
    product_of_scales = float(np.float32(operands[0].scale) * np.float32(operands[1].scale))
    if operands[2].type is not OperandType.TENSOR_INT32 or not operands[2].scale:
        return None
    operands[2] = replace(operands[2], scale=product_of_scales)
    return _changed_or_none(case, label=label, operands=operands)


def _constant_variants(case: Case) -> Iterator[Case]:
    """Yields the base case with other choices of constants and inputs of the model."""
    names = {index: name for name, indexes in _positions(case).items() for index in indexes}
    draw = Draw("constants", case.identifier)
    for position in sorted(case.free):
        rest = tuple(index for index in case.model_inputs if index != position)
        value = case.values[position]
        if not rest or value is None:
            continue
        constant = _changed_or_none(case, label=f"constant {names[position]} {position}", model_inputs=rest)
        if constant is None:
            continue
        yield constant
        values = list(case.values)
        values[position] = _elements(case, position, draw, value.shape)
        other = _changed_or_none(constant, label=f"{constant.label}, other values", values=values)
        if other is not None and _differ(constant, other):
            yield other
    weights = tuple(index for index in case.model_inputs[1:])
    if len(weights) > 1:
        constants = _changed_or_none(case, label="constant weights", model_inputs=case.model_inputs[:1])
        if constants is not None:
            yield constants
    run_time_inputs = tuple(
        index
        for index, value in enumerate(case.values)
        if value is not None and (index in case.free or case.operands[index].type.is_tensor)
    )
    if run_time_inputs != case.model_inputs:
        at_run_time = _changed_or_none(case, label="all tensors at run time", model_inputs=run_time_inputs)
        if at_run_time is not None:
            yield at_run_time
