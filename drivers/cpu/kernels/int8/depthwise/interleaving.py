"""Interleaves image rows to packed words, and restores the order of channels.

`depthwise_plan` describes the contents of the words.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.int8.depthwise.plan import ChannelBlock, DepthwisePlan, lane_channels

#: Returns the address of an input element by the row and column of a window.
Addresses: TypeAlias = Callable[[int, int], str]


class Interleaving:
    """Writes the interleaving of rows, and its inverse for results.

    Args:
        code: receives the instructions.
        plan: the plan of the kernel.
    """

    def __init__(self, code: Instructions, plan: DepthwisePlan) -> None:
        self._code, self._plan, self._scheme = code, plan, plan.scheme
        self._vector = Vector(code, plan.scheme.target, plan.scheme.lanes)
        self._register = plan.scheme.target.vector_bytes

    def words(self, channel_block: ChannelBlock, at: Addresses, word: int, column: int) -> list[str]:
        """Returns the words of an input column: vectors of i32."""
        plan, code, scheme = self._plan, self._code, self._scheme
        layout, element = plan.layout, scheme.element
        kind = f"<{channel_block.channels} x {element}>"
        if channel_block.vectors == 1:
            kind = f"<{channel_block.channels // 4} x i32>"
        lines = []
        for number in range(scheme.group):
            row = word * scheme.group + number
            if row >= layout.rows.taps + plan.rows - 1:
                lines.append("zeroinitializer")
                continue
            lines.append(code.fresh(f"load {kind}, ptr {at(row, column)}, align {scheme.element_bytes}"))
        if channel_block.vectors == 1:
            return [self._single(lines)]
        if scheme.is_bytes:
            first, second = (self._unpacked(lines[0], lines[1], 1), self._unpacked(lines[2], lines[3], 1))
            parts = [
                each for low, high in zip(first, second, strict=True) for each in self._unpacked(low, high, 2)
            ]
        else:
            parts = self._unpacked(lines[0], lines[1], 2)
        target = self._vector.type("i32")
        return [code.fresh(f"bitcast <{self._register} x i8> {each} to {target}") for each in parts]

    def _unpacked(self, first: str, second: str, size: int) -> list[str]:
        """Interleaves elements of `size` bytes from two vectors.

        The two results interleave the lower and the upper halves of each 128 bits.
        """
        code = self._code
        count = self._register // size
        kind, bytes_ = f"<{count} x i{8 * size}>", f"<{self._register} x i8>"
        names = []
        for each in (first, second):
            is_given = each == "zeroinitializer"
            source = bytes_ if self._scheme.is_bytes else kind
            names.append(each if is_given else code.value(f"bitcast {source} {each} to {kind}"))
        piece = 16 // size
        results = []
        for half in (0, piece // 2):
            picked = [
                start + half + each + side * count
                for start in range(0, count, piece)
                for each in range(piece // 2)
                for side in (0, 1)
            ]
            mask = ", ".join(f"i32 {each}" for each in picked)
            mixed = code.fresh(
                f"shufflevector {kind} {names[0]}, {kind} {names[1]}, <{count} x i32> <{mask}>"
            )
            results.append(code.fresh(f"bitcast {kind} {mixed} to {bytes_}"))
        return results

    def _single(self, lines: list[str]) -> str:
        """Interleaves four rows of as many bytes as there are lanes, to words in channel order."""
        code, lanes = self._code, self._scheme.lanes
        parts, count = lines, lanes // 4
        while len(parts) > 1:
            kind, joined = f"<{count} x i32>", ", ".join(f"i32 {each}" for each in range(2 * count))
            count *= 2
            parts = [
                code.fresh(f"shufflevector {kind} {first}, {kind} {second}, <{count} x i32> <{joined}>")
                for first, second in zip(parts[::2], parts[1::2], strict=True)
            ]
        # First moves words to their channels, then interleaves bytes within 128 bits.
        kind, whole = self._vector.type("i32"), f"<{4 * lanes} x i8>"
        quarter = lanes // 4
        order = ", ".join(f"i32 {row * quarter + piece}" for piece in range(quarter) for row in range(4))
        words = code.fresh(f"shufflevector {kind} {parts[0]}, {kind} poison, <{lanes} x i32> <{order}>")
        bytes_ = code.fresh(f"bitcast {kind} {words} to {whole}")
        order = ", ".join(
            f"i32 {start + 4 * row + each}"
            for start in range(0, 4 * lanes, 16)
            for each in range(4)
            for row in range(4)
        )
        bytes_ = code.fresh(f"shufflevector {whole} {bytes_}, {whole} poison, <{4 * lanes} x i32> <{order}>")
        return code.fresh(f"bitcast {whole} {bytes_} to {kind}")

    def in_order(self, channel_block: ChannelBlock, values: list[str], element: str) -> str:
        """Returns the channels of a channel block in order, as one vector."""
        code, count = self._code, self._scheme.lanes
        if len(values) == 1:
            return values[0]
        parts = list(values)
        while len(parts) > 1:
            kind = f"<{count} x {element}>"
            joined = ", ".join(f"i32 {each}" for each in range(2 * count))
            parts = [
                code.fresh(f"shufflevector {kind} {first}, {kind} {second}, <{2 * count} x i32> <{joined}>")
                for first, second in zip(parts[::2], parts[1::2], strict=True)
            ]
            count *= 2
        channels = lane_channels(self._scheme, channel_block).reshape(-1)
        order = ", ".join(f"i32 {each}" for each in np.argsort(channels))
        kind = f"<{channel_block.channels} x {element}>"
        return code.fresh(
            f"shufflevector {kind} {parts[0]}, {kind} poison, <{channel_block.channels} x i32> <{order}>"
        )
