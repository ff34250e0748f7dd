"""Renders expressions as statements of OpenCL C.

Each expression is computed only once, outside as many loops as possible.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from neurald.drivers.compiler.ir.expression import (
    AccumulatorRef,
    Apply,
    Constant,
    Expression,
    Linear,
    Load,
    Reduce,
)
from neurald.drivers.compiler.ir.extents.extent import Extent, is_one
from neurald.drivers.compiler.ir.graph import linearize
from neurald.drivers.compiler.ir.nesting import BoundedRecursion
from neurald.drivers.compiler.ir.offsets import TermOrder
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import free_axes, walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.arguments import KernelArgument
from neurald.drivers.opencl.codegen.dialect import (
    apply_text,
    combine_text,
    constant_text,
    identity_text,
    register_type,
)

#: Limit on nested parentheses: compilers reject deeper texts (Clang: 256), and operations add a few
#: of their own.
_MAX_PARENTHESES = 32


@dataclass(slots=True)
class _Scope:
    """Block of statements: that of the function, or of a loop in it."""

    depth: int
    lines: list[str] = field(default_factory=list)


class Statements:
    """Renders the statements of one function, in the order in which their values are requested.

    Args:
        pointers: the argument for each value.
        names: names of axes and of `AccumulatorRef`, or the text of a constant index.
        indent: the indentation of the statements.
        prefix: the prefix of declared names; other instances in the same function need different
            ones.
    """

    def __init__(
        self,
        pointers: Mapping[Value, KernelArgument],
        names: Mapping[Expression, str],
        indent: str = "  ",
        prefix: str = "t",
    ) -> None:
        self._pointers = pointers
        self._texts: dict[Expression, str] = dict(names)
        self._depths: dict[Expression, int] = dict.fromkeys(names, 0)
        self._scopes = [_Scope(0)]
        self._indent = indent
        self._prefix = prefix
        self._count = 0
        self._uses: dict[Expression, int] = {}
        #: Depth of nested parentheses in the text of an expression.
        self._parentheses: dict[Expression, int] = {}
        self._nesting = BoundedRecursion[str](self._parts)
        self._order = TermOrder({value: each.name for value, each in pointers.items()}, {})

    @property
    def lines(self) -> list[str]:
        """Statements so far."""
        return self._scopes[0].lines

    def value(self, expression: Expression) -> str:
        """Returns the text of an expression, which is a name or in parentheses.

        Adds the statements that the value needs.
        """
        for each in walk(expression):
            for operand in each.operands:
                self._uses[operand] = self._uses.get(operand, 0) + 1
        return self._value(expression)

    def _value(self, expression: Expression) -> str:
        if expression in self._texts:
            return self._texts[expression]
        if isinstance(expression, Constant):
            text = constant_text(expression.value, expression.type)
            self._texts[expression], self._depths[expression] = text, 0
            return text
        return self._nesting.compute(expression, self._new_value, self._value)

    def _new_value(self, expression: Expression) -> str:
        if isinstance(expression, Reduce):
            return self._reduction(expression)
        operands = self._operands(expression)
        texts = [self._value(each) for each in operands]
        depth = max((self._depths[each] for each in operands), default=0)
        parentheses = 1 + max((self._parentheses.get(each, 0) for each in operands), default=0)
        text = self._text(expression, texts)
        self._depths[expression] = depth
        is_short = self._is_short(expression) and parentheses <= _MAX_PARENTHESES
        if is_short and depth == self._scopes[-1].depth:
            self._texts[expression] = f"({text})"
            self._parentheses[expression] = parentheses
        else:
            self._texts[expression] = self._declare(expression.type, text, depth)
        return self._texts[expression]

    def _parts(self, expression: Expression) -> list[Expression]:
        """Returns the parts of an expression that are rendered before it.

        The body of a reduction is not one of them: it is rendered inside the loop.
        """
        if isinstance(expression, Reduce):
            return []
        return [each for each in self._operands(expression) if each.operands]

    def _operands(self, expression: Expression) -> tuple[Expression, ...]:
        """Returns the operands in an order that is the same in every run."""
        if isinstance(expression, Linear):
            return tuple(term for term, _ in self._order.terms(expression))
        if isinstance(expression, Load):
            place = linearize(expression.index, expression.value.shape)
            guarded = (
                () if expression.guard is None or expression.otherwise is None else expression.operands[-2:]
            )
            return (place, *guarded)
        return expression.operands

    def _is_short(self, expression: Expression) -> bool:
        """Returns True if the expression is written where it is used.

        This applies to every expression that is used only once, except loads.
        """
        return self._uses.get(expression, 0) <= 1 and not isinstance(expression, Load)

    def _declare(self, kind: Scalar, text: str, depth: int) -> str:
        name = f"{self._prefix}{self._count}"
        self._count += 1
        scope = self._scopes[depth]
        scope.lines.append(f"{self._margin(depth)}const {register_type(kind)} {name} = {text};")
        return name

    def _margin(self, depth: int) -> str:
        return self._indent * (depth + 1)

    def _text(self, expression: Expression, operands: list[str]) -> str:
        if isinstance(expression, Linear):
            return self._sum(expression)
        if isinstance(expression, Load):
            return self._load(expression, operands)
        if isinstance(expression, Apply):
            return apply_text(expression, operands)
        what = "the sum of a contraction" if isinstance(expression, AccumulatorRef) else "an axis"
        raise AssertionError(f"{what} has no name here")

    def _sum(self, expression: Linear) -> str:
        parts = []
        for term, factor in self._order.terms(expression):
            sign, size = _signed(factor)
            parts.append(
                f"{sign} {self._value(term)}" if is_one(size) else f"{sign} {self._value(term)} * {size}"
            )
        if isinstance(expression.constant, Extent) or expression.constant:
            parts.append(" ".join(map(str, _signed(expression.constant))))
        whole = " ".join(parts)
        return whole.removeprefix("+ ")

    def _load(self, expression: Load, texts: list[str]) -> str:
        element = self._pointers[expression.value].load(texts[0])
        return element if len(texts) == 1 else f"{texts[1]} ? {element} : {texts[2]}"

    def _reduction(self, expression: Reduce) -> str:
        """Renders a reduction outside of as many loops as possible."""
        depth = max((self._depths[each] for each in free_axes(expression)), default=0)
        inner = self._scopes[depth + 1 :]
        hidden = {each: (self._texts[each], found) for each, found in self._depths.items() if found > depth}
        for each in hidden:
            del self._texts[each], self._depths[each]
        del self._scopes[depth + 1 :]
        text = self._loops(expression)
        self._scopes += inner
        for each, (known, found) in hidden.items():
            self._texts[each], self._depths[each] = known, found
        return text

    def _loops(self, expression: Reduce) -> str:
        """Renders the loops of a reduction, one for each axis.

        Expressions that do not depend on the axes are computed before the loops.
        """
        outer = self._scopes[-1].depth
        total = f"{self._prefix}{self._count}"
        self._count += 1
        opened = []
        for axis in expression.axes:
            scope = _Scope(self._scopes[-1].depth + 1)
            self._scopes.append(scope)
            name = f"{axis.name}_{self._count}"
            self._count += 1
            self._texts[axis], self._depths[axis] = name, scope.depth
            opened.append((axis, name))
        value = self._value(expression.body)
        margin = self._margin(self._scopes[-1].depth)
        self._scopes[-1].lines.append(
            margin + combine_text(expression.reduction, total, value, expression.type)
        )
        inner: list[str] = []
        for axis, name in reversed(opened):
            scope = self._scopes.pop()
            margin = self._margin(scope.depth - 1)
            head = f"{margin}for (int {name} = 0; {name} < {axis.extent}; ++{name}) {{"
            inner = [head, *scope.lines, *inner, f"{margin}}}"]
            self._forget(scope.depth)
        lines = self._scopes[-1].lines
        start = identity_text(expression.reduction, expression.type)
        lines.append(f"{self._margin(outer)}{register_type(expression.type)} {total} = {start};")
        lines.extend(inner)
        self._texts[expression], self._depths[expression] = total, outer
        return total

    def _forget(self, depth: int) -> None:
        """Drops the values computed inside a loop that has ended."""
        for expression in [each for each, found in self._depths.items() if found >= depth]:
            del self._texts[expression], self._depths[expression]


def _signed(number: int) -> tuple[str, int]:
    """Returns the sign of a number and its absolute value. Extents count as positive."""
    if isinstance(number, Extent) or number >= 0:
        return "+", number
    return "-", -number
