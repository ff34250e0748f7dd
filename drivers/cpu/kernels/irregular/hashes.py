"""Sums of the hashes of rows, weighted; `neurald.hal.operations.arithmetic.farmhash` has the hash.

A key is assembled in scratch memory. Its length is known, so that only the blocks of long keys are
looped over.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from neurald.drivers.compiler.ir.graph import Procedure
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.cpu.codegen.epilogue import arguments_of, parameter_names, pointer_names
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.kernels.common.function import cost_ns, function_text
from neurald.drivers.cpu.target.routine import Routine
from neurald.hal.operations.arithmetic.farmhash import K0, K1, K2, MASK, PIECE

_SEED_BYTES, _WORD_BYTES = 4, 8
#: Cycles for each key, and for each of its words.
_KEY_CYCLES, _WORD_CYCLES = 40.0, 6.0


def routine(kernel: Kernel, node: Procedure) -> Routine:
    """Returns the routine of a kernel, whose output is not empty and whose rows are."""
    arguments = arguments_of(kernel)
    names = pointer_names(arguments)
    seeds, rows, weights = (names[value] for value in node.inputs)
    (count, size), output = node.inputs[1].shape, names[kernel.output]
    code = Instructions(parameter_names(arguments))
    hashing = _Hashing(code, size + _SEED_BYTES)
    with code.loop("%begin", "%end", may_be_empty=True) as each:
        seed = code.fresh(f"load i32, ptr {code.fresh(f'getelementptr i32, ptr {seeds}, i64 {each.index}')}")
        code.effect(f"store i32 {seed}, ptr %scratch")
        with code.loop("0", str(count), (("double", "0.0"),)) as loop:
            row = code.fresh(
                f"getelementptr i8, ptr {rows}, i64 {code.fresh(f'mul i64 {loop.index}, {size}')}"
            )
            hashing.copy(row, size)
            number = code.fresh(f"sitofp i64 {hashing.hashed()} to double")
            at = code.fresh(f"getelementptr double, ptr {weights}, i64 {loop.index}")
            weighted = code.fresh(f"fmul double {number}, {code.fresh(f'load double, ptr {at}')}")
            loop.results = [code.fresh(f"fadd double {loop.carried[0]}, {weighted}")]
        at = code.fresh(f"getelementptr double, ptr {output}, i64 {each.index}")
        code.effect(f"store double {loop.results[0]}, ptr {at}")
    keys = count * (_KEY_CYCLES + _WORD_CYCLES * (size / _WORD_BYTES))
    return Routine(
        text=function_text(code, arguments),
        arguments=arguments,
        work_items=kernel.output.count,
        cost_ns=cost_ns(kernel.output.count * keys, arguments),
        declarations=frozenset(code.declarations),
        scratch_bytes=size + _SEED_BYTES,
        label=f"hashes of {count} rows of {size} bytes",
        operations=kernel.operations,
    )


@dataclass(frozen=True, slots=True)
class _State:
    """The state between blocks of long keys: names of i64."""

    x: str
    y: str
    z: str
    v: tuple[str, str]
    w: tuple[str, str]

    @property
    def names(self) -> list[str]:
        return [self.x, self.y, self.z, *self.v, *self.w]


def _state(names: Sequence[str]) -> _State:
    x, y, z, *pairs = names
    return _State(x, y, z, (pairs[0], pairs[1]), (pairs[2], pairs[3]))


class _Hashing:
    """Writes instructions that hash the key in scratch memory.

    Args:
        code: receives the instructions.
        length: the length of the key, in bytes.
    """

    def __init__(self, code: Instructions, length: int) -> None:
        self._code, self._length = code, length

    def copy(self, row: str, size: int) -> None:
        """Copies a row behind the seed."""
        code, whole = self._code, size // _WORD_BYTES * _WORD_BYTES
        key = code.value(f"getelementptr i8, ptr %scratch, i64 {_SEED_BYTES}")

        def move(kind: str, at: str) -> None:
            source, target = (code.fresh(f"getelementptr i8, ptr {base}, i64 {at}") for base in (row, key))
            code.effect(
                f"store {kind} {code.fresh(f'load {kind}, ptr {source}, align 1')}, ptr {target}, align 1"
            )

        if whole:
            with code.loop("0", str(whole), step=_WORD_BYTES) as loop:
                move("i64", loop.index)
        for at in range(whole, size):
            move("i8", str(at))

    def hashed(self) -> str:
        """Returns the hash, an i64."""
        if self._length > PIECE:
            return self._long()
        multiplier = str((K2 + 2 * self._length) & MASK)
        if self._length > PIECE // 2:
            return self._up_to_64(multiplier)
        if self._length > PIECE // 4:
            return self._combine(*self._ends(K1, multiplier), multiplier)
        return self._up_to_16(multiplier)

    def _up_to_16(self, multiplier: str) -> str:
        # A key has at least the four bytes of its seed.
        if self._length >= _WORD_BYTES:
            first, last = self._add(self._word(0), str(K2)), self._word(-_WORD_BYTES)
            one = self._add(self._multiply(self._rotate(last, 37), multiplier), first)
            other = self._multiply(self._add(self._rotate(first, 25), last), multiplier)
            return self._combine(one, other, multiplier)
        first, last = self._half_word(0), self._half_word(self._length - 4)
        start = self._add(str(self._length), self._code.fresh(f"shl i64 {first}, 3"))
        return self._combine(start, last, multiplier)

    def _ends(self, factor: int, multiplier: str) -> tuple[str, str]:
        first, second = self._multiply(self._word(0), str(factor)), self._word(8)
        last = self._multiply(self._word(-8), multiplier)
        before = self._multiply(self._word(-16), str(K2))
        low = self._add(self._rotate(self._add(first, second), 43), self._rotate(last, 30), before)
        return low, self._add(first, self._rotate(self._add(second, str(K2)), 18), last)

    def _up_to_64(self, multiplier: str) -> str:
        low, high = self._ends(K2, multiplier)
        third, fourth = self._multiply(self._word(16), multiplier), self._word(24)
        fifth = self._multiply(self._add(low, self._word(-32)), multiplier)
        sixth = self._multiply(self._add(self._combine(low, high, multiplier), self._word(-24)), multiplier)
        first = self._multiply(self._word(0), str(K2))
        return self._combine(
            self._add(self._rotate(self._add(third, fourth), 43), self._rotate(fifth, 30), sixth),
            self._add(third, self._rotate(self._add(fourth, first), 18), fifth),
            multiplier,
        )

    def _long(self) -> str:
        code, length = self._code, self._length
        y = (81 * K1 + 113) & MASK
        z = y * K2 + 113 & MASK
        z = (z ^ z >> 47) * K2 & MASK
        start = [self._add(str(81 * K2 & MASK), self._word(0)), str(y), str(z), *["0"] * 4]
        whole = (length - 1) // PIECE * PIECE
        with code.loop("0", str(whole), [("i64", name) for name in start], step=PIECE) as loop:
            loop.results = self._taken(loop.index, _state(loop.carried), str(K1)).names
        state = _state(loop.results)
        low = code.fresh(f"shl i64 {code.fresh(f'and i64 {state.z}, 255')}, 1")
        multiplier = self._add(str(K1), low)
        first = self._add(state.w[0], str(length - 1 - whole))
        v = self._add(state.v[0], first), state.v[1]
        w = self._add(first, v[0]), state.w[1]
        last = self._taken(str(length - PIECE), _State(state.x, state.y, state.z, v, w), multiplier, weight=9)
        one = self._combine(last.v[0], last.w[0], multiplier)
        mixed = self._multiply(self._mix(last.y), str(K0))
        other = self._combine(last.v[1], last.w[1], multiplier)
        return self._combine(self._add(one, mixed, last.z), self._add(other, last.x), multiplier)

    def _taken(self, at: str, state: _State, multiplier: str, *, weight: int = 1) -> _State:
        """Returns the state after a block at an offset."""

        def word(offset: int) -> str:
            return self._word_at(self._code.fresh(f"add i64 {at}, {offset}"))

        x = self._rotate(self._add(state.x, state.y, state.v[0], word(8)), 37)
        x = self._multiply(x, multiplier)
        y = self._multiply(self._rotate(self._add(state.y, state.v[1], word(48)), 42), multiplier)
        x = self._xor(x, self._multiply(state.w[1], str(weight)))
        y = self._add(y, self._multiply(state.v[0], str(weight)), word(40))
        z = self._multiply(self._rotate(self._add(state.z, state.w[0]), 33), multiplier)
        v = self._half(
            [word(each) for each in (0, 8, 16, 24)],
            self._multiply(state.v[1], multiplier),
            self._add(x, state.w[0]),
        )
        w = self._half(
            [word(each) for each in (32, 40, 48, 56)], self._add(z, state.w[1]), self._add(y, word(16))
        )
        # x and z are swapped.
        return _State(z, y, x, v, w)

    def _half(self, words: Sequence[str], first: str, second: str) -> tuple[str, str]:
        """Hashes 32 bytes and two words to two words."""
        first = self._add(first, words[0])
        second = self._rotate(self._add(second, first, words[3]), 21)
        total = self._add(first, words[1], words[2])
        return self._add(total, words[3]), self._add(second, self._rotate(total, 44), first)

    def _combine(self, first: str, second: str, multiplier: str) -> str:
        """Hashes two words to one."""
        inner = self._mix(self._multiply(self._xor(first, second), multiplier))
        outer = self._mix(self._multiply(self._xor(second, inner), multiplier))
        return self._multiply(outer, multiplier)

    def _mix(self, word: str) -> str:
        return self._xor(word, self._code.fresh(f"lshr i64 {word}, 47"))

    def _rotate(self, word: str, bits: int) -> str:
        """Rotates a word to the right."""
        low, high = (
            self._code.fresh(f"{shift} i64 {word}, {by}")
            for shift, by in (("lshr", bits), ("shl", 64 - bits))
        )
        return self._code.fresh(f"or i64 {low}, {high}")

    def _add(self, *words: str) -> str:
        total, *others = words
        for each in others:
            total = self._code.fresh(f"add i64 {total}, {each}")
        return total

    def _multiply(self, word: str, factor: str) -> str:
        return self._code.fresh(f"mul i64 {word}, {factor}")

    def _xor(self, first: str, second: str) -> str:
        return self._code.fresh(f"xor i64 {first}, {second}")

    def _word(self, offset: int) -> str:
        """Returns the word at an offset, which may be from the end."""
        return self._word_at(str(offset if offset >= 0 else self._length + offset))

    def _word_at(self, offset: str) -> str:
        at = self._code.fresh(f"getelementptr i8, ptr %scratch, i64 {offset}")
        return self._code.fresh(f"load i64, ptr {at}, align 1")

    def _half_word(self, offset: int) -> str:
        at = self._code.fresh(f"getelementptr i8, ptr %scratch, i64 {offset}")
        return self._code.fresh(f"zext i32 {self._code.fresh(f'load i32, ptr {at}, align 1')} to i64")
