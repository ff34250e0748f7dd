"""Converts the subgraphs of a `.tflite` file to the graphs of a model.

The loaded subgraph becomes the main graph. Subgraphs of IF, WHILE and STABLEHLO_CASE become
referenced graphs, once for each kind of arguments, because TFLite gives a subgraph the shapes of
its caller's arguments. A subgraph of CALL_ONCE is run while the file is loaded: the values that it
assigns are the initial values of the variables.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.model.elements import array_to_store
from neurald.hal.model.graph import Location, Operand, Subgraph
from neurald.hal.model.model import Model, StateVariable
from neurald.hal.model.types import Dimensions, Lifetime, OperandType, byte_size
from neurald.hal.operations.machinery.call import Array
from neurald.hal.records import replace
from neurald.hal.validation.model_rules import MAX_OPERATIONS
from neurald.runtime.tflite.file.schema import Operator, Tensor, TfliteFile, TfliteSubgraph
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator, TensorType
from neurald.runtime.tflite.graph.callees import CALLERS, called_subgraphs
from neurald.runtime.tflite.graph.hash_table import TABLE_OPERATORS, empty_table, table_effects
from neurald.runtime.tflite.graph.operands import (
    UnsupportedFeature,
    common_dimensions,
    is_dequantized,
    to_operand,
)
from neurald.runtime.tflite.graph.repetition import RepeatingBuilder
from neurald.runtime.tflite.graph.state import (
    STATEFUL,
    CallArguments,
    Effects,
    VariableKey,
    handle_key,
    is_handle,
    merge_effects,
    shown_key,
    tensor_key,
    variable_keys,
)
from neurald.runtime.tflite.legalization import LEGALIZATIONS

if TYPE_CHECKING:
    # Most files need none of these.
    from neurald.runtime.tflite.conversion.unpacking import Unpacking
    from neurald.runtime.tflite.graph.custom_operators import CustomOperators

#: Maximum call depth of subgraphs.
_MAX_DEPTH = 32
#: Maximum number of converted operators; those of subgraphs count once per kind of arguments.
_MAX_LEGALIZED = 4 * MAX_OPERATIONS

#: Operators that return handles of variables or tables, or that take any; few graphs have some.
_ON_VARIABLES = frozenset(
    (
        *TABLE_OPERATORS,
        *CALLERS,
        BuiltinOperator.HASHTABLE,
        BuiltinOperator.VAR_HANDLE,
        BuiltinOperator.READ_VARIABLE,
        BuiltinOperator.ASSIGN_VARIABLE,
        BuiltinOperator.CALL_ONCE,
    )
)

#: Maximum total size of a model's variables.
_MAX_STATE_BYTES = 1 << 30

_EMPTY = Subgraph(operands=(), operations=(), inputs=(), outputs=())


class Importer:
    """State shared by the graphs of a model during conversion.

    Args:
        file: the file.
        memory: its bytes, which become pool 0 of the model.
        custom_operators: functions of custom operators; None for none.

    Attributes:
        referenced: the graphs that have been called so far.
        problems: everything found that is not supported.
        is_accepted: whether the definitions of all operations accepted the final operands.
    """

    def __init__(
        self, file: TfliteFile, memory: Memory, custom_operators: "CustomOperators | None" = None
    ) -> None:
        self.referenced: list[Subgraph] = []
        self.problems: list[str] = []
        self.is_accepted = True
        self._file = file
        self._custom_operators = custom_operators
        self._constants = Model(main=_EMPTY, pools=(memory,))
        self._memory = memory
        self._unpacking: Unpacking | None = None
        self._unpacked: dict[tuple[object, ...], Location] = {}
        self._subgraphs: dict[int, TfliteSubgraph] = {}
        self._expanding: set[int] = set()
        self._calling: list[int] = []
        self._called: dict[tuple[int, CallArguments], int] = {}
        self._effects: dict[tuple[int, tuple[VariableKey | None, ...]], Effects] = {}
        self._types: dict[VariableKey, Operand] = {}
        self._initial: dict[VariableKey, Array] = {}
        self._constant_variables: dict[VariableKey, Operand] = {}
        self._failed: set[int] = set()
        self._initialized: set[int] = set()
        #: Variables that an operator of the model may change.
        self._changing: frozenset[VariableKey] = frozenset()
        self._legalized = 0

    @property
    def pools(self) -> tuple[Memory, ...]:
        """The memories that hold constants."""
        return self._constants.pools

    def custom_number(self, operator: Operator) -> int | None:
        """Returns the number of the function that computes a custom operator, or None."""
        return None if self._custom_operators is None else self._custom_operators.number(operator)

    def record_acceptance(self, *, is_accepted: bool) -> None:
        """Records whether a finished graph has the operands that definitions have accepted."""
        self.is_accepted = self.is_accepted and is_accepted

    def unpacked(self, tensor: Tensor, operand: Operand) -> Operand:
        """Unpacks a packed constant into a separate pool; returns its operand.

        Raises:
            UnsupportedFeature: the result would be too large, or no operand can represent it.
            BadData: its bytes contradict its description in the file.
        """
        meaning = tensor.quantization() if is_dequantized(tensor, operand.type) else None
        key = tensor.data, tensor.type, tensor.shape, meaning
        if key not in self._unpacked:
            if self._unpacking is None:
                from neurald.runtime.tflite.conversion.unpacking import Unpacking

                self._unpacking = Unpacking(self._memory.view())
            self._unpacked[key] = self._add_pool(self._unpacking.unpack(tensor, operand.type))
        return replace(operand, location=self._unpacked[key])

    def constant_operand(self, operand: Operand, value: Array) -> Operand:
        """Returns a constant with that value, otherwise like `operand`."""
        operand = replace(operand, dimensions=value.shape, value=b"", location=None)
        if value.size == 0:
            return replace(operand, lifetime=Lifetime.CONSTANT_COPY)
        location = self._add_pool(array_to_store(value, operand.type))
        return replace(operand, lifetime=Lifetime.CONSTANT_POOL, location=location)

    def _add_pool(self, stored: Array) -> Location:
        """Adds a pool with the bytes; returns their location."""
        pools = self._constants.pools
        self._constants = replace(self._constants, pools=(*pools, HostMemory(np.ascontiguousarray(stored))))
        return Location(pool=len(pools), offset=0, length=stored.nbytes)

    def constant(self, operand: Operand) -> Array | None:
        """Returns the value of a constant, None for any other operand."""
        return self._constants.constant(operand)

    def subgraph(self, index: int) -> TfliteSubgraph:
        """Returns a subgraph with composite operators expanded.

        Raises:
            BadData: it is damaged, or is part of its own decomposition.
        """
        if index not in self._subgraphs:
            if index in self._expanding or len(self._expanding) >= _MAX_DEPTH:
                raise BadData(f"subgraph {index} is part of its own decomposition, or lies too deep")
            self._expanding.add(index)
            scope = f"subgraph {index}, " if self._subgraphs or self._expanding - {index} else ""
            source = self._file.subgraph(index, scope)
            if any(operator.code == BuiltinOperator.STABLEHLO_COMPOSITE for operator in source.operators):
                from neurald.runtime.tflite.conversion.composite import expand_composites

                source = expand_composites(source, self.subgraph)
            self._expanding.remove(index)
            self._subgraphs[index] = source
        return self._subgraphs[index]

    # Variables.

    def effects(self, index: int, handles: tuple[VariableKey | None, ...]) -> Effects:
        """Returns the effects on variables of running a subgraph with those handles as inputs.

        Raises:
            BadData: subgraphs call each other recursively or too deeply, or one is damaged.
        """
        known = self._effects.get((index, handles))
        if known is None:
            self._enter(index)
            known = self._effects[index, handles] = self._scan(self.subgraph(index), handles)
            self._calling.pop()
        return known

    def _enter(self, index: int) -> None:
        if index in self._calling:
            raise BadData(f"subgraph {index} calls itself")
        if len(self._calling) >= _MAX_DEPTH:
            raise BadData(f"subgraphs call each other {len(self._calling)} deep; no deeper is supported")
        self._calling.append(index)

    def _scan(self, source: TfliteSubgraph, given: Sequence[VariableKey | None]) -> Effects:
        # If the numbers of inputs differ, converting the operator fails later.
        handles = {index: key for index, key in zip(source.inputs, given, strict=False) if key is not None}
        found: list[Effects] = [Effects()]
        has_variables = any(tensor.is_variable for tensor in source.tensors)
        for operator in source.operators:
            if operator.code in _ON_VARIABLES:
                found += self._scan_operator(source, operator, handles)
            if has_variables:
                found += self._scan_tensors(source, operator)
        return replace(merge_effects(found), outputs=variable_keys(handles, source.outputs))

    def _scan_operator(
        self, source: TfliteSubgraph, operator: Operator, handles: dict[int, VariableKey]
    ) -> Sequence[Effects]:
        """Returns the effects of one of `_ON_VARIABLES`, and notes the handles that it returns."""
        keys = variable_keys(handles, operator.inputs)
        made = handle_key(operator)
        if made is not None and operator.outputs:
            handles[operator.outputs[0]] = made
            self._record_table_types(made, operator)
        elif operator.code in TABLE_OPERATORS:
            return (table_effects(operator, keys),)
        elif operator.code in (BuiltinOperator.READ_VARIABLE, BuiltinOperator.ASSIGN_VARIABLE):
            return (self._scan_variable(source, operator, keys),)
        elif operator.code in CALLERS:
            callees, skipped = called_subgraphs(operator)
            inner = [self.effects(callee, keys[skipped:]) for callee in callees]
            outputs = inner[-1].outputs if inner else ()
            handles.update(
                (index, key) for index, key in zip(operator.outputs, outputs, strict=False) if key is not None
            )
            return inner
        elif operator.code == BuiltinOperator.CALL_ONCE:
            self._initialize(called_subgraphs(operator)[0][0])
        return ()

    def _scan_variable(
        self, source: TfliteSubgraph, operator: Operator, keys: Sequence[VariableKey | None]
    ) -> Effects:
        """Returns the effects of READ_VARIABLE or ASSIGN_VARIABLE.

        The first use determines the variable's type.
        """
        key = keys[0] if keys else None
        assigns = operator.code == BuiltinOperator.ASSIGN_VARIABLE
        accessed = operator.inputs[1:] if assigns else operator.outputs
        if key is None or not accessed or accessed[0] < 0:
            return Effects()
        self._record_type(key, source.tensors[accessed[0]])
        return Effects(touched=(key,), assigned=frozenset((key,) if assigns else ()))

    def _scan_tensors(self, source: TfliteSubgraph, operator: Operator) -> tuple[Effects, ...]:
        """Returns the effects on variable tensors among the inputs, if there are any.

        The subgraph's own inputs are fed.
        """
        keys: list[VariableKey] = []
        for index in operator.inputs:
            if index >= 0 and source.tensors[index].is_variable and index not in source.inputs:
                tensor, key = source.tensors[index], tensor_key(source.index, index)
                self._record_type(key, tensor)
                if key not in self._initial and key in self._types:
                    self._initial[key] = self._initial_value(tensor, self._types[key])
                keys.append(key)
        if not keys:
            return ()
        return (Effects(touched=tuple(keys), assigned=frozenset(keys if operator.code in STATEFUL else ())),)

    def _initial_value(self, tensor: Tensor, operand: Operand) -> Array:
        """Returns the initial value of a variable tensor.

        Its data in the file, else 0 (the zero point for INT8).
        """
        if tensor.data is not None:
            plain = to_operand(replace(tensor, is_variable=False), None, Lifetime.CONSTANT_POOL)
            value = self.constant(plain)
            if value is not None:
                return value
        size = byte_size(operand.type, tensor.shape) + sum(v.nbytes for v in self._initial.values())
        if size > _MAX_STATE_BYTES:
            raise BadData(f"{tensor}: variables of {size} bytes; at most {_MAX_STATE_BYTES} are supported")
        if operand.type is OperandType.TENSOR_STRING:
            return np.full(tensor.shape, b"", object)
        number = operand.zero_point if tensor.type == TensorType.INT8 else 0
        # One element broadcast to the whole shape: only a compilation allocates memory for it.
        return np.broadcast_to(operand.type.dtype.type(number), tensor.shape)

    def _record_type(self, key: VariableKey, tensor: Tensor) -> None:
        if key not in self._types:
            try:
                plain = replace(tensor, data=None, is_variable=False)
                self._types[key] = to_operand(plain, tensor.shape, Lifetime.SUBGRAPH_INPUT)
            except UnsupportedFeature:
                return  # Converting the operator reports the problem.

    def _record_table_types(self, handle: VariableKey, operator: Operator) -> None:
        """Records the types of a hash table from the first operator that creates a handle of it."""
        for key, (operand, value) in empty_table(handle, operator).items():
            self._types.setdefault(key, operand)
            self._initial.setdefault(key, value)

    def variable_type(self, key: VariableKey) -> Operand:
        """Returns the operand that describes how a variable is stored.

        Raises:
            UnsupportedFeature: no operand can.
        """
        if key not in self._types:
            raise UnsupportedFeature(f"{shown_key(key)} has a type that is not supported")
        return self._types[key]

    def constant_variable(self, key: VariableKey) -> Operand | None:
        """Returns the operand of a variable that always keeps its initial value.

        None for any other.
        """
        if key in self._changing or key not in self._initial:
            return None
        if key not in self._constant_variables:
            self._constant_variables[key] = self._constant_of(key)
        return self._constant_variables[key]

    def _constant_of(self, key: VariableKey) -> Operand:
        return self.constant_operand(
            replace(self.variable_type(key), name=shown_key(key)), self._initial[key]
        )

    def _initialize(self, index: int) -> None:
        """Runs a subgraph of CALL_ONCE, once."""
        if index in self._initialized:
            return
        self._initialized.add(index)
        effects = self.effects(index, ())
        leaving = effects.ordered(assigned=True)
        source = self.subgraph(index)
        if source.inputs or source.outputs:
            raise BadData(f"subgraph {index} initialises variables; it must have no inputs and no outputs")
        try:
            graph = self._legalize(RepeatingBuilder(source, (), (), self), source)
            if leaving:
                from neurald.runtime.tflite.conversion.evaluation import evaluate

                model = Model(main=graph.finish(leaving), pools=self.pools)
                values = (np.array(value, order="C") for value in evaluate(model))
                self._initial.update(zip(leaving, values, strict=True))
                for key in leaving:
                    self._constant_variables.pop(key, None)
        except UnsupportedFeature as error:
            self.problems.append(f"subgraph {index}, which initialises variables: {error}")

    # Graphs.

    def main(
        self, source: TfliteSubgraph, inputs: Sequence[int], outputs: Sequence[int]
    ) -> tuple[Subgraph, tuple[StateVariable, ...]]:
        """Converts the loaded subgraph.

        Returns its graph and the variables among its inputs and outputs.

        Raises:
            BadData: it is damaged, or contains unsupported parts, all of which are listed.
        """
        effects = self.effects(source.index, (None,) * len(source.inputs))
        own = dict(self._initial)
        self._changing = effects.assigned | self._assigned_elsewhere(source.index)
        # Other signatures may initialise the same variables with other values.
        self._initial |= own
        keys = [
            key
            for key in (*effects.ordered(assigned=True), *effects.ordered(assigned=False))
            if key in self._changing and key in self._initial and key in self._types
        ]
        shapes: list[Dimensions] = [self._initial[key].shape for key in keys]
        self._calling.append(source.index)
        while True:
            graph = RepeatingBuilder(source, inputs, outputs, self)
            for position, tensor in enumerate(inputs):
                try:
                    graph.add_input(tensor)
                except UnsupportedFeature as error:
                    self.problems.append(f"input {position}: {error}")
            for key, shape in zip(keys, shapes, strict=True):
                graph.add_variable(key, replace(self._types[key], dimensions=shape, name=shown_key(key)))
            result = None
            try:
                result = self._legalize(graph, source).finish(keys)
            except UnsupportedFeature as error:
                if not self.problems:
                    self.problems.append(f"outputs: {error}")
            if self.problems or result is None:
                listed = "".join(f"\n  {problem}" for problem in self.problems)
                raise BadData(f"the model has unsupported parts ({len(self.problems)}):{listed}")
            last = result.outputs[len(outputs) :]
            wider = [
                common_dimensions(shape, result.operands[index].dimensions)
                for shape, index in zip(shapes, last, strict=True)
            ]
            if wider == shapes:
                state = [StateVariable(name=shown_key(key), initial=self._initial[key]) for key in keys]
                return result, tuple(state)
            shapes = wider

    def _assigned_elsewhere(self, index: int) -> frozenset[VariableKey]:
        """Returns the variables that other signatures assign.

        Signatures that cannot be read are ignored.
        """
        found = frozenset[VariableKey]()
        known = len(self.problems)
        for other in sorted({signature.subgraph for signature in self._file.signatures.values()} - {index}):
            try:
                found |= self.effects(other, (None,) * len(self.subgraph(other).inputs)).assigned
            except BadData:
                self._calling.clear()
                self._expanding.clear()
        del self.problems[known:]
        return found

    def call(self, index: int, arguments: CallArguments) -> int:
        """Converts a subgraph for the given arguments.

        Returns the number of the referenced graph.

        Raises:
            UnsupportedFeature: it contains unsupported parts, which `problems` lists.
            BadData: it is damaged, or calls itself.
        """
        key = index, arguments
        if index in self._failed:
            raise UnsupportedFeature(f"subgraph {index} has unsupported parts")
        if key not in self._called:
            self._enter(index)
            try:
                self._called[key] = self._call(self.subgraph(index), arguments)
            except UnsupportedFeature:
                self._failed.add(index)
                raise
            finally:
                self._calling.pop()
        return self._called[key]

    def _call(self, source: TfliteSubgraph, arguments: CallArguments) -> int:
        if len(arguments.values) != len(source.inputs):
            raise UnsupportedFeature(
                f"it gives {len(arguments.values)} values to subgraph {source.index}, which has "
                f"{len(source.inputs)} inputs"
            )
        source = _with_distinct_inputs(source)
        pairs = list(zip(source.inputs, arguments.handles, strict=True))
        handles = {tensor: handle for tensor, handle in pairs if handle is not None}
        inputs = [tensor for tensor, handle in pairs if handle is None]
        outputs = [tensor for tensor in source.outputs if not is_handle(source.tensors[tensor])]
        graph = RepeatingBuilder(source, inputs, outputs, self, handles)
        for tensor, given in zip(source.inputs, arguments.values, strict=True):
            if given is not None:
                graph.add_input(tensor, given)
        for variable, operand in arguments.variables:
            graph.add_variable(variable, operand)
        result = self._legalize(graph, source).finish(arguments.leaving)
        self.referenced.append(result)
        return len(self.referenced) - 1

    def _legalize(self, graph: RepeatingBuilder, source: TfliteSubgraph) -> RepeatingBuilder:
        """Runs the rules of all operators.

        Raises:
            UnsupportedFeature: for one or more operators, as listed in `problems`.
        """
        self._legalized += len(source.operators)
        if self._legalized > _MAX_LEGALIZED or len(source.operators) > MAX_OPERATIONS:
            raise BadData(f"{self._legalized} operators; at most {MAX_OPERATIONS} are supported")
        before = len(self.problems)
        for operator in source.operators:
            graph.enter(operator)
            legalization = LEGALIZATIONS.get(operator.code)
            if legalization is None:
                self.problems.append(f"{operator}: it is not supported")
                continue
            try:
                graph.convert(operator, legalization.read_options(operator), legalization.rule)
            except UnsupportedFeature as error:
                self.problems.append(f"{operator}: {error}")
        if len(self.problems) > before:
            raise UnsupportedFeature(f"subgraph {source.index} has unsupported parts")
        return graph


def _with_distinct_inputs(source: TfliteSubgraph) -> TfliteSubgraph:
    """Returns a called subgraph that lists each of its inputs once.

    TFLite copies the arguments in their order, so a tensor that is listed again has the last one.
    The arguments before it go to tensors of their own, which nothing reads.
    """
    last = {tensor: place for place, tensor in enumerate(source.inputs)}
    if len(last) == len(source.inputs):
        return source
    tensors, inputs = list(source.tensors), list(source.inputs)
    for place, tensor in enumerate(source.inputs):
        if last[tensor] != place:
            inputs[place] = len(tensors)
            tensors.append(replace(source.tensors[tensor], index=len(tensors)))
    return replace(source, tensors=tuple(tensors), inputs=tuple(inputs))
