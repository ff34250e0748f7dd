"""Mutates `.tflite` files in place, one class of bug at a time; a file never gets longer.

Each mutator takes a copy of a file and a random generator. It navigates with the schema's readers,
which check nothing: in an already damaged file they may raise any exception.
"""

import contextlib
import random
import struct
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from tflite.Model import Model

#: Offsets of fields in the vtables.
_SHAPE, _TYPE, _BUFFER, _SIGNATURE = 4, 6, 8, 18
_INPUTS, _OUTPUTS, _OPTIONS_TYPE, _OPTIONS = 6, 8, 10, 12
_GRAPH_INPUTS, _GRAPH_OUTPUTS = 6, 8
_INPUTS_OF_SIGNATURE, _OUTPUTS_OF_SIGNATURE, _SIGNATURE_GRAPH, _MAP_TENSOR = 4, 6, 12, 6
_METADATA_BUFFER = 6

NUMBERS = (0, 1, -1, 2, 7, 127, 128, 255, -128, 2**15, 2**16, 2**30, 2**31 - 1, -(2**31))
REALS = (0.0, -1.0, 1e-38, 1e38, float("nan"), float("inf"), -0.0, 1e-45)


class File:
    """Positions of parts of a valid file."""

    def __init__(self, data: bytearray) -> None:
        self.data = data
        self.model = Model.GetRootAs(data, 0)
        self.subgraphs = [self.model.Subgraphs(n) for n in range(self.model.SubgraphsLength())]
        self.tensors = [g.Tensors(n) for g in self.subgraphs for n in range(g.TensorsLength())]
        self.operators = [g.Operators(n) for g in self.subgraphs for n in range(g.OperatorsLength())]
        self.buffers = [self.model.Buffers(n) for n in range(self.model.BuffersLength())]

    def vector(self, table: Any, field: int) -> tuple[int, int] | None:
        """Returns the position of the first element and the number of elements."""
        offset = table._tab.Offset(field)
        if not offset:
            return None
        return table._tab.Vector(offset), table._tab.VectorLen(offset)

    def scalar(self, table: Any, field: int) -> int | None:
        """Returns the position of a scalar field, None if it has its default."""
        offset = table._tab.Offset(field)
        return offset + table._tab.Pos if offset else None

    def options(self) -> Iterator[tuple[int, int]]:
        """Yields the position and size of each stored field of options tables."""
        for operator in self.operators:
            options = operator.BuiltinOptions()
            if options is None:
                continue
            table = options.Pos
            vtable = table - struct.unpack_from("<i", self.data, table)[0]
            size, table_size = struct.unpack_from("<HH", self.data, vtable)
            offsets: list[int] = sorted(
                {o for o in struct.unpack_from(f"<{size // 2 - 2}H", self.data, vtable + 4) if o}
            )
            for offset, end in pairwise((*offsets, table_size)):
                yield table + offset, min(end - offset, 4)

    def put(self, layout: str, position: int | None, value: float) -> None:
        """Overwrites a number."""
        if position is not None and position + struct.calcsize(layout) <= len(self.data):
            struct.pack_into(layout, self.data, position, value)


Mutator = Callable[[File, random.Random], None]


def _int32(file: File, rng: random.Random, place: tuple[int, int] | None) -> None:
    if place is not None and place[1]:
        file.put("<i", place[0] + 4 * rng.randrange(place[1]), rng.choice(NUMBERS))


def zero_options(file: File, rng: random.Random) -> None:
    """Class 1: sets strides, block sizes or windows to 0, for divisions by zero."""
    fields = list(file.options())
    if fields:
        position, size = rng.choice(fields)
        file.data[position : position + size] = bytes(size)


def odd_options(file: File, rng: random.Random) -> None:
    """Classes 1 and 3: sets options to arbitrary numbers."""
    fields = list(file.options())
    if fields:
        position, size = rng.choice(fields)
        value = rng.choice(NUMBERS) & (2 ** (8 * size) - 1)
        file.data[position : position + size] = value.to_bytes(size, "little")


def operand_indexes(file: File, rng: random.Random) -> None:
    """Class 2: makes operators, inputs and outputs refer to missing or other tensors."""
    tables = [(operator, rng.choice((_INPUTS, _OUTPUTS))) for operator in file.operators]
    tables += [(graph, rng.choice((_INPUTS, _OUTPUTS))) for graph in file.subgraphs]
    if tables:
        place = file.vector(*rng.choice(tables))
        if place is not None and place[1]:
            value = rng.choice((*NUMBERS, *range(12)))
            file.put("<i", place[0] + 4 * rng.randrange(place[1]), value)


