"""Generates the functions that set lengths which change while a step runs.

A step's program calls such a function before the kernels and copies whose sizes depend on such
lengths. It computes what they need from the current lengths and writes it to the memory of the
step: the extents that kernels read, the numbers of work items, the addresses of parts of values,
and the numbers of bytes that copies move. It may then set new lengths.

Kernels are generated as if no length were 0 or 1. They are right for 1. Of an empty output nothing
is computed, and where a kernel would read or divide by what is empty, the function refuses. A sum
over nothing is 0, though, if the kernel can compute it. The function also refuses if a guard does
not hold. If a length exceeds its capacity, so that values might not fit into
the arena, it sets nothing, but stores the lengths that are wanted.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from neurald.drivers.compiler.frontend.control_flow.structured_model import (
    InferredLength,
    NewLength,
    SliceIndex,
    SliceSize,
    numbers_of,
)
from neurald.drivers.compiler.frontend.lengths.symbolic_integers import Sum
from neurald.drivers.compiler.ir.expression import Apply, Constant, Expression, Load, Reduce
from neurald.drivers.compiler.ir.extents.extent import MAX_LENGTH, Extent, symbols_of
from neurald.drivers.compiler.ir.extents.scope import ExtentScope, Guard
from neurald.drivers.compiler.ir.extents.terms import Atom, AtomKind, Relation
from neurald.drivers.compiler.ir.graph import Attention
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import EXTREMES, Op
from neurald.drivers.compiler.ir.traversal import free_axes, walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.target.executable import (
    EXCEEDS_CAPACITY,
    REFUSED,
    WORD_BYTES,
    LengthWords,
)
from neurald.drivers.cpu.target.routine import NAME, Routine

#: A divisor in the text of a function that reads extents.
_DIVISOR: Final = re.compile(r"\b[us](?:div|rem) i64 [^ ]+, %e(\d+)\b")
_NS_PER_NUMBER: Final = 2.0
_DIVISIONS: Final = frozenset((Op.DIVIDE, Op.FLOOR_DIVIDE, Op.TRUNCATE_DIVIDE, Op.MODULO))


class ElementOf(Struct, frozen=True):
    """An integer that is an element of a value."""

    value: Value
    number: int


class SizedCall(Struct, frozen=True, kw_only=True):
    """A kernel whose sizes a function sets.

    Attributes:
        number: the number of the call.
        record: offset of its record in the memory of the step.
        extents: offset of the words that it reads.
        cells: arguments that are parts of values: the offset of the argument, the value that it is
            a part of, and the offset in it, in bytes.
    """

    kernel: Kernel
    routine: Routine
    record: int
    extents: int
    cells: tuple[tuple[int, Value, "int | Extent"], ...]


class SizedCopy(Struct, frozen=True, kw_only=True):
    """A copy whose size a function sets.

    Attributes:
        record: offset of its record in the memory of the step.
        size_bytes: the number of bytes that it moves.
        start: the number of bytes of its target before those.
    """

    record: int
    size_bytes: "int | Extent"
    start: "int | Extent"


class Sizing(Struct, kw_only=True, eq=False):
    """A call that sets lengths; see this module.

    Attributes:
        lengths: the new values of symbols.
        elements: where the elements of operands are that they are computed from.
        stores: lengths that are stored in values.
        guards: must hold for the lengths before.
        calls: numbers of the calls whose sizes it sets.
        owners: values of which arguments of these calls are parts.
    """

    lengths: tuple[tuple[int, NewLength], ...] = ()
    elements: Mapping[tuple[int, int], ElementOf] = field(default_factory=dict)
    stores: tuple[tuple[Value, tuple["int | Extent", ...]], ...] = ()
    guards: tuple[Guard, ...] = ()
    calls: list[int] = field(default_factory=list)
    owners: tuple[Value, ...] = ()

    @property
    def read(self) -> tuple[Value, ...]:
        """The values with elements that become lengths."""
        return tuple(dict.fromkeys(each.value for each in self.elements.values()))

    @property
    def written(self) -> tuple[Value, ...]:
        """The values in which lengths are stored."""
        return tuple(dict.fromkeys(value for value, _ in self.stores))

    def placeholder(self) -> Routine:
        """Returns the routine before the positions of calls are known."""
        return Routine(
            text="",
            arguments=tuple(dict.fromkeys((*self.written, *self.read, *self.owners))),
            work_items=1,
            cost_ns=_NS_PER_NUMBER * (len(self.lengths) + 4 * len(self.calls)),
            label="sets lengths",
            reads_program=True,
        )

    def routine(
        self,
        scope: ExtentScope,
        words: LengthWords,
        calls: Sequence[SizedCall],
        copies: Sequence[SizedCopy],
    ) -> tuple[Routine, tuple[str, ...]]:
        """Returns the routine, and the reasons for its refusals, in the order of its reports.

        Args:
            scope: the scope of the lengths; no further guards are added.
            words: where lengths are.
            calls: those whose sizes it sets.
            copies: those whose sizes it sets.
        """
        placeholder = self.placeholder()
        arguments = {value: n for n, value in enumerate(placeholder.arguments)}
        code = _Code(scope, words, arguments, self.elements)
        used: list[Any] = [each for _, length in self.lengths for each in numbers_of(length)]
        used += [each for _, values in self.stores for each in values]
        used += [guard.extent for guard in self.guards]
        used += [each for copy in copies for each in (copy.size_bytes, copy.start)]
        for call in calls:
            used += [*call.routine.extents, call.routine.work_items, *(start for _, _, start in call.cells)]
        for symbol in sorted(symbols_of(used)):
            code.require_bounds(symbol)
        for guard in self.guards:
            code.require(guard)
        found = [(symbol, code.length(each)) for symbol, each in self.lengths]
        for symbol, length in found:
            # Code that was generated for one length only does not use the symbol any more.
            code.require_range(symbol, length)
        for call in calls:
            code.size(call)
        for copy in copies:
            code.size_copy(copy)
        for value, numbers in self.stores:
            for number, each in enumerate(numbers):
                code.store(value, number, code.number(each))
        code.set_lengths(found)
        routine = Routine(
            text=code.text(len(placeholder.arguments)),
            arguments=placeholder.arguments,
            work_items=1,
            cost_ns=placeholder.cost_ns,
            label=placeholder.label,
            reads_program=True,
        )
        return routine, tuple(code.reasons)


class _Code:
    """Writes the function.

    Args:
        scope, words: see `Sizing.routine`.
        arguments: the numbers of its arguments.
        elements: see `Sizing`.
    """

    def __init__(
        self,
        scope: ExtentScope,
        words: LengthWords,
        arguments: Mapping[Value, int],
        elements: Mapping[tuple[int, int], ElementOf],
    ) -> None:
        self._scope, self._words, self._arguments, self._elements = scope, words, arguments, elements
        self.reasons: dict[str, int] = {}
        self._lines: list[str] = []
        self._stores: list[str] = []
        self._count = 0
        self._numbers: dict[str, str] = {}

    def _new(self, instruction: str) -> str:
        name = f"%v{self._count}"
        self._count += 1
        self._lines.append(f"  {name} = {instruction}")
        return name

    def _load_word(self, offset: int) -> str:
        pointer = self._new(f"getelementptr i8, ptr %program, i64 {offset}")
        return self._new(f"load i64, ptr {pointer}, align 8")

    def _store_word(self, offset: int, value: str) -> None:
        name = f"%s{len(self._stores)}"
        self._stores.append(f"  {name} = getelementptr i8, ptr %program, i64 {offset}")
        self._stores.append(f"  store i64 {value}, ptr {name}, align 8")

    def _check(self, holds: str, reason: str) -> None:
        """Refuses unless a condition holds."""
        label = f"holds{self._count}"
        self._count += 1
        code = REFUSED + self.reasons.setdefault(reason, len(self.reasons))
        self._lines += [
            f"  store i32 {code}, ptr %status, align 4",
            f"  br i1 {holds}, label %{label}, label %refuse",
            f"{label}:",
        ]

    def number(self, value: "int | Extent") -> str:
        """Returns the value of an extent."""
        if not isinstance(value, Extent):
            return str(value)
        if value.key not in self._numbers:
            total = None
            for product, factor in value.terms.items():
                term = str(factor) if factor != 1 or not product else None
                for atom in product:
                    own = self._atom(atom)
                    term = own if term is None else self._new(f"mul i64 {own}, {term}")
                assert term is not None  # noqa: S101 - a product or a factor
                total = term if total is None else self._new(f"add i64 {total}, {term}")
            self._numbers[value.key] = str(total)
        return self._numbers[value.key]

    def _atom(self, atom: Atom) -> str:
        if atom.key not in self._numbers:
            if atom.kind is AtomKind.SYMBOL:
                found = self._load_word(self._words.length(atom.number))
            elif atom.kind is AtomKind.EXCESS:
                found = self._new(f"call i64 @llvm.smax.i64(i64 {self.number(atom.dividend)}, i64 0)")
            else:
                dividend, divisor = self.number(atom.dividend), self.number(atom.divisor)
                self._check(self._new(f"icmp sgt i64 {divisor}, 0"), "a divisor is not positive")
                rest = self._new(f"srem i64 {dividend}, {divisor}")
                is_negative = self._new(f"icmp slt i64 {rest}, 0")
                if atom.kind is AtomKind.REMAINDER:
                    moved = self._new(f"add i64 {rest}, {divisor}")
                    found = self._new(f"select i1 {is_negative}, i64 {moved}, i64 {rest}")
                else:
                    quotient = self._new(f"sdiv i64 {dividend}, {divisor}")
                    less = self._new(f"sext i1 {is_negative} to i64")
                    found = self._new(f"add i64 {quotient}, {less}")
            self._numbers[atom.key] = found
        return self._numbers[atom.key]

    def length(self, length: NewLength) -> str:
        """Returns a new length, which is neither negative nor too large."""
        if isinstance(length, SliceIndex):
            found = self._slice_index(length)
        elif isinstance(length, SliceSize):
            given, rest = self._given(length.number), self.number(length.rest)
            takes_rest = self._new(f"icmp eq i64 {given}, -1")
            found = self._new(f"select i1 {takes_rest}, i64 {rest}, i64 {given}")
        elif isinstance(length, InferredLength):
            found = self._inferred(length)
        else:
            found = self._given(length)
        self._check(self._new(f"icmp ule i64 {found}, {MAX_LENGTH}"), "a length is negative or too large")
        return found

    def _inferred(self, length: InferredLength) -> str:
        """Returns a length of a shape; one that leaves no length for -1 is negative."""
        given, total, others = self._given(length.number), self.number(length.total), "1"
        for each in length.others:
            others = self._new(f"mul i64 {others}, {self._given(each)}")
        is_positive = self._new(f"icmp sgt i64 {others}, 0")
        divisor = self._new(f"select i1 {is_positive}, i64 {others}, i64 1")
        left = self._new(f"sdiv i64 {total}, {divisor}")
        takes_left = self._new(f"icmp eq i64 {given}, -1")
        takes_left = self._new(f"and i1 {takes_left}, {is_positive}")
        return self._new(f"select i1 {takes_left}, i64 {left}, i64 {given}")

    def _slice_index(self, index: SliceIndex) -> str:
        """Returns an index between its limits, the lower one if they are in no order."""
        given, whole, low = self._given(index.number), self.number(index.whole), self.number(index.low)
        from_end = self._new(f"add i64 {given}, {whole}")
        is_negative = self._new(f"icmp slt i64 {given}, 0")
        found = self._new(f"select i1 {is_negative}, i64 {from_end}, i64 {given}")
        is_above = self._new(f"icmp sgt i64 {found}, {whole}")
        found = self._new(f"select i1 {is_above}, i64 {whole}, i64 {found}")
        is_below = self._new(f"icmp slt i64 {found}, {low}")
        return self._new(f"select i1 {is_below}, i64 {low}, i64 {found}")

    def _given(self, number: "int | Extent | Sum") -> str:
        """Returns the value of an extent, or of a sum of elements."""
        if not isinstance(number, Sum):
            return self.number(number)
        total = self.number(number.constant)
        for element, factor in number.terms:
            found = self._element(self._elements[element])
            scaled = found if factor == 1 else self._new(f"mul i64 {found}, {factor}")
            total = self._new(f"add i64 {total}, {scaled}")
        return total

    def _element(self, place: ElementOf) -> str:
        bits = 8 * place.value.type.size_bytes
        offset = place.number * place.value.type.size_bytes
        pointer = self._new(f"getelementptr i8, ptr %a{self._arguments[place.value]}, i64 {offset}")
        found = self._new(f"load i{bits}, ptr {pointer}, align 1")
        return found if bits == 64 else self._new(f"sext i{bits} {found} to i64")

    def require_bounds(self, symbol: int) -> None:
        """Refuses unless a length is in the range for which the code is valid."""
        self.require_range(symbol, self._atom(_symbol(self._scope, symbol)))

    def require_range(self, symbol: int, found: str) -> None:
        """Refuses unless a number is in the range of a length for which the code is valid."""
        low, high = self._scope.bounds(symbol)
        if low > 0:
            self._check(self._new(f"icmp sge i64 {found}, {low}"), f"length {symbol} is less than {low}")
        if high < MAX_LENGTH:
            self._check(self._new(f"icmp sle i64 {found}, {high}"), f"length {symbol} exceeds {high}")

    def require(self, guard: Guard) -> None:
        """Refuses unless a guard holds."""
        relation = "slt" if guard.relation is Relation.NEGATIVE else "eq"
        found = self._new(f"icmp {relation} i64 {self.number(guard.extent)}, 0")
        verb, what = "is" if guard.holds else "is not", guard.relation.name.lower()
        reason = f"{guard.extent.key} {verb} {what} for the lengths of which code was generated"
        self._check(found if guard.holds else self._new(f"xor i1 {found}, true"), reason)

    def size(self, call: SizedCall) -> None:
        """Sets the sizes of a kernel."""
        routine, kernel = call.routine, call.kernel
        items = self.number(routine.work_items)
        count: Any = math.prod(kernel.shape)
        if isinstance(count, Extent):
            is_empty = self._new(f"icmp eq i64 {self.number(count)}, 0")
            items = self._new(f"select i1 {is_empty}, i64 0, i64 {items}")
        else:
            is_empty = "false"
        for needed, skipping in _needed(kernel, routine).items():
            holds = self._new(f"icmp sgt i64 {self.number(needed)}, 0")
            for each in skipping:
                is_skipped = self._new(f"icmp eq i64 {self.number(each)}, 0")
                holds = self._new(f"or i1 {holds}, {is_skipped}")
            reason = f"{needed.key} is 0, and {routine.label} computes a result that is not empty"
            self._check(self._new(f"or i1 {is_empty}, {holds}"), reason)
        self._check(self._new(f"icmp sge i64 {items}, 0"), "a number of work items is negative")
        if isinstance(routine.work_items, Extent) or is_empty != "false":
            self._set_items(call.record, items)
        for position, each in enumerate(routine.extents):
            self._store_word(call.extents + WORD_BYTES * position, self.number(each))
        for cell, owner, start in call.cells:
            offset = self.number(start)
            self._check(self._new(f"icmp sge i64 {offset}, 0"), "an offset is negative")
            address = self._new(f"ptrtoint ptr %a{self._arguments[owner]} to i64")
            self._store_word(cell, self._new(f"add i64 {address}, {offset}"))

    def size_copy(self, copy: SizedCopy) -> None:
        """Sets the number of bytes that a copy moves, and where they begin."""
        if isinstance(copy.size_bytes, Extent):
            self._set_items(copy.record, self.number(copy.size_bytes))
        if isinstance(copy.start, Extent) or copy.start:
            self._store_word(copy.record + self._words.start, self.number(copy.start))

    def _set_items(self, record: int, number: str) -> None:
        """Sets the work items of a call, or the bytes of a copy."""
        self._store_word(record + self._words.items, number)

    def store(self, value: Value, number: int, length: str) -> None:
        """Stores a length in a value."""
        bits = 8 * value.type.size_bytes
        if bits < 64:
            length = self._new(f"trunc i64 {length} to i{bits}")
        name = f"%s{len(self._stores)}"
        offset = number * value.type.size_bytes
        argument = self._arguments[value]
        self._stores.append(f"  {name} = getelementptr i8, ptr %a{argument}, i64 {offset}")
        self._stores.append(f"  store i{bits} {length}, ptr {name}, align 1")

    def set_lengths(self, lengths: Iterable[tuple[int, str]]) -> None:
        """Sets lengths, unless one exceeds its capacity."""
        exceeds = "false"
        wanted: list[str] = []
        for symbol, length in lengths:
            capacity = self._load_word(self._words.capacity(symbol))
            is_more = self._new(f"icmp sgt i64 {length}, {capacity}")
            exceeds = self._new(f"or i1 {exceeds}, {is_more}")
            name = f"%w{len(wanted)}"
            offset = self._words.wanted(symbol)
            wanted.append(f"  {name} = getelementptr i8, ptr %program, i64 {offset}")
            wanted.append(f"  store i64 {length}, ptr {name}, align 8")
            self._store_word(self._words.length(symbol), length)
        self._lines += [*wanted, f"  br i1 {exceeds}, label %exceed, label %set", "set:", *self._stores]
        self._lines.append("  store i32 0, ptr %status, align 4")

    def text(self, arguments: int) -> str:
        """Returns the function."""
        pointers = "".join(f"ptr %a{number}, " for number in range(arguments))
        return "\n".join(
            (
                f"define void @{NAME}({pointers}ptr %program, ptr %scratch, ptr %status, i64 %begin, "
                "i64 %end) nounwind {",
                *self._lines,
                "  ret void",
                "exceed:",
                f"  store i32 {EXCEEDS_CAPACITY}, ptr %status, align 4",
                "  ret void",
                "refuse:",
                "  ret void",
                "}",
                "",
            )
        )


def _symbol(scope: ExtentScope, number: int) -> Atom:
    ((atom,),) = scope.symbols[number].terms
    found: Atom = atom
    return found


def _needed(kernel: Kernel, routine: Routine) -> Mapping[Extent, Sequence[Extent]]:
    """Returns the extents that a kernel takes to be at least 1, unless its output is empty.

    Each is mapped to the extents of reductions over nothing that skip what needs it.
    """
    node = kernel.contraction
    roots = (*kernel.roots, *node.roots) if isinstance(node, Attention) else kernel.roots
    expressions = [*walk(*roots)]
    reduced = {along for each in expressions if isinstance(each, Reduce) for along in each.axes}
    may_reduce_nothing = routine.may_reduce_nothing and not any(map(_depends_on_elements, expressions))
    always: list[Any] = [*kernel.shape]
    if node is not None:
        read = () if routine.may_read_nothing else node.inputs
        always += [length for value in (*read, node.output) for length in value.shape]
    always += [routine.extents[int(number)] for number in _DIVISOR.findall(routine.text)]
    if not may_reduce_nothing:
        always += [along.extent for along in reduced]
    found: dict[Extent, list[Extent]] = {each: [] for each in always if isinstance(each, Extent)}
    for each in expressions:
        if not isinstance(each, Load) or each.guard is not None:
            continue
        # A load at an index of a reduction is inside of it.
        around = {along.extent for along in free_axes(each) & reduced} if may_reduce_nothing else set()
        skipping: list[Extent] = [length for length in around if isinstance(length, Extent)]
        for length in each.value.shape:
            if not isinstance(length, Extent) or _is_among(length, skipping):
                continue
            known = found.setdefault(length, skipping)
            found[length] = [one for one in known if _is_among(one, skipping)]
    return found


def _is_among(length: Extent, others: Iterable[Extent]) -> bool:
    """Returns True if a length is known to be equal to another one. Guards nothing."""
    return any(length is other for other in others)


def _depends_on_elements(expression: Expression) -> bool:
    """Returns True if an expression has no result for a reduction over nothing.

    References refuse the largest element of nothing, and a division by the number of elements.
    """
    if isinstance(expression, Reduce):
        return expression.reduction in EXTREMES
    if not isinstance(expression, Apply) or expression.op not in _DIVISIONS:
        return False
    return not isinstance(expression.arguments[1], Constant) or isinstance(
        expression.arguments[1].value, Extent
    )
