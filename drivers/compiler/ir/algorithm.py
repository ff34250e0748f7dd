"""Algorithms of procedures (`neurald.drivers.compiler.ir.graph.Procedure`).

Each is described by the inputs that it reads and the output that it writes. What it does with any
input is defined, so that no element can lead to an access outside of a value.
"""

from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

from neurald.drivers.compiler.ir.op import Number, ReductionOp

if TYPE_CHECKING:
    from neurald.hal.operations.detection.boxes import BoxSelectionRule
    from neurald.hal.operations.tflite.movement.sparse_embedding import Combiner


class Scatter(Struct, frozen=True, kw_only=True):
    """Combines rows of updates with the rows of the output at their destinations, in order.

    Inputs: the destinations, INT32 or INT64 (count,), of which those outside of the output are
    ignored; the updates (count, width); and optionally the rows to begin with, of the output's
    shape. The output is (rows, width), of the type of the updates.

    Attributes:
        reduction: combines an update with the row; None replaces the row. FLOAT16 is rounded after
            each update.
        initial: each element before the first update, without rows to begin with.
    """

    reduction: ReductionOp | None
    initial: Number = 0


class Positions(Struct, frozen=True, kw_only=True):
    """Finds the elements that are not 0.

    Input: (count,) of any type. Output: INT32 (count + 1,), their positions in ascending order,
    followed by any numbers, and the number of positions as the last element.
    """


class Distinct(Struct, frozen=True, kw_only=True):
    """Numbers the distinct elements in order of their first occurrence; NaN differs from itself.

    Input: (count,). Output: INT32 (2 × count + 1,), the number of each element, the position of the
    first occurrence of each number, followed by zeros, and how many numbers there are as the last
    element.
    """


class Suppression(Struct, frozen=True, kw_only=True):
    """Selects boxes by score unless they overlap, as TFLite's NON_MAX_SUPPRESSION_V5 does.

    Inputs: boxes, FLOAT32 (count, 4), two opposite corners each; scores, FLOAT32 (count,); and the
    least overlap that drops a box, the score that others must exceed, and sigma, FLOAT32 (1,) each.
    Output: INT32 (2 × limit + 1,), the indices of the selected boxes, followed by zeros, the bits
    of their FLOAT32 scores, followed by zeros, and how many boxes there are as the last element.
    `neurald.hal.operations.tflite.detection.suppression` has the algorithm.
    """

    limit: int


class GreedySelection(Struct, frozen=True, kw_only=True):
    """Selects boxes from the best score to the worst, unless they overlap a selected one.

    Inputs: boxes of images, FLOAT32 (images, count, 4); and scores, FLOAT32 (rows, count), of which
    NaN excludes a box. The rows of an image follow each other; all images have equally many. Of
    equal scores the one of the lower index is better. Output: INT32 (rows, limit + 1), the indices
    of the selected boxes, followed by zeros, and how many there are as the last element of each
    row.

    Attributes:
        limit: the maximum number of boxes of a row.
        iou_limit: the intersection over union above which boxes overlap, a FLOAT32.
        includes_limit: True if boxes also overlap whose intersection over union is the limit or
            NaN, which without areas is 0. Otherwise, boxes without a positive area overlap none.
    """

    limit: int
    iou_limit: float
    includes_limit: bool = False


class Entropy(Struct, frozen=True, kw_only=True):
    """Replaces two numbers by random ones in every execution if both are 0.

    Input and output: UINT64 (2,).

    Attributes:
        number: distinguishes procedures whose numbers must differ.
    """

    number: int


class Sampling(Struct, frozen=True, kw_only=True):
    """Draws classes with given weights.

    Inputs: weights, FLOAT64 (rows, classes), at least one class; and points from 0 to 1, FLOAT64
    (rows, samples). Output: INT32 (rows, samples), for each point the first class for which the sum
    of the weights up to it, added in order, is greater than the point times the sum of all; the
    last class if there is none.
    """