def data_values(file: File, rng: random.Random) -> None:
    """Class 3: changes indices, axes, sizes and paddings among the constants."""
    small = [place for b in file.buffers if (place := file.vector(b, 4)) and 4 <= place[1] <= 256]
    if small:
        position, length = rng.choice(small)
        for _ in range(rng.randint(1, 3)):
            file.put("<i", position + 4 * rng.randrange(length // 4), rng.choice(NUMBERS))


def shape_overflow(file: File, rng: random.Random) -> None:
    """Classes 4 and 6: makes shapes overflow, or tensors huge."""
    for _ in range(rng.randint(1, 3)):
        tensor = rng.choice(file.tensors)
        place = file.vector(tensor, rng.choice((_SHAPE, _SHAPE, _SIGNATURE)))
        if place is not None and place[1]:
            position = place[0] + 4 * rng.randrange(place[1])
            file.put("<i", position, rng.choice((2**31 - 1, 2**16, 65537, 2**20, 30000, 1000)))


def missing_buffers(file: File, rng: random.Random) -> None:
    """Class 5: removes bytes of constants, or assigns other buffers."""
    if rng.random() < 0.5:
        tensor = rng.choice(file.tensors)
        file.put("<I", file.scalar(tensor, _BUFFER), rng.choice((0, 1, 2, len(file.buffers), 2**32 - 1)))
        return
    places = [place for b in file.buffers if (place := file.vector(b, 4))]
    if places:
        file.put("<I", rng.choice(places)[0] - 4, rng.choice((0, 1, 3)))


def subgraph_cycles(file: File, rng: random.Random) -> None:
    """Class 7: makes control flow refer to itself, or to nothing."""
    control = [o for o in file.operators if _code(file, o) in (118, 119, 129, 206)]
    if control:
        options = rng.choice(control).BuiltinOptions()
        if options is not None:
            for field in (4, 6):
                offset = options.Offset(field)
                if offset:
                    file.put("<i", options.Pos + offset, rng.choice((0, 1, 2, -1, 100)))


def graph_boundaries(file: File, rng: random.Random) -> None:
    """Class 7: changes the inputs and outputs of graphs, and with what operators call them."""
    table, fields = (
        (rng.choice(file.subgraphs), (_GRAPH_INPUTS, _GRAPH_OUTPUTS))
        if rng.random() < 0.5
        else (rng.choice(file.operators), (_INPUTS, _OUTPUTS))
    )
    place = file.vector(table, rng.choice(fields))
    if place is None or not place[1]:
        return
    if rng.random() < 0.4:
        file.put("<I", place[0] - 4, rng.choice((0, 1, place[1] - 1, 2**30, 2**32 - 1)))
    else:
        file.put("<i", place[0] + 4 * rng.randrange(place[1]), rng.choice((0, 1, 2, 3, *NUMBERS)))


def signatures(file: File, rng: random.Random) -> None:
    """Class 7: changes what the signatures and the metadata refer to."""
    model = file.model
    found = [model.SignatureDefs(n) for n in range(model.SignatureDefsLength())]
    maps = [each.Inputs(n) for each in found for n in range(each.InputsLength())]
    maps += [each.Outputs(n) for each in found for n in range(each.OutputsLength())]
    metadata = [model.Metadata(n) for n in range(model.MetadataLength())]
    places: list[int | None] = [file.scalar(each, _MAP_TENSOR) for each in maps]
    places += [file.scalar(each, _SIGNATURE_GRAPH) for each in found]
    places += [file.scalar(each, _METADATA_BUFFER) for each in metadata]
    for each in found:
        vector = file.vector(each, rng.choice((_INPUTS_OF_SIGNATURE, _OUTPUTS_OF_SIGNATURE)))
        places.append(None if vector is None else vector[0] - 4)
    stored = [place for place in places if place is not None]
    if stored:
        file.put("<I", rng.choice(stored), rng.choice((0, 1, 2, 3, 100, 2**30, 2**31, 2**32 - 1)))


def _code(file: File, operator: Any) -> int:
    code = file.model.OperatorCodes(operator.OpcodeIndex())
    return max(int(code.BuiltinCode()), int(code.DeprecatedBuiltinCode()))


def shape_mismatch(file: File, rng: random.Random) -> None:
    """Class 8: makes shapes and ranks inconsistent, or data shorter than its shape."""
    place = file.vector(rng.choice(file.tensors), _SHAPE)
    if place is not None and place[1]:
        if rng.random() < 0.5:
            file.put("<i", place[0] + 4 * rng.randrange(place[1]), rng.choice((0, 1, 2, 3, 5, 17, 64)))
        else:
            file.put("<I", place[0] - 4, rng.randrange(place[1] + 1))


def quantization(file: File, rng: random.Random) -> None:
    """Class 9.

    Sets scales to zero, infinity or nothing, or zero points and channels out of range.
    """
    tensor = rng.choice(file.tensors)
    details = tensor.Quantization()
    if details is None:
        return
    scales, points = file.vector(details, 8), file.vector(details, 10)
    what = rng.randrange(4)
    if what == 0 and scales and scales[1]:
        file.put("<f", scales[0] + 4 * rng.randrange(scales[1]), rng.choice(REALS))
    elif what == 1 and points and points[1]:
        file.put("<q", points[0] + 8 * rng.randrange(points[1]), rng.choice((*NUMBERS, 2**62, -(2**63))))
    elif what == 2:
        file.put("<i", file.scalar(details, 16), rng.choice(NUMBERS))
    elif scales:
        file.put("<I", scales[0] - 4, rng.choice((0, 1, 2, 2**31)))


def type_confusion(file: File, rng: random.Random) -> None:
    """Changes the types of tensors, operators and options."""
    what = rng.randrange(3)
    if what == 0:
        file.put("<b", file.scalar(rng.choice(file.tensors), _TYPE), rng.randrange(-2, 20))
    elif what == 1 and file.operators:
        operator = rng.choice(file.operators)
        code = file.model.OperatorCodes(operator.OpcodeIndex())
        value = rng.randrange(209)
        file.put("<i", file.scalar(code, 10), value)
        file.put("<b", file.scalar(code, 4), min(value, 127))
    elif file.operators:
        file.put("<B", file.scalar(rng.choice(file.operators), _OPTIONS_TYPE), rng.randrange(150))


def bit_flips(file: File, rng: random.Random) -> None:
    """Class 10: flips bits, most of them outside the weights."""
    limit = len(file.data) if rng.random() < 0.3 else min(len(file.data), 4096)
    start = rng.choice((0, len(file.data) - limit))
    for _ in range(rng.choice((1, 1, 2, 8))):
        position = start + rng.randrange(limit)
        file.data[position] ^= 1 << rng.randrange(8)


def offsets(file: File, rng: random.Random) -> None:
    """Class 10: creates cyclic tables, vectors beyond the file, and aliases."""
    table = rng.choice((*file.tensors, *file.operators, *file.subgraphs))
    position = file.scalar(table, rng.choice((4, 6, 8, 10, 12)))
    file.put("<I", position, rng.choice((0, 1, 4, 2**31, 2**32 - 4, 2**32 - table._tab.Pos % 2**32, 100)))


def splice(file: File, rng: random.Random) -> None:
    """Class 10: copies a piece of the file over another."""
    length = min(rng.choice((4, 8, 16, 64)), len(file.data))
    source, target = (rng.randrange(len(file.data) - length + 1) for _ in range(2))
    file.data[target : target + length] = file.data[source : source + length]


def truncate(file: File, rng: random.Random) -> None:
    """Class 10: truncates the file."""
    del file.data[rng.randrange(len(file.data)) :]


MUTATORS: tuple[Mutator, ...] = (
    zero_options,
    odd_options,
    operand_indexes,
    data_values,
    shape_overflow,
    missing_buffers,
    subgraph_cycles,
    graph_boundaries,
    signatures,
    shape_mismatch,
    quantization,
    type_confusion,
    bit_flips,
    offsets,
    splice,
    truncate,
)


def mutate(content: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Returns a mutated copy of a valid file, and the names of the mutators."""
    data = bytearray(content)
    names: list[str] = []
    while data == content:
        file = File(data)
        chosen = [rng.choice(MUTATORS) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        # Truncation comes last: the others read the file.
        chosen.sort(key=lambda mutator: mutator is truncate)
        names = [mutator.__name__ for mutator in chosen if _apply(mutator, file, rng)]
    return bytes(data), "+".join(names)


def _apply(mutator: Mutator, file: File, rng: random.Random) -> bool:
    """Returns True if the mutator changed the file."""
    before = bytes(file.data)
    # Earlier damage may have destroyed what this one reads.
    with contextlib.suppress(Exception):
        mutator(file, rng)
    return file.data != before
