"""Lengths that follow from data: integers that a model computes become symbols of its lengths.

An operation whose shape depends on integers gets an operand of lengths in their place. The program
reads the integers before it (`LengthUpdate`). Lengths that a kernel reads as integers are stored.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, count, product, repeat
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from neurald.drivers.compiler.frontend.control_flow.flat_graph import (
    RESHAPES,
    STRIDED_SLICES,
    FlatGraph,
    NotStructured,
    Part,
    ShapeChanges,
    arithmetic_inputs,
)
from neurald.drivers.compiler.frontend.control_flow.structured_model import (
    Copy,
    InferredLength,
    LengthUpdate,
    NewLength,
    SliceIndex,
    SliceSize,
)
from neurald.drivers.compiler.frontend.lengths.open_lengths import lengths_of
from neurald.drivers.compiler.frontend.lengths.symbolic_integers import (
    Sum,
)
from neurald.drivers.compiler.ir.extents.extent import (
    MAX_LENGTH,
    MIN_LENGTH,
    Extent,
    estimate,
    has_extents,
    number_of,
    same_length,
)
from neurald.drivers.compiler.ir.value import Shape
from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operation
from neurald.hal.model.numbering import operand_name
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, Call, UnknownValue
from neurald.hal.records import replace
from neurald.hal.validation.shape_inference import merge

#: Limit on the lengths in an operand.
_MAX_LENGTHS = 16
#: Lengths for which code is generated: those of a loop's values are at least the first one of
#: `_HINTS`, and those that follow from data are less, because the latter are often limited by the
#: former. Where this is wrong, such as where a constant limits them, the others are tried.
_HINTS, _DATA_HINTS = (129, 33, 9, 3), (127, 9, 3, 2)
#: The same for the inputs of a RANGE, which has elements for these.
_RANGE_HINTS = {"start": 9, "limit": 127, "delta": 3}
_NO_HINTS: Mapping[str, int] = MappingProxyType({})
#: Inputs that say which dimensions an operation concerns. The structure of code follows from them,
#: so that no code is right for all their values, as it is for all lengths.
_DIMENSIONS = ("axis", "axes", "permutation")
#: Inputs by which lengths are divided. Code is generated as if no symbol were 1. It is right for 1
#: nevertheless, unless it computes 1 // n, which is only 1 then.
_DIVISORS = ("strides", "block_shape")


class DataLengths:
    """Adds operations whose shapes follow from data.

    Args:
        flat: the graph.
    """

    def __init__(self, flat: FlatGraph) -> None:
        self._flat = flat
        self._hint, self._data_hint = _HINTS[0], _DATA_HINTS[0]

    def shorten(self) -> bool:
        """Takes values of loops as shorter from now on; returns False if they are the shortest."""
        shorter = [each for each in _HINTS if each < self._hint]
        self._hint = max(shorter, default=self._hint)
        return bool(shorter)

    def append(self, operation: Operation, shapes: Sequence[Shape], graph: int, origin: int) -> None:
        """Adds an operation with operands of the flat graph. Inputs that are lengths are stored."""
        self._flat.append(self._with_stored_inputs(operation), shapes, graph, origin)

    def symbol(self, *, is_data: bool = False) -> Any:
        """Adds a symbol that the current region sets."""
        used = set(self._flat.scope.hints)
        below = chain(range(min(self._data_hint, self._hint - 2), MIN_LENGTH, -2), repeat(MIN_LENGTH))
        candidates = below if is_data else count(self._hint, 2)
        hint = next(each for each in candidates if each == MIN_LENGTH or each not in used)
        symbol = self._flat.scope.add_symbol(hint, 0)
        self._flat.symbol_levels[number_of(symbol)] = len(self._flat.regions) - 1
        return symbol

    def _extent_of(self, value: Sum) -> Any:
        """Returns a sum as a length.

        The varying part of the value is one symbol: less is known about sums and differences of
        symbols.
        """
        if len(value.terms) != 1:
            return self._sum_symbol(Sum(0, value.terms)) + value.constant if value.terms else value.constant
        ((element, factor),) = value.terms
        return factor * self._sum_symbol(Sum(0, ((element, 1),))) + value.constant

    def _sum_symbol(self, value: Sum) -> Any:
        """Returns the symbol for a sum, which the program computes here or has computed before."""
        known = self._known_symbol(value)
        if known is None:
            self._require_tensors(value)
            known = self.symbol(is_data=True)
            region = self._flat.regions[-1]
            region.items.append(LengthUpdate(lengths=((number_of(known), value),)))
            self._flat.element_symbols[value] = region, known
        return known

    def _inferred_symbol(self, value: Sum, others: tuple[Sum, ...], total: Any) -> Any:
        """Returns the symbol for a length of a shape, which may also be -1."""
        symbol = self.symbol(is_data=True)
        length = InferredLength(number=value, others=others, total=total)
        self._flat.regions[-1].items.append(LengthUpdate(lengths=((number_of(symbol), length),)))
        return symbol

    def _known_symbol(self, value: Sum) -> Any:
        """Returns the symbol for a sum that the program has computed; None if there is none."""
        known = self._flat.element_symbols.get(value)
        return (
            known[1] if known is not None and any(known[0] is each for each in self._flat.regions) else None
        )

    def _require_tensors(self, value: Sum) -> None:
        """Checks that the elements of a sum have memory."""
        if not all(self._flat.operands[operand].type.is_tensor for (operand, _), _ in value.terms):
            raise NotStructured("a length is a scalar operand")

    def computes_lengths(self, call: Call) -> bool:
        """Keeps the results of an operation on lengths, if it is one."""
        results = lengths_of(call, self._flat.value)
        if results is None:
            return False
        outputs = (index for indexes in call.binding.outputs.values() for index in indexes)
        for index, result in zip(outputs, results, strict=True):
            if has_extents(result.reshape(-1).tolist()):
                self._flat.extents[index], self._flat.shapes[index] = result, result.shape
                self._flat.operands[index] = replace(self._flat.operands[index], dimensions=result.shape)
            else:
                self._flat.set_constant(index, result.astype(self._flat.operands[index].type.dtype))
        return True

    def add(self, operation: Operation, graph: int, origin: int) -> None:
        """Adds an operation whose shape follows from integers that are data."""
        from neurald.drivers.compiler.frontend.control_flow.counted_rows import COUNTED, counted_rows  # rare

        if operation.type in COUNTED:
            part = counted_rows(
                operation,
                self._flat,
                lambda added, shapes: self.append(added, shapes, graph, origin),
                (graph, origin),
            )
            self._add_rows(part, operation.outputs[0])
            # Other rows that are counted by the same operand have the same length.
            (rows, *_), (length, *_) = part.lengths, self._flat.shape(operation.outputs[0])
            region = self._flat.regions[-1]
            for each, found in ((rows, length), (Sum(0, rows.terms), length - rows.constant)):
                self._flat.element_symbols.setdefault(each, (region, found))
            return
        ways = [lambda: self._with_symbols(operation, graph, origin)]
        if operation.type is OperationType.TFLITE_RANGE:
            if self._flat.operands[operation.outputs[0]].type is OperandType.TENSOR_FLOAT32:
                self._with_hints([lambda: self._add_counted(operation, graph, origin)])
                return
            ways.insert(0, lambda: self._with_symbols(operation, graph, origin, _RANGE_HINTS))
        if operation.type in STRIDED_SLICES:
            ways[:0] = [
                lambda: self._add_consecutive(operation, graph, origin),
                lambda: self._add_consecutive(operation, graph, origin, opens=True),
            ]
        if operation.type in RESHAPES:
            # A single length follows from the number of elements, others do not.
            at = 0 if self._unknown_lengths(operation) > 1 else 1
            ways.insert(at, lambda: self._add_copy(operation))
        self._with_hints(ways)

    def _with_hints(self, ways: Sequence[Callable[[], None]]) -> None:
        """Adds operations with lengths from data; tries several hints in several ways."""
        failed: BadData | None = None
        for add, hint in product(ways, _DATA_HINTS):
            self._data_hint = hint
            try:
                with self._flat.attempt():
                    add()
                    return
            except BadData as error:
                failed = error if failed is None else failed
            finally:
                self._data_hint = _DATA_HINTS[0]
        assert failed is not None  # noqa: S101 - there is a way
        raise failed

    def _with_symbols(
        self, operation: Operation, graph: int, origin: int, hints: Mapping[str, int] = _NO_HINTS
    ) -> None:
        """Adds an operation with symbols for the inputs that its shape depends on.

        Args:
            operation, graph, origin: see `add`.
            hints: of symbols for the inputs of these names.
        """
        operation = replace(operation, inputs=tuple(self.realized(each) for each in operation.inputs))
        call = self._flat.call(operation)
        others = arithmetic_inputs(call).union(
            *(call.binding.inputs.get(name, ()) for name in (*_DIMENSIONS, *_DIVISORS))
        )
        declared = self._flat.operands[operation.outputs[0]].dimensions or ()
        lengths: dict[int, Array] = {}
        named = {call.index(name): hint for name, hint in hints.items()}
        while (needed := self._needed(operation, lengths)) is not None:
            self._data_hint = named.get(needed, self._data_hint)
            found = self._lengths_at(operation, call, needed, declared) if needed not in others else None
            if found is None:
                raise ShapeChanges(f"the shape of the result of {operation.type.name} depends on data")
            lengths.update((n, found) for n, index in enumerate(operation.inputs) if index == needed)
        shapes = self._shapes(operation, lengths)
        if self._settle(list(lengths.values()), shapes[0], declared):
            shapes = self._shapes(operation, lengths)
        self.append(self._with_lengths(operation, lengths), shapes, graph, origin)

    def _unknown_lengths(self, operation: Operation) -> int:
        """Returns how many lengths in the shape of a RESHAPE are data and not declared."""
        sums = self._flat.sums_of(self._flat.call(operation).index("shape"))
        given = [] if sums is None else sums.reshape(-1).tolist()
        declared = self._flat.operands[operation.outputs[0]].dimensions or [0] * len(given)
        return sum(bool(each.terms) and not known for each, known in zip(given, declared, strict=False))

    def _add_copy(self, operation: Operation) -> None:
        """Adds a RESHAPE as a copy, whatever the hints say about the number of elements.

        Raises:
            BadData: the shape has no lengths, or another number of elements.
        """
        operation = replace(operation, inputs=tuple(self.realized(each) for each in operation.inputs))
        call, output = self._flat.call(operation), operation.outputs[0]
        declared = self._flat.operands[output].dimensions
        lengths = self._given_lengths(operation, call, call.index("shape"), declared or ())
        if lengths is None or lengths.ndim != 1:
            raise BadData("the shape is not a vector of lengths")
        self._leave(lengths, prod(self._flat.shape(call.index("input"))))
        shape = merge(declared, tuple(lengths.tolist()), operand_name(self._flat.operands, output))
        self._flat.operands[output] = replace(self._flat.operands[output], dimensions=shape)
        self._flat.shapes[output], self._flat.levels[output] = shape, len(self._flat.regions) - 1
        source = self.stored(call.index("input"))
        # An output is copied where the caller wants it if all lengths are known before.
        self._flat.add_guards()
        self._flat.regions[-1].items.append(Copy(target=output, source=source))

    def _leave(self, lengths: Array, total: Any) -> None:
        """Replaces -1, or else the last length that is data, by what others leave of a number."""
        given = lengths.tolist()
        unknown = [at for at, each in enumerate(given) if isinstance(each, Extent)]
        if not unknown:
            raise BadData("no length is data")
        inferred = [at for at, each in enumerate(given) if not isinstance(each, Extent) and each == -1]
        last = (inferred or unknown)[-1]
        others = prod(each for at, each in enumerate(given) if at != last)
        left: Any = total // others
        if isinstance(left, Extent):
            # Code for a symbol permits 0 and 1. Any hint will do, since nothing else is known.
            left = self._limited_symbol(left, max(left.hint, MIN_LENGTH), MAX_LENGTH)
        lengths[last] = left
        wrong = [total - left * others, *([] if inferred else [given[last] - left])]
        if any(not isinstance(each, Extent) and each for each in wrong):
            raise BadData(f"{total} elements have no shape {given}")
        self._require_zero(*(each for each in wrong if isinstance(each, Extent)))

    def _add_counted(self, operation: Operation, graph: int, origin: int) -> None:
        """Adds a RANGE of floats, whose number of elements is computed first."""
        if any(self._flat.operands[operation.outputs[0]].dimensions or ()):
            raise ShapeChanges("the result of TFLITE_RANGE must have a length that depends on data")
        from neurald.drivers.compiler.frontend.control_flow.float_ranges import float_range_count  # rare

        count = float_range_count(
            operation, self._flat, lambda added, shapes: self.append(added, shapes, graph, origin)
        )
        # Counts that are negative or too large to be a length are those of errors.
        self.append(operation, ((self._extent_of(Sum(0, (((count, 0), 1),))),),), graph, origin)

    def _needed(self, operation: Operation, lengths: Mapping[int, Array]) -> int | None:
        """Returns the next unknown input that the shapes of the results depend on.

        Other integers need not be lengths: they may be negative, for example.
        """
        call = self._flat.call(self._with_lengths(operation, lengths))
        try:
            DEFINITIONS[operation.type].output_shapes(call)
        except UnknownValue as error:
            (name,) = error.args
            position = self._flat.call(operation).index(name)
            return None if position in (operation.inputs[each] for each in lengths) else position
        return None

    def _lengths_at(
        self, operation: Operation, call: Call, index: int, declared: Sequence[int]
    ) -> Array | None:
        """Returns the elements of an input as lengths of a valid shape; None if they cannot be."""
        values = self._given_lengths(operation, call, index, declared)
        if values is None:
            return None
        if operation.type in RESHAPES:
            self._complete(values, self._flat.shape(call.index("input")))
        elif operation.type is OperationType.TFLITE_BROADCAST_TO:
            before = self._flat.shape(call.index("input"))
            kept = tuple(0 if isinstance(each, Extent) or each == 1 else each for each in before)
            self._settle([values], values.tolist(), (0,) * (values.size - len(kept)) + kept)
        return values

    def _given_lengths(
        self, operation: Operation, call: Call, index: int, declared: Sequence[int]
    ) -> Array | None:
        """Returns the elements of an input as lengths; None if they cannot be."""
        sums = self._flat.sums_of(index)
        if sums is None or sums.size > _MAX_LENGTHS:
            return None
        values = np.empty(sums.shape, object)
        may_leave = operation.type in RESHAPES and index in self._flat.model.main.inputs
        for at, each in np.ndenumerate(sums):
            if may_leave:
                others = tuple(other for place, other in np.ndenumerate(sums) if place != at)
                values[at] = self._inferred_symbol(each, others, prod(self._flat.shape(call.index("input"))))
            else:
                values[at] = self._extent_of(each)
        if operation.type in RESHAPES:
            self._settle([values], values.tolist(), declared)
        return values

    def _shapes(self, operation: Operation, lengths: Mapping[int, Array]) -> Sequence[Shape]:
        """Returns the results' shapes of an operation with lengths as inputs at some positions."""
        try:
            call = self._flat.call(self._with_lengths(operation, lengths))
            return DEFINITIONS[operation.type].output_shapes(call)
        except UnknownValue:
            raise ShapeChanges(f"the shape of the result of {operation.type.name} depends on data") from None

    def _with_lengths(self, operation: Operation, lengths: Mapping[int, Array]) -> Operation:
        """Returns an operation whose inputs at some positions are lengths."""
        inputs = list(operation.inputs)
        for position, values in lengths.items():
            inputs[position] = self._flat.integers(values, self._flat.operands[inputs[position]].type)
        return replace(operation, inputs=tuple(inputs))

    def _settle(self, lengths: Sequence[Array], shape: Sequence[Any], declared: Sequence[int]) -> bool:
        """Replaces lengths by needed ones, such as declared lengths; the program checks them.

        Args:
            lengths: the lengths, which are replaced.
            shape: the shape of the result that follows from them.
            declared: lengths that the result needs; 0 for what is open.

        Returns:
            True if there were any.
        """
        found = False
        for length, wanted in zip(shape, declared, strict=False):
            if not wanted or not isinstance(length, Extent):
                continue
            for values in lengths:
                for at, each in np.ndenumerate(values):
                    number = _solved(length, each, wanted)
                    if number is not None:
                        self._require_zero(each - number)
                        values[at], found = number, True
        return found

    def _require_zero(self, *extents: Extent) -> None:
        """Makes the program check here that extents are 0."""
        from neurald.drivers.compiler.ir.extents.scope import Guard  # Few models need it.
        from neurald.drivers.compiler.ir.extents.terms import Relation

        guards = tuple(Guard(extent=each, relation=Relation.ZERO, holds=True) for each in extents)
        self._flat.regions[-1].items.append(LengthUpdate(guards=guards))

    def _complete(self, lengths: Array, shape: Shape) -> None:
        """Replaces a length of a reshaped operand, or -1, by the only one that it can have.

        Raises:
            BadData: there is none for the hints.
        """
        unknown = [at for at, each in np.ndenumerate(lengths) if isinstance(each, Extent)]
        if not unknown:
            return
        inferred = [at for at, each in np.ndenumerate(lengths) if not isinstance(each, Extent) and each == -1]
        total, others, last = prod(shape), 1, (inferred or unknown)[-1]
        for at, each in np.ndenumerate(lengths):
            others = others if at == last else others * each
        given: Any = lengths[last]
        lengths[last] = self._own_symbol(total // others) if inferred else total // others
        wrong: Any = total - lengths[last] * others if inferred else given - lengths[last]
        is_known = not isinstance(wrong, Extent)
        if (inferred or is_known) and estimate(wrong) != 0:
            raise BadData(f"{total} elements are not a multiple of {others}")
        if is_known:
            return
        self._require_zero(wrong)

    def _with_stored_inputs(self, operation: Operation) -> Operation:
        """Returns an operation whose inputs are stored, except those that its shape depends on."""
        inputs = list(operation.inputs)
        for position, index in enumerate(operation.inputs):
            if index in self._flat.parts:
                inputs[position] = self.realized(index)
            elif index in self._flat.extents and not self._has_shape_of(operation, index):
                inputs[position] = self.stored(index)
        return operation if inputs == list(operation.inputs) else replace(operation, inputs=tuple(inputs))

    def _has_shape_of(self, operation: Operation, index: int) -> bool:
        """Returns True if the shape of a result follows from the elements of an operand."""
        binding = DEFINITIONS[operation.type].bind(operation, self._flat.operands)
        call = Call(
            binding,
            self._flat.operands,
            self._flat.shapes.get,
            lambda each: None if each == index else self._flat.value(each),
            referenced=self._flat.model.referenced,
        )
        try:
            DEFINITIONS[operation.type].output_shapes(call)
        except UnknownValue:
            return True
        return False

    def stored(self, index: int) -> int:
        """Returns an operand that has memory: one whose elements are lengths gets it here."""
        index = self.realized(index)
        if index not in self._flat.extents:
            return index
        variable, values = self._flat.variable(index), self._flat.extents[index]
        update = LengthUpdate(stores=((variable, tuple(values.reshape(-1).tolist())),))
        self._flat.regions[-1].items.append(update)
        return variable

    def realized(self, index: int) -> int:
        """Returns a computed operand: adds a slice with a length that depends on data."""
        part = self._flat.parts.get(index)
        if part is None:
            return index
        output = self._flat.add_operand(
            replace(self._flat.operands[index], lifetime=Lifetime.TEMPORARY_VARIABLE, dimensions=None)
        )
        self._add_rows(part, output)
        return output

    def _add_rows(self, part: Part, output: int) -> None:
        """Adds a slice whose length depends on data, in the first way that is possible."""
        self._with_hints(
            [lambda: self._add_part(part, output), lambda: self._add_part(part, output, opens=True)]
        )

    def _add_part(self, part: Part, output: int, *, opens: bool = False) -> None:
        """Adds a slice.

        Args:
            part: the slice.
            output: its result.
            opens: True to slice a copy with lengths that are not known. Else no hints may exist for
                which the slice is valid: those of two lengths that are at most 3 together.
        """
        source, before = part.source, self._flat.shape(part.source)
        begins = [self._extent_of(each) for each in part.begins]
        if opens:
            vary = [
                bool(begin.terms or size.terms) for begin, size in zip(part.begins, part.lengths, strict=True)
            ]
            source = self._opened(source, vary)
        lengths = [
            self._slice_size(size, Sum(known) - first, whole - begin, whole)
            for size, first, begin, known, whole in zip(
                part.lengths, part.begins, begins, before, self._flat.shape(source), strict=True
            )
        ]
        lengths = [self._own_symbol(each) for each in lengths]
        self._add_slice(source, begins, lengths, part.operation, output, part.place)

    def _add_slice(
        self,
        source: int,
        begins: Sequence[Any],
        lengths: Sequence[Any],
        operation: Operation,
        output: int,
        place: tuple[int, int],
    ) -> None:
        """Adds a slice that stands for an operation or a part of it."""
        added = Operation(
            type=OperationType.TFLITE_SLICE,
            inputs=(source, self._flat.integers(begins), self._flat.integers(lengths)),
            outputs=(output,),
            number=operation.number,
        )
        shapes = DEFINITIONS[added.type].output_shapes(self._flat.call(added))
        self.append(added, shapes, *place)

    def _add_consecutive(self, operation: Operation, graph: int, origin: int, *, opens: bool = False) -> None:
        """Adds a strided slice of consecutive elements whose begin and end are data.

        Args:
            operation, graph, origin: see `add`.
            opens: see `_add_part`.

        Raises:
            BadData: it is another one.
        """
        call = self._flat.call(operation)
        source, output = self.realized(call.index("input")), operation.outputs[0]
        shape = self._flat.shape(source)
        begins, ends, strides = (self._flat.sums_of(call.index(name)) for name in ("begin", "end", "strides"))
        others = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset")
        if any(name in call.binding.inputs and call.scalar(name) for name in others) or any(
            sums is None or sums.ndim != 1 or len(sums) > len(shape) for sums in (begins, ends, strides)
        ):
            raise BadData("a strided slice also changes the rank")
        assert begins is not None and ends is not None and strides is not None  # noqa: S101, PT018 - see above
        open_begin, open_end = (int(call.scalar(name)) for name in ("begin_mask", "end_mask"))
        if opens:
            vary = [bool(begin.terms or end.terms) for begin, end in zip(begins, ends, strict=True)]
            source = self._opened(source, [*vary, *(False for _ in shape[len(vary) :])])
            shape = self._flat.shape(source)
        firsts, lengths = [], []
        for axis, whole in enumerate(shape):
            if axis >= len(strides):
                firsts.append(0)
                lengths.append(whole)
                continue
            if strides[axis] != Sum(1):
                raise BadData("a slice has steps")
            first = 0 if open_begin >> axis & 1 else self._slice_index(begins[axis], whole, 0)
            end = whole if open_end >> axis & 1 else self._slice_index(ends[axis], whole, first)
            firsts.append(first)
            lengths.append(self._own_symbol(end - first))
        self._add_slice(source, firsts, lengths, operation, output, (graph, origin))

    def _slice_index(self, given: Sum, whole: Any, low: Any) -> Any:
        """Returns an index of a slice, which is at least `low`, and at most the length `whole`."""
        if not given.terms and not has_extents((whole, low)):
            number = given.constant + (whole if given.constant < 0 else 0)
            return max(low, min(number, whole))
        self._require_tensors(given)
        hint = estimate(low) + (estimate(whole) - estimate(low)) // 2
        return self._limited_symbol(SliceIndex(number=given, whole=whole, low=low), hint, whole)

    def _slice_size(self, given: Sum, all_left: Sum, rest: Any, whole: Any) -> Any:
        """Returns the number of elements of a slice along a dimension.

        Args:
            given: the number, or -1.
            all_left: the number of elements from the begin of the slice on, as a sum.
            rest: the same, as a length.
            whole: the length of the dimension.
        """
        if given.terms == all_left.terms and same_length(given.constant, all_left.constant):
            return rest
        if not given.terms or self._known_symbol(given) is not None:
            return self._extent_of(given)
        self._require_tensors(given)
        return self._limited_symbol(SliceSize(number=given, rest=rest), estimate(rest) // 2, whole)

    def _limited_symbol(self, length: NewLength, hint: int, most: Any) -> Any:
        """Returns a symbol that is set to a length here.

        Raises:
            BadData: there are no hints for which dimensions as short as this one are open.
        """
        if hint < MIN_LENGTH:
            raise BadData(f"a length has the hint {hint}; at least {MIN_LENGTH} is expected")
        symbol = self._flat.scope.add_symbol(hint, 0, MAX_LENGTH if isinstance(most, Extent) else most)
        self._flat.symbol_levels[number_of(symbol)] = len(self._flat.regions) - 1
        self._flat.regions[-1].items.append(LengthUpdate(lengths=((number_of(symbol), length),)))
        return symbol

    def _own_symbol(self, length: Any) -> Any:
        """Returns a length as a symbol, and sets one if it has none; code for symbols permits 0.

        Raises:
            BadData: its hint cannot be that of a symbol.
        """
        if not isinstance(length, Extent) or any(length is each for each in self._flat.scope.symbols):
            return length
        return self._limited_symbol(length, length.hint, MAX_LENGTH)

    def _opened(self, index: int, opens: Sequence[bool]) -> int:
        """Returns a copy of an operand; some of its lengths are symbols, which are set here."""
        index = self.stored(index)
        shape = self._flat.shape(index)
        opened = tuple(self.symbol() if each else length for each, length in zip(opens, shape, strict=True))
        copy = self._flat.variable(index, opened)
        lengths = tuple(
            (number_of(symbol), length)
            for each, symbol, length in zip(opens, opened, shape, strict=True)
            if each
        )
        self._flat.regions[-1].items += [LengthUpdate(lengths=lengths), Copy(target=copy, source=index)]
        return copy


def _solved(length: Extent, part: Any, wanted: int) -> int | None:
    """Returns x if `length` is factor · part + rest and equals `wanted` for part = x, or None."""
    factor = length.hint // part.hint if isinstance(part, Extent) and part.hint else 0
    rest = length - factor * part
    if not factor or isinstance(rest, Extent) or (wanted - rest) % factor:
        return None
    return (wanted - int(rest)) // factor