class SoftSelection(Struct, frozen=True, kw_only=True):
    """Selects boxes of each class as BOX_WITH_NMS_LIMIT does, which lowers the scores of others.

    Inputs: boxes, FLOAT32 (rows, classes, 4); scores, FLOAT32 (rows, classes); and the images of
    the rows, INT32 (rows,). Output: INT32 (3 × bound + 1,), the rows, the classes and the bits of
    the FLOAT32 scores of the selected boxes, each followed by any numbers, and how many boxes there
    are as the last element. `neurald.hal.operations.detection.boxes.select_boxes` has the
    algorithm.
    """

    rule: "BoxSelectionRule"

    def bound(self, rows: int, classes: int) -> int:
        """Returns the maximum number of selected boxes."""
        limit = self.rule.limit
        return rows * (classes - 1 if limit is None else min(limit, classes - 1))


class HashSums(Struct, frozen=True, kw_only=True):
    """Adds the weighted hashes of rows of bytes, for each of several seeds.

    Inputs: seeds, UINT32 (seeds,); rows, UINT8 (rows, size), at least one; and weights, FLOAT64
    (rows,). Output: FLOAT64 (seeds,), the sums of the products of the weights and the fingerprints
    (`neurald.hal.operations.arithmetic.farmhash`) of the seed's bytes and those of the row, as
    signed integers, added in order.
    """


class CombinedRows(Struct, frozen=True, kw_only=True):
    """Combines weighted rows of a table, as EMBEDDING_LOOKUP_SPARSE does.

    Inputs: the destinations, INT32 (count,), of which those outside of the output are ignored; the
    rows of the table, INT32 (count,); their weights, FLOAT32 (count,); and the table, FLOAT32
    (length, width). The output is FLOAT32 (rows, width), 0 where nothing is combined. Consecutive
    rows of a destination are added. Their sum is added to the output, which is then divided.

    Attributes:
        combiner: what the output is divided by.
    """

    combiner: "Combiner"


class RunningSum(Struct, frozen=True, kw_only=True):
    """Adds elements along the second of three axes.

    Input and output: (outer, length, inner), FLOAT32, FLOAT64, INT32 or INT64. Each element of the
    output is the sum of those before it and of itself.

    Attributes:
        is_ordered: True if each element is added to the sum of those before it, whose rounding
            errors add up; else additions are in any order.
        is_exclusive: True if the element itself is not added.
        is_reverse: True if the elements after it are added, instead of those before it.
    """

    is_exclusive: bool = False
    is_reverse: bool = False
    is_ordered: bool = False


#: The number of products that a `RescaledProduct` computes at once, if there are several.
PRODUCT_LANES: Final = 8


class RescaledProduct(Struct, frozen=True, kw_only=True):
    """Multiplies quantised values, in order, and rescales after each step and once more at the end.

    Input: INT32 (count, width), at least one row, values of up to 16 bits and a sign without their
    zero point; the width is 1 or a multiple of `PRODUCT_LANES`. Output: INT32 (width,), the
    products of the columns.

    Attributes:
        multiplier, bits: a rescaled product is the low 32 bits of (product × multiplier) / 2^bits,
            rounded to nearest, halves up. The multiplier has at most 15 bits; there are 1 to 62
            bits.
    """

    multiplier: int
    bits: int


class StringEquality(Struct, frozen=True, kw_only=True):
    """Compares strings.

    Inputs: references (`neurald.drivers.compiler.ir.string_references`), INT64 (count,) each.
        Output:
    BOOL (count,), whether the two strings are equal.
    """


class KeySearch(Struct, frozen=True, kw_only=True):
    """Finds keys in a row of keys, which need not be in order.

    Inputs: the row of keys, (count,), at least one; and the keys to find, (lookups,), INT32 or
    INT64 like those. Output: INT32 (lookups,), the index of the first key that is equal; the number
    of keys for others.
    """


class StringSearch(Struct, frozen=True, kw_only=True):
    """Looks up strings in a hash table of keys.

    Inputs: references (`neurald.drivers.compiler.ir.string_references`), INT64 (count,); and a
    table (`neurald.drivers.compiler.lowering.machinery.string_table`): places, INT32; keys, INT64;
    and characters, UINT8, at least eight. Output: INT32 (count,), the numbers of the keys that are
    equal to the strings; the number of keys for others. Damaged tables yield any of these numbers.
    """


Algorithm: TypeAlias = (
    CombinedRows
    | Scatter
    | Positions
    | Distinct
    | Suppression
    | GreedySelection
    | Entropy
    | Sampling
    | SoftSelection
    | HashSums
    | RescaledProduct
    | RunningSum
    | KeySearch
    | StringEquality
    | StringSearch
)
