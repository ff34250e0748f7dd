"""Runs procedures with NumPy; `neurald.drivers.compiler.ir.algorithm` describes them."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from neurald.drivers.compiler.ir.algorithm import (
    CombinedRows,
    Distinct,
    Entropy,
    GreedySelection,
    HashSums,
    KeySearch,
    Positions,
    RescaledProduct,
    RunningSum,
    Sampling,
    Scatter,
    SoftSelection,
    StringEquality,
    StringSearch,
)
from neurald.drivers.compiler.ir.graph import Procedure
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.hal.operations.arithmetic.farmhash import fingerprint64
from neurald.hal.operations.detection.boxes import select_boxes
from neurald.hal.operations.detection.suppression import suppress
from neurald.hal.operations.tflite.detection.detection import select_apart
from neurald.hal.operations.tflite.detection.suppression import suppressed
from neurald.hal.operations.tflite.movement.sparse_embedding import combined_rows

Array = np.ndarray[Any, np.dtype[Any]]

_COMBINE: dict[ReductionOp, np.ufunc] = {
    ReductionOp.SUM: np.add,
    ReductionOp.PRODUCT: np.multiply,
    ReductionOp.MINIMUM: np.minimum,
    ReductionOp.MAXIMUM: np.maximum,
    ReductionOp.ANY: np.logical_or,
    ReductionOp.ALL: np.logical_and,
}


def run_procedure(node: Procedure, inputs: Sequence[Array]) -> Array:
    """Computes the output of a procedure from its inputs.

    Raises:
        NotImplementedError: it reads strings, which are not values; only compiled steps have them.
    """
    algorithm = node.algorithm
    if isinstance(algorithm, StringEquality | StringSearch):
        raise NotImplementedError("strings are only in the memory of compiled steps")
    if isinstance(algorithm, Scatter):
        return _scatter(node, algorithm, *inputs)
    if isinstance(algorithm, Positions):
        found = np.flatnonzero(inputs[0])
        return _listed(inputs[0].size, found, len(found))
    if isinstance(algorithm, Distinct):
        return _distinct(inputs[0])
    if isinstance(algorithm, KeySearch):
        return _found(*inputs)
    if isinstance(algorithm, Entropy):
        return inputs[0] if inputs[0].any() else np.frombuffer(os.urandom(16), np.uint64)
    if isinstance(algorithm, GreedySelection):
        boxes, rows = inputs
        return np.stack(
            [
                _selected(algorithm, boxes[number * len(boxes) // len(rows)], row)
                for number, row in enumerate(rows)
            ]
        )
    if isinstance(algorithm, Sampling):
        return _drawn(*inputs)
    if isinstance(algorithm, CombinedRows):
        destinations, numbers, weights, table = inputs
        result = np.zeros(node.output.shape, np.float32)
        return combined_rows(algorithm.combiner, destinations, numbers, weights, table, result)
    if isinstance(algorithm, HashSums):
        return _hash_sums(*inputs)
    if isinstance(algorithm, RescaledProduct):
        return _rescaled_product(algorithm, *inputs)
    if isinstance(algorithm, RunningSum):
        return _running_sum(algorithm, *inputs)
    if isinstance(algorithm, SoftSelection):
        return _selected_softly(algorithm, *inputs)
    boxes, scores, *limits = inputs
    iou_threshold, min_score, sigma = (float(each.item()) for each in limits)
    chosen, left = suppressed(boxes, scores, iou_threshold, min_score, algorithm.limit, sigma)
    indices = _listed(algorithm.limit, chosen, 0)[:-1]
    return np.concatenate((indices, _listed(algorithm.limit, left.view(np.int32), len(chosen))))


def _rescaled_product(algorithm: RescaledProduct, factors: Array) -> Array:
    product = factors[0].astype(np.int64)
    rounding = (1 << algorithm.bits) >> 1
    for factor in [*factors[1:].astype(np.int64), 1]:
        scaled = product * factor * algorithm.multiplier + rounding
        product = (scaled >> algorithm.bits).astype(np.int32).astype(np.int64)
    return np.asarray(product, np.int32)


def _running_sum(algorithm: RunningSum, source: Array) -> Array:
    ordered = source[:, ::-1] if algorithm.is_reverse else source
    sums = np.cumsum(ordered, axis=1, dtype=source.dtype)
    if algorithm.is_exclusive:
        sums = np.concatenate((np.zeros_like(sums[:, :1]), sums[:, :-1]), axis=1)
    return np.asarray(sums[:, ::-1] if algorithm.is_reverse else sums)


def _hash_sums(seeds: Array, rows: Array, weights: Array) -> Array:
    sums = []
    for seed in seeds.view(np.uint8).reshape(-1, seeds.itemsize):
        keys = np.concatenate((np.tile(seed, (len(rows), 1)), rows), axis=1)
        products = fingerprint64(keys).view(np.int64).astype(np.float64) * weights
        sums.append(np.add.accumulate(products)[-1])
    return np.array(sums, np.float64)


def _selected_softly(algorithm: SoftSelection, boxes: Array, scores: Array, images: Array) -> Array:
    found = select_boxes(algorithm.rule, boxes, scores, images)
    bound = algorithm.bound(*scores.shape)
    parts = found.rows, found.classes, np.ascontiguousarray(found.scores, np.float32).view(np.int32)
    return np.concatenate([*(_listed(bound, each, 0)[:-1] for each in parts), [found.count]])


def _drawn(weights: Array, points: Array) -> Array:
    last = weights.shape[1] - 1
    result = np.empty(points.shape, np.int32)
    for row, bounds in enumerate(np.add.accumulate(weights, axis=1)):
        chosen = np.searchsorted(bounds, points[row] * bounds[-1], side="right")
        result[row] = np.minimum(chosen, last)
    return result


def _selected(algorithm: GreedySelection, boxes: Array, scores: Array) -> Array:
    candidates = np.flatnonzero(~np.isnan(scores))
    order = candidates[np.argsort(-scores[candidates], kind="stable")]
    if algorithm.includes_limit:
        kept = order[suppress(boxes[order], scores[order], algorithm.iou_limit, algorithm.limit)]
    else:
        kept = select_apart(boxes, order, np.float32(algorithm.iou_limit), algorithm.limit)
    return _listed(algorithm.limit, kept, len(kept))


def _listed(length: int, numbers: Array, last: int) -> Array:
    """Returns numbers, zeros up to a length, and one more number."""
    result = np.zeros(length + 1, np.int32)
    result[: len(numbers)], result[-1] = numbers, last
    return result


def _scatter(node: Procedure, algorithm: Scatter, destinations: Array, updates: Array, *base: Array) -> Array:
    shape, kind = node.output.shape, node.output.type.dtype
    result = base[0].copy() if base else np.full(shape, algorithm.initial, kind)
    inside = (destinations >= 0) & (destinations < shape[0])
    if algorithm.reduction is None:
        result[destinations[inside]] = updates[inside]
    else:
        _COMBINE[algorithm.reduction].at(result, destinations[inside], updates[inside])
    return result


def _found(keys: Array, lookups: Array) -> Array:
    ordered, first = np.unique(keys, return_index=True)
    places = np.minimum(np.searchsorted(ordered, lookups), len(ordered) - 1)
    return np.where(ordered[places] == lookups, first[places], len(keys)).astype(np.int32)


def _distinct(elements: Array) -> Array:
    numbers: dict[Any, int] = {}
    firsts: list[int] = []
    found = []
    for position, element in enumerate(elements.tolist()):
        # Two NaN are different objects, and neither equals itself.
        key = element if element == element else object()
        if key not in numbers:
            numbers[key] = len(firsts)
            firsts.append(position)
        found.append(numbers[key])
    return np.concatenate(
        (
            np.array(found, np.int32),
            _listed(elements.size, np.array(firsts, np.int32), len(firsts)),
        )
    )
