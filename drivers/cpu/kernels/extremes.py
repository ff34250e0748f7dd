"""The place of the largest element of each row: a ranking of one.

Rows of a few vectors are looked at twice in registers: for the largest key, and for where it is, as bits of one number. Of longer
ones every lane keeps the best key that it has seen and its place, in several registers by turns.
"""

import math

from neurald.drivers.compiler.ir.graph import TopK
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.cpu.epilogue import arguments_of, epilogue, parameter_names, pointer_names
from neurald.drivers.cpu.instructions import Instructions
from neurald.drivers.cpu.kernels.counters import address, each_grain, multiple, total
from neurald.drivers.cpu.kernels.function import cost_ns, function_text
from neurald.drivers.cpu.kernels.lanes import reduced
from neurald.drivers.cpu.kernels.sort_keys import key_bits, keys_at
from neurald.drivers.cpu.routine import Routine
from neurald.drivers.cpu.target import Target
from neurald.drivers.cpu.vector import Vector

#: Elements whose places are the bits of one number.
_SHORT = 64
#: Registers of keys that are looked at by turns: so many comparisons are under way at once.
_TURNS = 4
#: What a vector of keys takes, and beside that a row.
_VECTOR_CYCLES, _ROW_CYCLES = 4.0, 12.0


def routine(kernel: Kernel, node: TopK, target: Target) -> Routine:
    """The routine of a kernel.

    Args:
        kernel: with an output that is not empty.
        node: its ranking, of one element of each row.
        target: what the code is for.
    """
    arguments = arguments_of(kernel)
    code = Instructions(parameter_names(arguments))
    writer = _Rows(kernel, node, target, code)
    writer.write()
    length, rows = node.input.shape[-1], math.prod(node.output.shape)
    cycles = rows * (_ROW_CYCLES + length / writer.lanes * _VECTOR_CYCLES)
    return Routine(
        text=function_text(code, arguments),
        arguments=arguments,
        grains=rows,
        cost_ns=cost_ns(cycles, arguments),
        declarations=frozenset(code.declarations),
        label=f"the largest of {length}, {writer.lanes} at once",
        operations=kernel.operations,
    )


