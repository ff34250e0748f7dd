from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import Expression, axis, constant
from neurald.drivers.compiler.ir.nesting import BoundedRecursion
from neurald.drivers.compiler.ir.scalar import Scalar


class _Counted:
    """Counts the subexpressions of an expression recursively."""

    def __init__(self) -> None:
        self.found: dict[Expression, int] = {}
        self.nesting = BoundedRecursion[int](lambda expression: expression.operands)

    def count(self, expression: Expression) -> int:
        if expression not in self.found:
            self.found[expression] = self.nesting.compute(expression, self._counted, self.count)
        return self.found[expression]

    def _counted(self, expression: Expression) -> int:
        return 1 + max((self.count(each) for each in expression.operands), default=0)


@sweep("length", [10, 31, 32, 33, 64, 65, 5_000])
def test_long_chains_do_not_exceed_the_recursion_limit(length: int) -> None:
    expression = axis(5).to(Scalar.INT32)
    for step in range(length):
        expression = expression * constant(3 + step % 2, Scalar.INT32) + expression
    assert _Counted().count(expression) == 2 + 2 * length
