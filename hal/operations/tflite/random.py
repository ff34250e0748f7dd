"""RANDOM_UNIFORM, RANDOM_STANDARD_NORMAL, MULTINOMIAL and STABLEHLO_RNG_BIT_GENERATOR.

The generators are counter-based: Philox 4x32-10 and, for the last operation only, Threefry 2x32-20
(Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"). Equal seeds that are not both 0 give
equal results in every execution; two zeros select random seeds.
"""

import secrets

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, Parameter, scalar, tensor
from neurald.hal.operations.tflite.machinery.elements import INDEXES, element_rows, indexes, lengths, number

#: Rounds, multipliers, and steps of keys of Philox.
ROUNDS = 10
MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
STEPS = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_WORD = np.uint64(0xFFFF_FFFF)
_HALF = np.uint64(32)
#: Constants of Threefry.
PARITY = np.uint64(0x1BD11BDA)
ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
#: STABLEHLO_RNG_BIT_GENERATOR's number of Threefry; 0 leaves the choice open.
THREEFRY = 2
#: Lower bound for the argument of a logarithm.
EPSILON = np.float32(1e-7)

_SEEDS = indexes("seeds")
#: Types that consist of whole words.
_WORDS = (
    OperandType.TENSOR_INT32,
    OperandType.TENSOR_INT64,
    OperandType.TENSOR_UINT32,
    OperandType.TENSOR_UINT64,
)


def _seeds(call: Call) -> tuple[int, int]:
    """Returns the two seeds."""
    if call.shape("seeds") != (2,):
        raise BadData(f"{call.name('seeds')} has shape {list(call.shape('seeds'))}; [2] is expected")
    low, high = (int(seed) & (1 << 64) - 1 for seed in call.array("seeds"))
    return (low, high) if low or high else (secrets.randbits(64), secrets.randbits(64))


