"""Translation of expressions to instructions, for one element or for several in lanes.

Every expression is computed once, hoisted as far out of loops as possible. The lanes of a vector
are consecutive elements along one axis. Expressions that depend on this axis are vectors, all
others are scalars, which are broadcast where they are combined with vectors. Loads with consecutive
addresses along the lanes, in either order, load a vector, loads of every other element two, and all
others gather.
"""

from collections.abc import Iterator, Mapping

from neurald.drivers.compiler.analysis.weight_exponent import is_weight_exponent
from neurald.drivers.compiler.ir.expression import (
    AccumulatorRef,
    Apply,
    Axis,
    Constant,
    Expression,
    Linear,
    Load,
    Reduce,
)
from neurald.drivers.compiler.ir.extents.extent import estimate, is_always_at_least, is_zero
from neurald.drivers.compiler.ir.nesting import BoundedRecursion
from neurald.drivers.compiler.ir.offsets import TermOrder, offset_of, stride_along
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.reductions import Reductions
from neurald.drivers.cpu.codegen.scope import Scope
from neurald.drivers.cpu.codegen.vector_lanes import VectorLanes
from neurald.drivers.cpu.emit import vector_memory
from neurald.drivers.cpu.emit.byte_tables import is_permuted, permuted
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.math.byte_quotients import byte_quotient, byte_quotient_of, has_byte_quotients
from neurald.drivers.cpu.emit.math.float_rescaling import clamped_product, limited_rescaling
from neurald.drivers.cpu.emit.math.integers import resized, wrapped
from neurald.drivers.cpu.emit.math.quotients import quotient, quotient_of
from neurald.drivers.cpu.emit.math.rounding import float_to_half, half_to_float
from neurald.drivers.cpu.emit.math.saturated_bytes import (
    has_saturated_bytes,
    limited_byte,
    moved_byte,
    moved_bytes,
    saturated_bytes,
)
from neurald.drivers.cpu.emit.math.sigmoids import (
    gate,
    gated,
    has_risen,
    risen,
    risen_curve,
    tanh_for_half,
    tanh_of_half,
    tanh_of_log,
    tanh_of_log_curve,
)
from neurald.drivers.cpu.emit.math.vector_math import MIN_WEIGHT_EXPONENT, exp, limited_exponent, weight
from neurald.drivers.cpu.emit.op_table import (
    apply_value,
    computed,
    constant_text,
    from_stored,
    stored,
    to_stored,
)
from neurald.drivers.cpu.emit.sloped_tables import sloped, sloped_table
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.schedule.lane_constants import LaneConstants, RowLoad, windows
from neurald.drivers.cpu.target.target import Target

#: Size of values that exceed the first-level cache when read, and prefetch distance.
_STREAM_BYTES = 1 << 16
_AHEAD_BYTES = 1024
#: Maximum distance of elements that are loaded with those between them, instead of gathered, if it
#: is at most half the number of lanes of a register.
_MAX_LOADED_STRIDE = 8


