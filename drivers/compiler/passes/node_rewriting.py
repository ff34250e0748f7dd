"""Replaces the inputs of nodes and reshapes values, for passes."""

from collections.abc import Mapping

from neurald.drivers.compiler.ir.expression import Expression, Load, axis, load
from neurald.drivers.compiler.ir.graph import (
    Compute,
    DepthwiseConvolution,
    MatrixProduct,
    Node,
    Procedure,
    TopK,
    delinearize,
    linearize,
)
from neurald.drivers.compiler.ir.traversal import rewrite
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.hal.records import replace


def with_inputs(node: Node, replaced: Mapping[Value, Value]) -> Node:
    """Returns the node with inputs replaced by values of the same shape and type."""
    if not any(value in replaced for value in node.inputs):
        return node
    if isinstance(node, Compute):
        return _compute_with_inputs(node, replaced)
    if isinstance(node, MatrixProduct):
        return replace(
            node, left=replaced.get(node.left, node.left), right=replaced.get(node.right, node.right)
        )
    if isinstance(node, TopK):
        return replace(node, input=replaced.get(node.input, node.input))
    if isinstance(node, Procedure):
        return replace(node, inputs=tuple(replaced.get(each, each) for each in node.inputs))
    input_, weights = replaced.get(node.input, node.input), replaced.get(node.weights, node.weights)
    if isinstance(node, DepthwiseConvolution):
        return replace(node, input=input_, weights=weights)
    return replace(node, input=input_, weights=weights)


def _compute_with_inputs(node: Compute, replaced: Mapping[Value, Value]) -> Compute:
    def replacement(expression: Expression) -> Expression | None:
        if not isinstance(expression, Load) or expression.value not in replaced:
            return None
        return load(replaced[expression.value], expression.index, expression.guard, expression.otherwise)

    memory: dict[Expression, Expression] = {}
    limit = node.limit
    if limit is not None:
        limit = replace(limit, count=replaced.get(limit.count, limit.count))
    return replace(
        node,
        limit=limit,
        body=rewrite(node.body, replacement, memory),
        requirements=tuple((rewrite(each, replacement, memory), text) for each, text in node.requirements),
    )


def view(source: Value, output: Value, operations: tuple[int, ...]) -> Compute:
    """Returns a node that reshapes `source` to `output`."""
    axes = tuple(axis(length, f"i{dimension}") for dimension, length in enumerate(output.shape))
    body = load(source, delinearize(linearize(axes, output.shape), source.shape))
    return Compute(output=output, axes=axes, body=body, operations=operations)


def reshaped(source: Value, shape: Shape, operations: tuple[int, ...]) -> tuple[Value, tuple[Node, ...]]:
    """Returns the value in another shape, and the nodes that reshape it, if any are needed."""
    if source.shape == shape:
        return source, ()
    if source.constant is not None:
        return Value(shape, source.type, source.constant.reshape(shape), source.name), ()
    output = Value(shape, source.type, name=source.name)
    return output, (view(source, output, operations),)