def philox(seeds: tuple[int, int], count: int, start: int = 0) -> Array:
    """Generates 32-bit words, as uint64.

    Args:
        seeds: the key, and the upper half of the counter.
        count: number of words; four share a counter value.
        start: first lower half of the counter, which wraps around to 0.
    """
    counter = np.uint64(start) + np.arange(-(-count // 4), dtype=np.uint64)
    blocks, low, high = len(counter), np.uint64(seeds[0]), np.uint64(seeds[1])
    first, second = counter & _WORD, counter >> _HALF
    third, fourth = np.full(blocks, high & _WORD), np.full(blocks, high >> _HALF)
    keys = [low & _WORD, low >> _HALF]
    for _ in range(ROUNDS):
        one, other = first * MULTIPLIERS[0], third * MULTIPLIERS[1]
        first, second, third, fourth = (
            other >> _HALF ^ second ^ keys[0],
            other & _WORD,
            one >> _HALF ^ fourth ^ keys[1],
            one & _WORD,
        )
        keys = [(key + step) & _WORD for key, step in zip(keys, STEPS, strict=True)]
    return np.stack((first, second, third, fourth), axis=1).reshape(-1)[:count]


def threefry(key: int, count: int, start: int) -> Array:
    """Generates 32-bit words, as uint64; two share a counter value."""
    counter = np.uint64(start) + np.arange(-(-count // 2), dtype=np.uint64)
    keys = [np.uint64(key) & _WORD, np.uint64(key) >> _HALF]
    keys.append(keys[0] ^ keys[1] ^ PARITY)
    first, second = (counter & _WORD) + keys[0] & _WORD, (counter >> _HALF) + keys[1] & _WORD
    for group in range(5):
        for bits in ROTATIONS[group % 2]:
            first = first + second & _WORD
            second = (second << np.uint64(bits) | second >> np.uint64(32 - bits)) & _WORD ^ first
        first = first + keys[(group + 1) % 3] & _WORD
        second = second + keys[(group + 2) % 3] + np.uint64(group + 1) & _WORD
    return np.stack((first, second), axis=1).reshape(-1)[:count]


def _uniform32(words: Array) -> Array:
    """Converts the lower 23 bits to numbers from 0 to 1."""
    bits = (words & np.uint64(0x7F_FFFF) | np.uint64(0x3F80_0000)).astype(np.uint32)
    return bits.view(np.float32) - np.float32(1)


def _shape(call: Call) -> tuple[Shape, ...]:
    return (lengths(call, "shape"),)


def _uniform(call: Call) -> tuple[Array, ...]:
    (shape,) = _shape(call)
    return (_uniform32(philox(_seeds(call), int(np.prod(shape)))).reshape(shape),)


def _normal(call: Call) -> tuple[Array, ...]:
    """Computes two numbers from each pair of words by the Box-Muller transform."""
    (shape,) = _shape(call)
    count = int(np.prod(shape))
    words = _uniform32(philox(_seeds(call), count + count % 2)).reshape(-1, 2)
    radius = np.sqrt(np.float32(-2) * np.log(np.maximum(words[:, 0], EPSILON)))
    angle = np.float32(2 * np.pi) * words[:, 1]
    pairs = np.stack((np.sin(angle) * radius, np.cos(angle) * radius), axis=1)
    return (pairs.astype(np.float32).reshape(-1)[:count].reshape(shape),)


def _multinomial_shape(call: Call) -> tuple[Shape, ...]:
    return ((call.shape("logits")[0], call.scalar_in("samples", 0)),)


def _multinomial(call: Call) -> tuple[Array, ...]:
    """Draws classes by unscaled log-probabilities; classes with infinite logits or NaN never occur.

    Raises:
        BadData: a row has no finite logit.
    """
    (shape,) = _multinomial_shape(call)
    result = np.empty(shape, call.operand("output").type.dtype)
    count = shape[0] * shape[1]
    words = philox(_seeds(call), 2 * count).reshape(*shape, 2)
    bits = words[..., 0] & np.uint64(0xF_FFFF) | np.uint64(0x3FF0_0000)
    points = (bits << _HALF | words[..., 1]).view(np.float64) - 1
    for index, row in enumerate(call.array("logits") if count else ()):
        logits = row.astype(np.float64)
        finite = np.isfinite(logits)
        if not finite.any():
            raise BadData(
                f"{call.name('logits')}: row {index} has no finite element; at least one is expected"
            )
        weights = np.where(finite, np.exp(np.where(finite, logits, -np.inf) - logits[finite].max()), 0)
        bounds = np.add.accumulate(weights)
        chosen = np.searchsorted(bounds, points[index] * bounds[-1], side="right")
        result[index] = np.minimum(chosen, np.flatnonzero(weights)[-1])
    return (result,)


def _bits_shapes(call: Call) -> tuple[Shape, ...]:
    algorithm = call.scalar_in("algorithm", 0, THREEFRY)
    state = call.shape("state")
    if state != (2,) and (state != (3,) or algorithm == THREEFRY):
        raise BadData(f"{call.name('state')} has shape {list(state)}; [2], or [3] for Philox, is expected")
    return state, lengths(call, "shape")


def _bits(call: Call) -> tuple[Array, ...]:
    """Generates bits; the state is key, counter and its upper half, by default the key."""
    _, shape = _bits_shapes(call)
    state = call.array("state")
    dtype = call.operand("output").type.dtype
    count = int(np.prod(shape)) * (dtype.itemsize // 4)
    key, start = int(state[0]), int(state[1])
    if call.scalar("algorithm") == THREEFRY:
        words, used = threefry(key, count, start), -(-count // 2)
    else:
        words, used = philox((key, int(state[-1]) if len(state) == 3 else key), count, start), -(-count // 4)
    following = state.copy()
    following[1] = start + used & (1 << 64) - 1
    return following, words.astype("<u4").view(dtype).reshape(shape)


def _form() -> Form:
    return Form(inputs=(indexes("shape"), _SEEDS), outputs=(tensor("output", rank=ANY_RANK),))


DEFINITIONS = (
    Definition(
        type=OperationType.TFLITE_RANDOM_UNIFORM,
        is_random=True,
        forms=(_form(),),
        rows=element_rows((OperandType.TENSOR_FLOAT32,)),
        shape=_shape,
        reference=_uniform,
    ),
    Definition(
        type=OperationType.TFLITE_RANDOM_STANDARD_NORMAL,
        is_random=True,
        forms=(_form(),),
        rows=element_rows((OperandType.TENSOR_FLOAT32,)),
        shape=_shape,
        reference=_normal,
    ),
    Definition(
        type=OperationType.TFLITE_MULTINOMIAL,
        is_random=True,
        forms=(
            Form(
                inputs=(tensor("logits", rank=2), number("samples"), _SEEDS),
                outputs=(Parameter(name="output", types=INDEXES, ranks=(2, 2)),),
            ),
        ),
        rows=element_rows((OperandType.TENSOR_FLOAT32,)),
        shape=_multinomial_shape,
        reference=_multinomial,
    ),
    Definition(
        type=OperationType.TFLITE_STABLEHLO_RNG_BIT_GENERATOR,
        forms=(
            Form(
                inputs=(
                    tensor("state", OperandType.TENSOR_UINT64, rank=1),
                    indexes("shape"),
                    scalar("algorithm"),
                ),
                outputs=(
                    tensor("next_state", OperandType.TENSOR_UINT64, rank=1),
                    tensor("output", rank=ANY_RANK),
                ),
            ),
        ),
        rows=element_rows(_WORDS),
        shape=_bits_shapes,
        reference=_bits,
    ),
)
