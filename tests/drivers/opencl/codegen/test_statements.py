"""Each expression is computed once, outside as many loops as possible, in a deterministic order."""

import pytest

from neurald.drivers.compiler.ir.expression import Expression, apply, axis, load, reduce
from neurald.drivers.compiler.ir.graph import inside
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.arguments import KernelArgument
from neurald.drivers.opencl.codegen.statements import Statements

pytestmark = pytest.mark.quick

SOURCE, OTHER = Value((8, 8), Scalar.FLOAT32), Value((8,), Scalar.FLOAT32)
POINTERS = {SOURCE: KernelArgument("a1", SOURCE.type), OTHER: KernelArgument("a2", OTHER.type)}


def written(body: Expression, names: dict[Expression, str], prefix: str = "t") -> tuple[str, str]:
    statements = Statements(POINTERS, names, prefix=prefix)
    result = statements.value(body)
    return "\n".join(statements.lines), result


def test_common_subexpressions_are_computed_once() -> None:
    i = axis(8)
    root = apply(Op.EXP, load(OTHER, (i,)))
    lines, result = written(root * root, {i: "i"})
    assert lines.count("exp(") == 1
    assert lines.count("a2[") == 1
    assert result == "(t1 * t1)"


def test_loop_invariants_are_computed_before_the_loop() -> None:
    i, along = axis(8), axis(8, "r")
    costly = apply(Op.EXP, load(OTHER, (i,)))
    total = reduce(ReductionOp.SUM, (along,), load(SOURCE, (i, along)) * costly)
    lines, _ = written(total, {i: "i"})
    before, inside_of_it = lines.split("for (", 1)
    assert "exp(" in before
    assert "exp(" not in inside_of_it
    assert "a1[" in inside_of_it


def test_values_of_a_loop_are_not_used_after_it() -> None:
    i, along = axis(8), axis(8, "r")
    element = apply(Op.EXP, load(OTHER, (along,)))
    first = reduce(ReductionOp.SUM, (along,), element * element)
    second = reduce(ReductionOp.MAXIMUM, (along,), element * element)
    lines, result = written(first + second, {i: "i"})
    assert lines.count("for (") == 2
    assert lines.count("exp(") == 2
    assert " + " in result


def test_guarded_loads() -> None:
    i = axis(10)
    lines, _ = written(load(OTHER, (i - 1,), inside((i - 1,), (8,)), 5.0), {i: "i"})
    assert "? a2[" in lines
    assert lines.rstrip(";").endswith(": 5.0f")


def test_prefixes_of_names() -> None:
    i = axis(8)
    lines, result = written(load(OTHER, (i,)), {i: "i"}, prefix="f")
    assert (lines.strip(), result) == ("const float f0 = a2[i];", "f0")


def test_the_order_of_terms_does_not_depend_on_addresses() -> None:
    texts = set()
    for turn in range(20):
        kept = [object() for _ in range(turn * 37)]
        i, j = axis(8, "i"), axis(8, "j")
        # Terms of the same factor that differ in what they read, or deep inside only.
        terms = [
            load(OTHER, (i,)).to(Scalar.INDEX),
            load(SOURCE, (i, j)).to(Scalar.INDEX),
            (i * 2 + 1) // 4,
            (i * 2 + j * 3 + 1) // 7,
            (i * 3 + j * 2 + 1) // 7,
        ]
        for each in terms if turn % 2 else terms[::-1]:
            kept.append(each)
        place = terms[turn % 5]
        for each in terms:
            place = place if each is terms[turn % 5] else place + each
        lines, result = written(load(OTHER, (place % 8,)), {i: "i", j: "j"})
        texts.add((lines, result))
        del i, j, terms, place
    assert len(texts) == 1
