"""Enumerates the cases of a signature that always run: forms of arguments, and neighbours.

Each signature has a base case. Its neighbours differ from it in a single parameter, scale, zero
point or constant, and are chosen such that their results differ: this detects devices that ignore
the parameter or confuse models. Structure (layouts, padding, ranks, broadcasting, empty and long
dimensions, optional arguments) is enumerated by random draws for each choice.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np

from neurald.hal.errors import BadData, OpFailed
from neurald.hal.model.quantization import QUANTIZED
from neurald.hal.model.types import FusedActivation, Operand, OperandType, PaddingScheme
from neurald.hal.operations.machinery.call import Array, Shape, UnknownValue
from neurald.service.conformance.cases.case import Case, Signature, generate_pinned
from neurald.service.conformance.cases.comparison import difference
from neurald.service.conformance.cases.depth import EVERY, Depth
from neurald.service.conformance.cases.elements import elements
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

#: Maximum number of draws for a choice that not every signature supports.
_ATTEMPTS = 12
_BASES = 12
_RESEEDS = 4
_ENOUGH_ELEMENTS = 6
_HIGHEST_RANK = 5
#: More optional arguments than this depend on one another; this many selections of them are drawn.
_INDEPENDENT, _GROUPED = 4, 8
_BASE_RANK = 3
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


def structural(signature: Signature, depth: Depth = EVERY) -> Iterator[Case]:
    """Yields a case for each form of the arguments, as selected."""
    seen = set()
    for label, pinned in depth.chosen(_choices(signature)):
        seed = int(pinned.get("#group", 0))
        case = generate_pinned(signature, seed, {EMPTY: False} | dict(pinned), label, _ATTEMPTS)
        if case is not None and label not in seen:
            seen.add(label)
            yield case


def _choices(signature: Signature) -> Iterator[tuple[str, Mapping[str, Any]]]:
    form = signature.definition.forms[signature.form]
    names = {parameter.name for parameter in form.inputs}
    counts = form.input_counts()
    for count in counts if len(counts) > 1 else ():
        yield f"{count} inputs", {COUNT: count}
    yield from _windows(names, max(counts), signature.row)
    free = next((p for p in form.inputs if isinstance(p.types, str)), None)
    low, high = (0, 0) if free is None else free.ranks
    for rank in range(low, min(high, _HIGHEST_RANK) + 1) if low < high else ():
        yield f"rank {rank}", {RANK: rank}
    yield "empty", {EMPTY: True}
    yield "long", {LONG: True}
    if {"input1", "input2"} <= names:
        for how in BROADCASTS:
            yield how, {BROADCAST: how, RANK: min(high, _BASE_RANK)}
    optional = [parameter.name for parameter in form.inputs if parameter.optional]
    if len(optional) > _INDEPENDENT:
        # They form groups, which the recipe knows.
        for number in range(_GROUPED):
            yield f"group {number}", {"#group": number}
        return
    for name in optional:
        yield f"without {name}", {OMITTED: name}
        yield f"with {name}", {GIVEN: name}


def _windows(names: set[str], count: int, row: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields layouts and padding schemes combined with strides and dilations.

    The first row of types has all combinations, the others some of them.
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
            # Some forms have these only if all their arguments are given.
            yield label, pinned | {COUNT: count}


def base(signature: Signature) -> Case | None:
    """Returns the base case, large enough for its neighbours to have different results."""
    form = signature.definition.forms[signature.form]
    pinned: dict[str, Any] = {EMPTY: False, COUNT: max(form.input_counts()), SCALE: 0.1}
    free = next((p for p in form.inputs if isinstance(p.types, str)), None)
    has_activation = any(parameter.name == "activation" for parameter in form.inputs)
    if has_activation:
        pinned["activation"] = 0
    best: tuple[int, Case] | None = None
    for seed in range(_BASES):
        # Operations of any rank are drawn with a medium one; if they reject it, with any that they
        # accept.
        ranked = {RANK: min(max(_BASE_RANK, free.ranks[0]), free.ranks[1])} if free and seed % 2 == 0 else {}
        case = generate_pinned(signature, seed, pinned | ranked, "base", _ATTEMPTS)
        if case is None:
            continue
        if has_activation:
            case = reseeded(case, seed, spread=6.0) or case
        score = min(sum(value.size for value in case.expected), _ENOUGH_ELEMENTS)
        score += 10 * _told_apart(case) if has_activation else 0
        if best is None or score > best[0]:
            best = score, case
        if score >= _ENOUGH_ELEMENTS + (
            10 * len(list(combinations(_ACTIVATIONS, 2))) if has_activation else 0
        ):
            break
    return None if best is None else best[1]


def _elements(case: Case, position: int, draw: Draw, shape: Shape, spread: float = 2.0) -> Array:
    """Draws other elements of an input.

    Operations with an activation sum products. Sums of multiples of a power of two are exact in any
    order; other large numbers may cancel out, which exposes rounding.
    """
    positions = _positions(case)
    (name,) = (name for name, indexes in positions.items() if position in indexes)
    step = _STEP if any(each.endswith("activation") for each in positions) else 0.0
    return elements(draw, case.type, name, case.operands[position].type, shape, spread=spread, step=step)


def _told_apart(case: Case) -> int:
    """Returns how many pairs of activations have different results."""
    position = _positions(case)["activation"][0]
    cases = [_changed_value(case, position, np.asarray(int(each)), "") for each in _ACTIVATIONS]
    return sum(
        first is not None and second is not None and _differ(first, second)
        for first, second in combinations(cases, 2)
    )


def reseeded(case: Case, seed: int, spread: float = 2.0) -> Case | None:
    """Returns the same model with other inputs.

    None if their elements matter, or determine shapes.
    """
    draw = Draw("inputs", case.identifier, seed)
    values = list(case.values)
    for position in sorted(case.free & set(case.entering)):
        old = values[position]
        if old is not None:
            values[position] = _elements(case, position, draw, old.shape, spread)
    found = _tried(case, values=values)
    if found is None or [e.shape for e in found.expected] != [e.shape for e in case.expected]:
        return None
    return replace(found, model=case.model)


def neighbours(case: Case, depth: Depth = EVERY) -> Iterator[Case]:
    """Yields cases that differ from a base case in one respect, preferably also in results."""
    seen = set()
    for neighbour in depth.chosen(filter(None, _changes(case))):
        if neighbour.label in seen:
            continue
        found = _telling(case, neighbour)
        if found is not None:
            seen.add(neighbour.label)
            yield found
    yield from depth.chosen(_constant_ones(case))


def _telling(case: Case, neighbour: Case) -> Case | None:
    """Returns the neighbour with inputs for which it differs from the base.

    None if none were found.
    """
    if _differ(case, neighbour):
        return neighbour
    for seed in range(_RESEEDS):
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
    return _tried(neighbour, values=values)


def _differ(first: Case, second: Case) -> bool:
    """Returns True if a device that confuses the two cases is detected."""
    if len(first.expected) != len(second.expected):
        return True
    kinds = [operand.type for operand in first.operands[len(first.values) :]]
    return any(
        difference(first.type, kind, one, other, relaxed=first.relaxed or second.relaxed)
        for kind, one, other in zip(kinds, first.expected, second.expected, strict=True)
    )


def _tried(
    case: Case,
    *,
    label: str | None = None,
    values: Sequence[Array | None] | None = None,
    operands: Sequence[Operand] | None = None,
    entering: Sequence[int] | None = None,
) -> Case | None:
    try:
        return case.changed(label=label, values=values, operands=operands, entering=entering)
    except (BadData, OpFailed, UnknownValue, ValueError, OverflowError):
        return None


def _positions(case: Case) -> Mapping[str, tuple[int, ...]]:
    return case.signature.definition.bind(case.operation, case.operands, values_known=False).inputs


def _changed_value(case: Case, position: int, value: Array, label: str) -> Case | None:
    values = list(case.values)
    values[position] = np.asarray(value, case.operands[position].type.dtype)
    return _tried(case, label=label, values=values)


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
            if values[one] is not None and np.array_equal(values[one], values[other]):  # type: ignore[arg-type]
                values[one] = np.asarray(values[one] + 1, values[one].dtype)  # type: ignore[operator, union-attr]
                yield _tried(case, label=f"{first}+1", values=values)
            values[one], values[other] = values[other], values[one]
            yield _tried(case, label=f"{first} and {second} swapped", values=values)
    yield from _quantised_otherwise(case, names)


def _other_values(name: str, value: Array, case: Case) -> Iterator[tuple[str, Array]]:
    """Yields similar values, each with a label."""
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
        rank = max((case.values[p].ndim for p in case.free if case.values[p] is not None), default=0)  # type: ignore[union-attr]
        candidates = range(-rank, rank)
    elif name.startswith(("stride_", "dilation_")):
        candidates = (1, 2, 3)
    elif name.startswith(("padding_", "filter_")):
        candidates = (number + 1, number - 1)
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
    for place, step in ((0, 1), (flat.size - 1, -1)):
        changed = flat.astype(np.int64)
        changed[place] += step
        yield f"element {place} {step:+d}", changed.reshape(value.shape)
    yield "turned negative", value - max(1, flat.size)


def _quantised_otherwise(case: Case, names: Mapping[int, str]) -> Iterator[Case | None]:
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
            # Some operations limit scales in one direction; all limit zero points.
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
    found = _tried(case, label=label, operands=operands)
    if found is not None or len(case.values) < 3:
        return found
    # The scale of a bias is the product of the first two.
    product_of_scales = float(np.float32(operands[0].scale) * np.float32(operands[1].scale))
    if operands[2].type is not OperandType.TENSOR_INT32 or not operands[2].scale:
        return None
    operands[2] = replace(operands[2], scale=product_of_scales)
    return _tried(case, label=label, operands=operands)


def _constant_ones(case: Case) -> Iterator[Case]:
    """Yields the base case with constant tensors, or with control arguments in the request."""
    names = {index: name for name, indexes in _positions(case).items() for index in indexes}
    draw = Draw("constants", case.identifier)
    for position in sorted(case.free):
        rest = tuple(index for index in case.entering if index != position)
        value = case.values[position]
        if not rest or value is None:
            continue
        constant = _tried(case, label=f"constant {names[position]} {position}", entering=rest)
        if constant is None:
            continue
        yield constant
        values = list(case.values)
        values[position] = _elements(case, position, draw, value.shape)
        other = _tried(constant, label=f"{constant.label}, other values", values=values)
        if other is not None and _differ(constant, other):
            yield other
    weights = tuple(index for index in case.entering[1:])
    if len(weights) > 1:
        constants = _tried(case, label="constant weights", entering=case.entering[:1])
        if constants is not None:
            yield constants
    steering = tuple(
        index
        for index, value in enumerate(case.values)
        if value is not None and (index in case.free or case.operands[index].type.is_tensor)
    )
    if steering != case.entering:
        at_run_time = _tried(case, label="all tensors at run time", entering=steering)
        if at_run_time is not None:
            yield at_run_time
