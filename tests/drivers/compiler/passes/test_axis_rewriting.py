from neurald.drivers.compiler.ir.expression import Expression, Load, Reduce, axis, load, reduce
from neurald.drivers.compiler.ir.extents.extent import MIN_LENGTH
from neurald.drivers.compiler.ir.extents.scope import ExtentScope
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.offsets import offset_of, stride_along
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.axis_rewriting import simplify_axes, split_reduced_axes

_SHAPE = (2, 5, 7, 8)


def _image() -> Value:
    return Value(_SHAPE, Scalar.FLOAT32)


def _kernel(body: Expression, axes: tuple[Expression, ...]) -> Kernel:
    return Kernel(output=Value(_SHAPE, Scalar.FLOAT32), axes=axes, body=body)  # type: ignore[arg-type]


def test_all_axes_are_joined_if_elements_keep_their_order() -> None:
    at = tuple(axis(length) for length in _SHAPE)
    kernel = simplify_axes(_kernel(load(_image(), at) + load(_image(), at), at))
    assert kernel.shape == (560,)
    assert all(offset_of(each) is kernel.axes[0] for each in kernel.body.operands if isinstance(each, Load))


def test_an_axis_that_is_used_alone_is_not_joined() -> None:
    at, bias = tuple(axis(length) for length in _SHAPE), Value((8,), Scalar.FLOAT32)
    kernel = simplify_axes(_kernel(load(_image(), at) + load(bias, at[3:]), at))
    assert kernel.shape == (70, 8)
    padded = load(_image(), (at[0], at[1] - 1, at[2], at[3]), at[1] >= 1)
    assert simplify_axes(_kernel(padded, at)).shape == (2, 5, 56)


def test_axes_of_length_one_are_removed() -> None:
    at = axis(1), axis(3), axis(1)
    kernel = simplify_axes(_kernel(load(Value((1, 3, 1), Scalar.FLOAT32), at), at))
    assert kernel.shape == (3,)
    assert simplify_axes(_kernel(load(Value((), Scalar.FLOAT32), ()), ())).shape == (1,)


def test_axes_of_reductions_are_joined() -> None:
    at, rows, columns = (axis(2), axis(8)), axis(5), axis(7)
    body = reduce(ReductionOp.SUM, (rows, columns), load(_image(), (at[0], rows, columns, at[1])))
    found = simplify_axes(_kernel(body, at)).body
    assert isinstance(found, Reduce)
    assert [each.extent for each in found.axes] == [35]
    turned = reduce(ReductionOp.SUM, (columns, rows), load(_image(), (at[0], rows, columns, at[1])))
    found = simplify_axes(_kernel(turned, at)).body
    assert isinstance(found, Reduce)
    assert [each.extent for each in found.axes] == [7, 5]


def test_axes_are_split_if_offsets_use_quotients_and_remainders() -> None:
    """In depth-to-space, an axis of the block remains, joined with the channels."""
    at = axis(6), axis(8), axis(5)
    index = at[0] // 2, at[1] // 4, at[0] % 2 * 20 + at[1] % 4 * 5 + at[2]
    body = load(Value((3, 2, 40), Scalar.FLOAT32), index)
    kernel = simplify_axes(Kernel(output=Value((6, 8, 5), Scalar.FLOAT32), axes=at, body=body))
    assert kernel.shape == (3, 2, 2, 20)
    assert isinstance(kernel.body, Load)
    assert [stride_along(offset_of(kernel.body), each) for each in kernel.axes] == [80, 20, 40, 1]


def test_axes_of_reductions_are_split_if_offsets_use_quotients_and_remainders() -> None:
    """The heads of an attention, beside each other again, in rows that are reduced."""
    at, along = (axis(6),), axis(40)
    body = reduce(
        ReductionOp.MAXIMUM,
        (along,),
        load(Value((5, 6, 8), Scalar.FLOAT32), (along // 8, at[0], along % 8)),
    )
    kernel = Kernel(output=Value((6,), Scalar.FLOAT32), axes=at, body=body)
    found = split_reduced_axes(kernel).body
    assert isinstance(found, Reduce)
    assert [each.extent for each in found.axes] == [5, 8]
    assert isinstance(found.body, Load)
    assert [stride_along(offset_of(found.body), each) for each in (*at, *found.axes)] == [8, 48, 1]
    uneven = reduce(ReductionOp.MAXIMUM, (along,), load(Value((9,), Scalar.FLOAT32), (along // 7 + at[0],)))
    kernel = Kernel(output=Value((6,), Scalar.FLOAT32), axes=at, body=uneven)
    assert split_reduced_axes(kernel).body is uneven


def test_axes_that_are_no_multiples_are_not_split() -> None:
    at = axis(7), axis(5)
    body = load(Value((4, 5), Scalar.FLOAT32), (at[0] // 2, at[1]))
    assert simplify_axes(Kernel(output=Value((7, 5), Scalar.FLOAT32), axes=at, body=body)).shape == (7, 5)


def test_open_axes_are_split_if_they_are_multiples_for_all_lengths() -> None:
    """The length of the compilation decides nothing: it may be a multiple, and longer."""
    scope = ExtentScope(())
    length = scope.add_symbol(129, 0)
    with scope.assuming(MIN_LENGTH):
        for extent, shape in ((length, (length,)), (length * 3, (length, 3))):
            at = axis(extent)
            body = load(Value((200, 7), Scalar.FLOAT32), (at // 3, at % 3))
            kernel = Kernel(output=Value((extent,), Scalar.FLOAT32), axes=(at,), body=body)
            scope.recorded()
            assert simplify_axes(kernel).shape == shape
            assert scope.recorded() == ()


def test_strides() -> None:
    x, y = axis(8), axis(9)
    assert stride_along(x, x) == 1
    assert stride_along(x * 3 + y, x) == 3
    assert stride_along(y + 4, x) == 0
    assert stride_along(x // 2 + y, x) is None