class _Rows:
    """Writes a function that finds the place of a row's largest element, a row a grain."""

    def __init__(self, kernel: Kernel, node: TopK, target: Target, code: Instructions) -> None:
        self._kernel, self._node, self._target, self._code = kernel, node, target, code
        self._kind, self._length = node.input.type, node.input.shape[-1]
        self._key = f"i{key_bits(self._kind)}"
        self._pointers = pointer_names(arguments_of(kernel))
        most = min(self._length, target.lanes(key_bits(self._kind) // 8))
        self._v = Vector(code, target, 1 << (most.bit_length() - 1))

    @property
    def lanes(self) -> int:
        """Elements in a register."""
        return self._v.lanes

    def write(self) -> None:
        """The instructions for the range of grains."""
        code, outer = self._code, self._node.output.shape[:-1]
        with each_grain(code, (*outer, 1)) as (position, _):
            terms = (multiple(code, at, math.prod(outer[d + 1 :])) for d, at in enumerate(position[:-1]))
            row = multiple(code, total(code, *terms, "0"), self._length * self._kind.size_bytes)
            source = address(code, self._pointers[self._node.input], row)
            place = self._of_short(source) if self._length <= _SHORT else self._of_long(source)
            epilogue(
                self._kernel, self._target, code, place, (*position[:-1], "0"), 1, pointers=self._pointers
            )

    def _begins(self, first: int) -> list[int]:
        """Where vectors of what is left of a row begin; the last one ends with the row."""
        return [min(begin, self._length - self.lanes) for begin in range(first, self._length, self.lanes)]

    def _keys(self, source: str, place: str) -> str:
        return keys_at(self._v, self._kind, source, place)

    def _of_short(self, source: str) -> str:
        """The place in a row whose places are bits."""
        code, v, key = self._code, self._v, self._key
        begins = self._begins(0)
        keys = [self._keys(source, str(begin)) for begin in begins]
        largest = v.splat(key, self._largest(keys))
        found = "0"
        for begin, each in zip(begins, keys, strict=True):
            is_it = v.compare("eq", key, each, largest)
            bits = is_it if v.lanes == 1 else code.value(f"bitcast {v.type('i1')} {is_it} to i{v.lanes}")
            wide = code.value(f"zext i{v.lanes} {bits} to i{_SHORT}")
            found = code.value(f"or i{_SHORT} {found}, {code.value(f'shl i{_SHORT} {wide}, {begin}')}")
        which = "cttz" if self._node.prefers_lower_index else "ctlz"
        code.declarations.add(f"declare i{_SHORT} @llvm.{which}.i{_SHORT}(i{_SHORT}, i1)")
        place = code.value(f"call i{_SHORT} @llvm.{which}.i{_SHORT}(i{_SHORT} {found}, i1 true)")
        if not self._node.prefers_lower_index:
            place = code.value(f"sub i{_SHORT} {_SHORT - 1}, {place}")
        return code.value(f"trunc i{_SHORT} {place} to i32")

    def _largest(self, keys: list[str]) -> str:
        """The largest of all lanes."""
        while len(keys) > 1:
            pairs = zip(keys[::2], keys[1::2], strict=False)
            joined = [self._v.call("llvm.smax", self._key, *pair) for pair in pairs]
            keys = joined + keys[2 * len(joined) :]
        return reduced(self._v, self._key, "smax", keys[0])

    def _of_long(self, source: str) -> str:
        """The place in a row of more elements than all turns take at once."""
        code, v, key = self._code, self._v, self._key
        step = _TURNS * v.lanes
        kept = [
            (self._keys(source, str(turn * v.lanes)), self._places(str(turn * v.lanes)))
            for turn in range(_TURNS)
        ]
        kind, whole = v.type(key), self._length // step * step
        if whole > step:
            carried = [(kind, name) for pair in kept for name in pair]
            with code.loop(str(step), str(whole), carried, step=step) as loop:
                pairs = list(zip(loop.carried[::2], loop.carried[1::2], strict=True))
                for turn in range(_TURNS):
                    place = total(code, loop.index, str(turn * v.lanes))
                    loop.results += self._better(pairs[turn], source, place)
            kept = list(zip(loop.results[::2], loop.results[1::2], strict=True))
        for turn, begin in enumerate(self._begins(whole)):
            kept[turn] = self._better(kept[turn], source, str(begin))
        largest = v.splat(key, self._largest([keys for keys, _ in kept]))
        # Of a lane that has no largest element, what is not less, or not more, than any place.
        is_first = self._node.prefers_lower_index
        none, how = v.number(key, (1 << 31) - 1 if is_first else 0), "smin" if is_first else "smax"
        found = none
        for keys, places in kept:
            own = v.choose(v.compare("eq", key, keys, largest), key, places, none)
            found = v.call(f"llvm.{how}", key, found, own)
        place = reduced(v, key, how, found)
        return place if key == "i32" else code.value(f"trunc {key} {place} to i32")

    def _better(self, kept: tuple[str, str], source: str, place: str) -> tuple[str, str]:
        """What lanes keep after another vector, which begins at a place."""
        v, key = self._v, self._key
        keys = self._keys(source, place)
        is_better = v.compare("sgt" if self._node.prefers_lower_index else "sge", key, keys, kept[0])
        return (
            v.call("llvm.smax", key, keys, kept[0]),
            v.choose(is_better, key, self._places(place), kept[1]),
        )

    def _places(self, first: str) -> str:
        """The places of the elements of a vector."""
        code, v, key = self._code, self._v, self._key
        numbers = v.numbers(key, range(v.lanes))
        if first == "0":
            return numbers
        narrow = (
            first if key == "i64" or not first.startswith("%") else code.value(f"trunc i64 {first} to {key}")
        )
        return v.two("add", key, numbers, v.splat(key, narrow))