class Statements:
    """Writes instructions for the element at one index, or for several along an axis.

    Args:
        code: receives the instructions.
        target: the target of the code.
        pointers: names of the values' memory.
        names: names of axes (i64); for the lanes' axis, that of the first lane. Also the name of
            `AccumulatorRef`, a vector.
        lanes: the elements that are computed together; None for one. Those that the mask excludes
            are neither read nor written.
        is_streaming: True if consecutive elements along the axis are computed next, and prefetched.
        row: constants of the lanes' axis if the name of the first lane's index is a number.

    Attributes:
        reductions: writes the reductions among the expressions.
    """

    def __init__(
        self,
        code: Instructions,
        target: Target,
        pointers: Mapping[Value, str],
        names: Mapping[Expression, str],
        *,
        lanes: VectorLanes | None = None,
        is_streaming: bool = False,
        row: LaneConstants | None = None,
    ) -> None:
        self._code = code
        self._target = target
        self._pointers = pointers
        self._single = Vector(code, target, 1)
        self._is_streaming = is_streaming
        self._row = row
        self._nesting = BoundedRecursion[str](self._parts)
        self._scope = scope = Scope(lanes=VectorLanes(self._single) if lanes is None else lanes)
        for expression, name in names.items():
            if isinstance(expression, AccumulatorRef) and scope.lanes.v.lanes > 1:
                scope.lanes.known[expression] = name
            else:
                scope.names[expression] = name
        self._order = TermOrder(pointers, scope.names)
        self.reductions = Reductions(code, target, scope, row, self.value)

    def value(self, expression: Expression) -> str:
        """Returns an expression in every lane, of type `computed(expression, lanes)`."""
        if self._scope.lanes.v.lanes == 1:
            return self._scalar(expression)
        return self._vector(expression)

    def know(self, expression: Expression, name: str) -> None:
        """Sets the vector of an expression, whose type is `computed(expression, lanes)`."""
        self._scope.lanes.known[expression] = name

    def require(self, condition: Expression, code: int) -> None:
        """Stores `code` to `%status` if a condition fails in any existing lane."""
        v = self._scope.lanes.v
        if not self._scope.lanes.varies(condition):
            holds = self._scalar(condition)
        else:
            holds = self._vector(condition)
            if self._scope.lanes.mask is not None:
                missing = v.binary("xor", "i1", self._scope.lanes.mask, v.number("i1", 1))
                holds = v.binary("or", "i1", holds, missing)
            holds = v.all_lanes(holds)
        if holds == "true":
            return
        with self._code.when(self._single.binary("xor", "i1", holds, "true")):
            self._code.effect(f"store i32 {code}, ptr %status, align 4")

    def store(self, pointer: str, offset: Expression, element: Expression) -> None:
        """Stores elements, starting at an offset for the first lane.

        Args:
            pointer: name of the memory.
            offset: offset in elements.
            element: the stored expression.
        """
        v, kind = self._scope.lanes.v, element.type
        value = to_stored(v, kind, self.value(element))
        vector_memory.store(v, stored(kind), value, pointer, self._scalar(offset), self._scope.lanes.mask)

    def _parts(self, expression: Expression) -> list[Expression]:
        """Returns the operands that are computed in this scope.

        The body of a reduction is not, since it is computed in the loop of the reduction.
        """
        if isinstance(expression, Reduce):
            return []
        if isinstance(expression, Linear):
            return [term for term, _ in self._order.terms(expression) if term.operands]
        return [each for each in expression.operands if each.operands]

    # Scalars. For expressions that differ between lanes: the value of the first lane.

    def _scalar(self, expression: Expression) -> str:
        if isinstance(expression, Constant):
            return constant_text(self._single, expression.value, expression.type, computed(expression, 1))
        known = self._scope.names.get(expression) or self._scope.scalars.get(expression)
        if known is not None and self._code.is_known(known):
            return known
        name = self._scope.scalars[expression] = self._nesting.compute(
            expression, self._new_scalar, self._scalar
        )
        return name

    def _new_scalar(self, expression: Expression) -> str:
        if isinstance(expression, Linear):
            return self._sum(
                self._single, expression, {t: self._scalar(t) for t, _ in self._order.terms(expression)}
            )
        if isinstance(expression, Load):
            return self._scalar_load(expression)
        if isinstance(expression, Reduce):
            return self.reductions.value(expression)
        if isinstance(expression, Apply):
            arguments = [(computed(each, 1), self._scalar(each)) for each in expression.arguments]
            return apply_value(self._single, expression, arguments)
        what = "the sum of a contraction" if isinstance(expression, AccumulatorRef) else "an axis"
        raise AssertionError(f"{what} has no value in this scope")

    def _scalar_load(self, load: Load) -> str:
        offset = offset_of(load)
        if load.guard is None or load.otherwise is None:
            return self._loaded(self._single, load.value, self._scalar(offset))
        if not load.value.count:
            return self._scalar(load.otherwise)
        guard = self._scalar(load.guard)
        safe = self._single.select(guard, "i64", self._scalar(offset), "0")
        value = self._loaded(self._single, load.value, safe)
        return self._single.select(guard, computed(load, 1), value, self._scalar(load.otherwise))

    def _loaded(self, v: Vector, value: Value, offset: str) -> str:
        """Loads elements that begin at an offset."""
        text = vector_memory.load(v, stored(value.type), self._pointers[value], offset)
        return from_stored(v, value.type, text)

    def _sum(self, v: Vector, expression: Linear, names: Mapping[Expression, str]) -> str:
        """Computes a linear form in the width of its type."""
        element = computed(expression, v.lanes)
        total = "" if is_zero(expression.constant) else v.number(element, expression.constant)
        for term, factor in self._order.terms(expression):
            name = names[term]
            if abs(factor) != 1:
                name = v.binary("mul", element, name, v.number(element, factor))
            if not total:
                total = name if factor != -1 else v.binary("sub", element, v.number(element, 0), name)
            else:
                total = v.binary("sub" if factor == -1 else "add", element, total, name)
        return total

    # Vectors.

    def _vector(self, expression: Expression) -> str:
        lanes = self._scope.lanes
        v = lanes.v
        if isinstance(expression, Constant):
            return constant_text(v, expression.value, expression.type, computed(expression, v.lanes))
        if not lanes.varies(expression):
            element, name = computed(expression, v.lanes), self._scalar(expression)
            if expression.type is Scalar.INDEX:
                name = resized(self._single, ("i64", name), element)
            return v.splat(element, name)
        known = lanes.known.get(expression)
        if known is not None and self._code.is_known(known):
            return known
        values = self._in_row(expression) if expression.type in (Scalar.INDEX, Scalar.BOOL) else None
        if values is not None:
            return v.numbers(computed(expression, v.lanes), values)
        name = lanes.known[expression] = self._nesting.compute(expression, self._new_vector, self._vector)
        return name

    def _new_vector(self, expression: Expression) -> str:
        v = self._scope.lanes.v
        if isinstance(expression, Axis):
            return self._lane_indices(expression)
        if isinstance(expression, Linear):
            return self._vector_sum(expression)
        if isinstance(expression, Load):
            return self._vector_load(expression)
        if isinstance(expression, Reduce):
            return self.reductions.value(expression)
        if isinstance(expression, Apply):
            chosen = self._chosen(expression)
            if chosen is not None:
                return self._vector(chosen)
            stored_quotient = byte_quotient_of(expression, self._target) if has_byte_quotients(v) else None
            if stored_quotient is not None:
                return byte_quotient(v, stored_quotient, self._vector(stored_quotient.quotient.dividend))
            product = limited_rescaling(expression) if self._target.has_fma else None
            if product is not None:
                return clamped_product(v, product, self._vector(product.value))
            divided = quotient_of(expression) if self._target.has_fma else None
            if divided is not None:
                return quotient(v, divided, self._vector(divided.dividend))
            limited_float = limited_byte(expression) if has_saturated_bytes(v) else None
            if limited_float is not None:
                moved = moved_byte(limited_float)
                if moved is None or self._scope.lanes.varies(moved.offset):
                    return saturated_bytes(v, self._vector(limited_float), expression.type)
                return moved_bytes(v, self._vector(moved.value), self._scalar(moved.offset), expression.type)
            limited = limited_exponent(expression)
            if limited is not None:
                is_below, exponent, limit = limited
                x = self._vector(exponent)
                if limit >= MIN_WEIGHT_EXPONENT and is_weight_exponent(exponent):
                    return weight(v, x, limit)
                return exp(v, computed(expression, v.lanes), x, self._vector(is_below))
            total = tanh_of_log(expression)
            if total is not None:
                return tanh_of_log_curve(v, self._vector(total))
            half = tanh_of_half(expression)
            if half is not None:
                return half_to_float(v, float_to_half(v, tanh_for_half(v, self._vector(half))))
            product_with_gate = gate(expression)
            if product_with_gate is not None:
                number, argument = product_with_gate.number, product_with_gate.argument
                return gated(v, product_with_gate, self._vector(number), self._vector(argument))
            curve = risen(expression)
            if curve is not None and has_risen(v):
                return risen_curve(v, curve.op, self._vector(curve.arguments[0]))
            is_chosen = expression.op is Op.SELECT and expression.type is not Scalar.INDEX
            if is_chosen and not self._scope.lanes.varies(expression.arguments[0]):
                # Lanes of which all are masked are slow to load on some processors.
                condition = self._scalar(expression.arguments[0])
                first, second = (self._vector(each) for each in expression.arguments[1:])
                whole = v.type(computed(expression, v.lanes))
                return self._code.value(f"select i1 {condition}, {whole} {first}, {whole} {second}")
            arguments = [(computed(each, v.lanes), self._vector(each)) for each in expression.arguments]
            return apply_value(v, expression, arguments)
        raise AssertionError("the sum of a contraction has no value in this scope")

    def _lane_indices(self, axis: Axis) -> str:
        v, element = self._scope.lanes.v, computed(axis, self._scope.lanes.v.lanes)
        first = resized(self._single, ("i64", self._scope.names[axis]), element)
        return v.binary("add", element, v.splat(element, first), v.numbers(element, range(v.lanes)))

    def _vector_sum(self, expression: Linear) -> str:
        """Computes a linear form; terms that are equal in all lanes are added as scalars first."""
        v = self._scope.lanes.v
        element = computed(expression, v.lanes)
        names = {}
        same: dict[Expression, int] = {}
        for term, factor in self._order.terms(expression):
            if self._scope.lanes.varies(term):
                kind = computed(term, v.lanes)
                names[term] = resized(v, (kind, self._vector(term)), element)
            else:
                same[term] = factor
        total = ""
        for term, factor in self._order.terms(expression):
            if term in same:
                continue
            name = names[term]
            if factor != 1:
                name = v.binary("mul", element, name, v.number(element, wrapped(factor, element)))
            total = v.binary("add", element, total, name) if total else name
        base = "" if is_zero(expression.constant) else str(expression.constant)
        for term, factor in self._order.terms(expression):
            if term in same:
                name = self._single.binary("mul", "i64", self._scalar(term), str(factor))
                base = self._single.binary("add", "i64", name, base) if base else name
        if not base:
            return total
        return v.binary(
            "add", element, total, v.splat(element, resized(self._single, ("i64", base), element))
        )

    # Rows whose loop is written out.

    def _in_row(self, expression: Expression) -> list[int] | None:
        """Returns the values of an expression in all lanes, if they are constants."""
        if self._row is None or self._scope.lanes.along is not self._row.along:
            return None
        if not self._row.is_known(expression):
            return None
        return [int(each) for each in self._scope.of_lanes(self._row.of(expression))]

    def _chosen(self, expression: Apply) -> Expression | None:
        """Returns the operand of a selection that all lanes choose; None if they differ."""
        if expression.op is not Op.SELECT:
            return None
        holds = self._in_row(expression.arguments[0])
        if holds is None or any(holds) != all(holds):
            return None
        return expression.arguments[1 if any(holds) else 2]

    def _row_load(self, load: Load, found: RowLoad) -> str:
        """Loads elements of a row from constant positions."""
        v, kind = self._scope.lanes.v, load.value.type
        mask, offsets = self._scope.of_lanes(found.mask), self._scope.of_lanes(found.offsets)
        otherwise = load.otherwise
        if not mask.any() and otherwise is not None:
            return self._vector(otherwise)
        low, high = found.reach(load)
        length, starts = windows(offsets[mask].tolist(), (low, high), v.lanes)
        base, condition = self._scalar(found.base), None
        if found.condition is not None:
            condition = self._scalar(found.condition)
            base = self._single.select(condition, "i64", base, str(-low))
        at = [int(each) if is_loaded else None for each, is_loaded in zip(offsets, mask, strict=True)]
        text = vector_memory.permuted_load(
            v, stored(kind), self._pointers[load.value], base, length, starts, at
        )
        value = from_stored(v, kind, text)
        if otherwise is None or (mask.all() and condition is None):
            return value
        element = computed(load, v.lanes)
        other = self._vector(otherwise)
        if not mask.all():
            value = v.select(v.numbers("i1", mask.tolist()), element, value, other)
        if condition is None:
            return value
        whole = v.type(element)
        return self._code.value(f"select i1 {condition}, {whole} {value}, {whole} {other}")

    def _vector_load(self, load: Load) -> str:
        lanes, v = self._scope.lanes, self._scope.lanes.v
        kind, element = load.value.type, computed(load, v.lanes)
        guard = None if load.otherwise is None else load.guard
        if guard is not None and load.otherwise is not None and not load.value.count:
            return self._vector(load.otherwise)
        offset = offset_of(load)
        is_same = guard is None or not lanes.varies(guard)
        assert lanes.along is not None  # noqa: S101 - what varies does so along an axis
        stride = None if self._gathers(offset) else stride_along(offset, lanes.along)
        is_plain = stride == 1 and self._scope.window is None
        is_plain = is_plain and is_same and lanes.mask is None
        # Where the guard is false, the first vector of the value is read.
        if is_plain and (guard is None or is_always_at_least(load.value.count, v.lanes)):
            return self._contiguous(load, offset)
        if self._row is not None and lanes.along is self._row.along:
            found = self._row.row_load(load)
            if found is not None and self._scope.window is not None:
                return self._contiguous(load, found.base + (int(found.offsets[0]) + self._scope.window))
            if found is not None:
                return self._row_load(load, found)
        in_register = min(v.lanes, v.target.vector_bytes // kind.size_bytes)
        # Adjacent elements in reverse are one vector, however few lanes there are.
        longest = max(1, min(_MAX_LOADED_STRIDE, in_register // 2))
        is_short = isinstance(stride, int) and 0 < abs(stride) <= longest
        if is_short and stride is not None and guard is None and lanes.mask is None:
            return from_stored(v, kind, self._strided(load.value, self._scalar(offset), stride))
        mask = self._mask(guard)
        if stride == 0 and guard is not None:
            safe = self._single.select(v.any_lane(mask), "i64", self._scalar(offset), "0")
            value = v.splat(element, self._loaded(self._single, load.value, safe))
        elif stride == 1:
            pointer = self._pointers[load.value]
            text = vector_memory.masked_load(v, stored(kind), pointer, self._scalar(offset), mask)
            value = from_stored(v, kind, text)
        else:
            value = from_stored(v, kind, self._gathered(load.value, offset, mask))
        if guard is None or load.otherwise is None:
            return value
        return v.select(self._vector(guard), element, value, self._vector(load.otherwise))

    def _strided(self, value: Value, first: str, stride: int) -> str:
        """Loads elements at equal distances, with those between them."""
        v, distance = self._scope.lanes.v, abs(stride)
        starts = [number * v.lanes for number in range(distance - 1)]
        # The last vector ends with the last element, so that nothing behind it is read.
        starts.append((distance - 1) * (v.lanes - 1))
        at = [lane * distance for lane in range(v.lanes)]
        if stride < 0:
            # The element of the last lane has the lowest address.
            first = self._single.binary("add", "i64", first, str(stride * (v.lanes - 1)))
            at.reverse()
        return vector_memory.permuted_load(
            v, stored(value.type), self._pointers[value], first, v.lanes, starts, at
        )

    def _gathers(self, offset: Expression) -> bool:
        """Returns True if an offset depends on values computed per lane."""
        return any(map(self._scope.lanes.varies, _computed(offset)))

    def _mask(self, guard: Expression | None) -> str:
        """Returns the lanes that exist and satisfy a guard."""
        v, mask = self._scope.lanes.v, self._scope.lanes.mask
        if guard is None:
            return mask or v.number("i1", 1)
        holds = self._vector(guard)
        return holds if mask is None else v.binary("and", "i1", holds, mask)

    def _contiguous(self, load: Load, offset: Expression) -> str:
        v = self._scope.lanes.v
        where = self._scalar(offset)
        if load.guard is None or load.otherwise is None:
            streams = self._is_streaming and estimate(load.value.size_bytes) >= _STREAM_BYTES
            # A looked-up offset has no predictable successor.
            if streams and not any(True for _ in _computed(offset)):
                vector_memory.prefetch(
                    v, stored(load.value.type), self._pointers[load.value], where, _AHEAD_BYTES
                )
            return self._loaded(v, load.value, where)
        # A guard common to all lanes: the loaded value is discarded if it is false.
        guard = self._scalar(load.guard)
        value = self._loaded(v, load.value, self._single.select(guard, "i64", where, "0"))
        whole, other = v.type(computed(load, v.lanes)), self._vector(load.otherwise)
        return self._code.value(f"select i1 {guard}, {whole} {value}, {whole} {other}")

    def _gathered(self, value: Value, offset: Expression, mask: str | None) -> str:
        """Gathers elements."""
        v, element, width = (
            self._scope.lanes.v,
            stored(value.type),
            computed(offset, self._scope.lanes.v.lanes),
        )
        pointer = self._pointers[value]
        if is_permuted(self._target, element, value.size_bytes):
            table = sloped_table(value, v)
            if table is not None:
                return sloped(v, table, self._table_indices(offset))
            return permuted(v, element, pointer, self._table_indices(offset))
        offsets = self._vector(offset)
        if not vector_memory.has_word_gather(v, element, value.size_bytes):
            return vector_memory.gather(v, element, pointer, width, offsets, mask)
        short = resized(v, (width, offsets), "i32")
        return vector_memory.gather_from_words(v, element, pointer, short, value.size_bytes, mask)

    def _table_indices(self, index: Expression) -> str:
        """Returns indices into a table of 256 elements, i16."""
        v = self._scope.lanes.v
        number, offset = index, 0
        if isinstance(index, Linear) and len(index.terms) == 1 and index.terms[0][1] == 1:
            number, offset = index.terms[0][0], index.constant
        if isinstance(number, Apply) and number.op is Op.CONVERT:
            (source,) = number.arguments
            if source.type in (Scalar.INT8, Scalar.UINT8) and number.low + offset == 0:
                # Flipping the sign bit maps the smallest signed number to 0.
                first = v.binary("xor", "i8", self._vector(source), v.number("i8", -offset & 0xFF))
                return v.cast("zext", "i8", first, "i16")
        return resized(v, (computed(index, v.lanes), self._vector(index)), "i16")


def _computed(offset: Expression) -> Iterator[Expression]:
    """Yields the parts of an offset that are loaded or reduced."""
    return (each for each in walk(offset) if isinstance(each, Load | Reduce | AccumulatorRef))
