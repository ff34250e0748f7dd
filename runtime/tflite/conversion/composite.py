"""Replaces composite operators by their decompositions, before any other pass.

STABLEHLO_COMPOSITE names a subgraph that computes the same result from simpler operators. Its
tensors are added to those of the caller.
"""

from collections.abc import Callable

from neurald.hal.errors import BadData
from neurald.hal.records import replace
from neurald.hal.validation.model_rules import MAX_OPERANDS, MAX_OPERATIONS
from neurald.hal.wording import inputs_and_outputs
from neurald.runtime.tflite.file.flatbuffer import INT32
from neurald.runtime.tflite.file.schema import OMITTED, Operator, Tensor, TfliteSubgraph
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator, BuiltinOptions2


def expand_composites(
    source: TfliteSubgraph, decomposition: Callable[[int], TfliteSubgraph]
) -> TfliteSubgraph:
    """Returns the subgraph without composite operators.

    Args:
        source: the subgraph, which has some.
        decomposition: returns the expanded subgraph with that index.

    Raises:
        BadData: operator and decomposition do not match, or the result is too large.
    """
    caller = _Caller(source)
    for operator in source.operators:
        if operator.code == BuiltinOperator.STABLEHLO_COMPOSITE:
            caller.expand(operator, decomposition(_decomposition(operator)))
        else:
            caller.keep(operator)
    return replace(
        source,
        tensors=tuple(caller.tensors),
        operators=tuple(caller.operators),
        outputs=tuple(caller.resolved(index) for index in source.outputs),
        aliases=caller.aliases,
        origins=caller.origins,
    )


def _decomposition(operator: Operator) -> int:
    if operator.options2 is None or operator.options2_type != BuiltinOptions2.StableHLOCompositeOptions:
        raise BadData(f"{operator} does not name the subgraph of its decomposition")
    return operator.options2.integer(1, INT32)


class _Caller:
    """A subgraph that is being expanded.

    Attributes:
        aliases: outputs of composites that are other names of existing tensors.
        origins: see `TfliteSubgraph`. If a decomposition is used several times, the last use
            counts.
    """

    def __init__(self, source: TfliteSubgraph) -> None:
        self.tensors: list[Tensor] = list(source.tensors)
        self.operators: list[Operator] = []
        self.aliases: dict[int, int] = {}
        self.origins: dict[tuple[int, int], int] = {}

    def resolved(self, index: int) -> int:
        """Returns the tensor that an index refers to, after aliases."""
        return self.aliases.get(index, index)

    def keep(self, operator: Operator) -> None:
        """Adds an operator of the caller itself."""
        self._add(replace(operator, inputs=tuple(self.resolved(index) for index in operator.inputs)))

    def expand(self, composite: Operator, inner: TfliteSubgraph) -> None:
        """Adds the operators of a decomposition."""
        if len(composite.inputs) != len(inner.inputs) or len(composite.outputs) != len(inner.outputs):
            raise BadData(
                f"{composite} has {inputs_and_outputs(len(composite.inputs), len(composite.outputs))}; its "
                f"decomposition has {len(inner.inputs)} and {len(inner.outputs)}"
            )
        mapped = {OMITTED: OMITTED}
        for index, given in zip(inner.inputs, composite.inputs, strict=True):
            mapped[index] = self.resolved(given)
        written = {index for operator in inner.operators for index in operator.outputs}
        for index, target in zip(inner.outputs, composite.outputs, strict=True):
            if index in written and index not in mapped:
                mapped[index] = target
            else:
                self.aliases[target] = self._mapped_required(mapped, inner, index, composite)
        for operator in inner.operators:
            self._add(
                replace(
                    operator,
                    inputs=tuple(self._mapped_tensor(mapped, inner, index) for index in operator.inputs),
                    outputs=tuple(
                        self._mapped_required(mapped, inner, index, composite) for index in operator.outputs
                    ),
                    intermediates=tuple(
                        self._mapped_tensor(mapped, inner, index) for index in operator.intermediates
                    ),
                )
            )
        for index, found in mapped.items():
            if OMITTED not in (index, found):
                self.origins[inner.index, index] = found
        for origin, index in inner.origins.items():
            if index in mapped:
                self.origins[origin] = mapped[index]

    def _mapped_tensor(self, mapped: dict[int, int], inner: TfliteSubgraph, index: int) -> int:
        """Returns the caller's tensor for one of the decomposition; adds it if it is new."""
        if index not in mapped:
            self._append(mapped, inner, index)
            blocks = inner.tensors[index].blocks()
            if blocks is not None and 0 <= blocks.scales < len(inner.tensors):
                if blocks.scales not in mapped:
                    self._append(mapped, inner, blocks.scales)
                added = self.tensors[mapped[index]]
                self.tensors[mapped[index]] = replace(added, block_scales=mapped[blocks.scales])
        return mapped[index]

    def _append(self, mapped: dict[int, int], inner: TfliteSubgraph, index: int) -> None:
        """Copies a tensor of the decomposition to the caller."""
        if len(self.tensors) >= MAX_OPERANDS:
            raise BadData(f"more than {MAX_OPERANDS} tensors, decompositions included")
        mapped[index] = len(self.tensors)
        self.tensors.append(replace(inner.tensors[index], index=mapped[index]))

    def _mapped_required(
        self, mapped: dict[int, int], inner: TfliteSubgraph, index: int, composite: Operator
    ) -> int:
        """Returns the caller's tensor like `_mapped_tensor`; the tensor must not be omitted."""
        found = self._mapped_tensor(mapped, inner, index)
        if found == OMITTED:
            raise BadData(
                f"{composite}: its decomposition needs an input that is omitted, {inner.tensors[index]}"
            )
        return found

    def _add(self, operator: Operator) -> None:
        if len(self.operators) >= MAX_OPERATIONS:
            raise BadData(f"more than {MAX_OPERATIONS} operators, decompositions included")
        self.operators.append(operator)
