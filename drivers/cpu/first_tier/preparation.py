"""Prepares a model for the first tier: on its kernels where there are any, else on references."""

import logging
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from neurald.drivers.cpu.data_dependent.bounded_model import on_references, whole_model
from neurald.drivers.cpu.first_tier.assembly import BoundPart, assemble
from neurald.drivers.cpu.first_tier.binding.binder import Binder
from neurald.drivers.cpu.first_tier.bound_call import NotBound
from neurald.drivers.cpu.first_tier.layout import tiles_of
from neurald.drivers.cpu.first_tier.library import Code
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.native.thread_pool import Team
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.drivers.cpu.target.target import Target
from neurald.hal.errors import BadData
from neurald.hal.model.graph import Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime

if TYPE_CHECKING:
    # What executes operations without kernels is not needed if each has one, and few models have
    # control flow.
    from neurald.drivers.compiler.frontend.control_flow.inlining.inlining_budget import InliningBudget
    from neurald.drivers.cpu.parts.known_results import KnownResults
    from neurald.drivers.cpu.parts.native_segment import NativeSegment
    from neurald.hal.execution.reference_graph import Step
    from neurald.hal.execution.reference_model import ReferenceModel

_LOG = logging.getLogger(__name__)

_CONTROL_FLOW: Final = frozenset((OperationType.IF, OperationType.WHILE))
#: Lifetimes of operands that are computed, or given.
_VARIABLES: Final = (Lifetime.SUBGRAPH_INPUT, Lifetime.SUBGRAPH_OUTPUT, Lifetime.TEMPORARY_VARIABLE)


def prepare(model: Model, target: Target, code: Code, team: Team) -> "CpuPreparedModel | ReferenceModel":
    """Prepares a model.

    Args:
        model: every operation has a reference.
        target: the target of the code.
        code: the code of the library.
        team: the threads that run the model.
    """
    controls = [n for n, each in enumerate(model.main.operations) if each.type in _CONTROL_FLOW]
    structured = partial(_structured, target=target, code=code, team=team, budget=_budget(controls))
    native = structured(model) if controls else None
    if native is not None:
        return whole_model(native, on_references(model))
    whole = _Bound(model, model.main, target, code, team)
    if whole.is_complete:
        main = model.main
        native = whole.native(range(len(main.operations)), main.inputs, main.outputs)
        return whole_model(native, on_references(model))
    from neurald.hal.execution.reference_model import ReferenceModel

    # Graphs that control flow refers to.
    others = [_Bound(model, graph, target, code, team) for graph in model.referenced]
    steps = [each.steps() for each in (whole, *others)]
    parts = {position: _segment(model, structured, position) for position in controls}
    steps[0] = [(parts.get(step) or step) if isinstance(step, int) else step for step in steps[0]]
    has_kernels = any(parts.values()) or any(each.has_kernels for each in (whole, *others))
    return ReferenceModel(model, steps if has_kernels else None)


def _budget(controls: Sequence[int]) -> "InliningBudget | None":
    """Returns what the parts of a model with control flow share; None if it has none."""
    if not controls:
        return None
    from neurald.drivers.compiler.frontend.control_flow.inlining.inlining_budget import InliningBudget

    return InliningBudget()


def _segment(
    model: Model, structured: Callable[..., NativeModel | None], position: int
) -> "NativeSegment | None":
    """Returns IF or WHILE of the main graph as a step; see `_structured`."""
    from neurald.drivers.cpu.parts.native_segment import NativeSegment
    from neurald.drivers.cpu.parts.segment import sub_model

    part = sub_model(model, model.main, (position,))
    native = structured(part, positions=(position,)) if part.main.outputs else None
    if native is None:
        return None
    return NativeSegment(
        operations=(position,), inputs=part.main.inputs, outputs=part.main.outputs, native=native
    )


def _structured(
    model: Model,
    target: Target,
    code: Code,
    team: Team,
    budget: "InliningBudget | None",
    positions: Sequence[int] | None = None,
) -> NativeModel | None:
    """Returns the step of a model with control flow; None if not everything has kernels.

    Args:
        model: the model.
        target: the target of the code.
        code: the code of the library.
        team: the threads that run the model.
        budget, positions: see `structure_control_flow`.
    """
    from neurald.drivers.compiler.frontend.control_flow.structuring import structure_control_flow
    from neurald.drivers.cpu.first_tier.program import bound_program

    try:
        structured = structure_control_flow(model, positions=positions, splits_sequences=False, budget=budget)
        flat, main = structured.model, structured.model.main
        binder = Binder(flat, main, tiles_of(target), is_known=True)
        program = bound_program(structured, binder)
    except (BadData, NotBound) as error:
        _LOG.debug("control flow runs on references: %s", error)
        return None
    part = BoundPart(
        model=flat,
        graph=binder.graph,
        inputs=main.inputs,
        outputs=main.outputs,
        calls=program.calls,
        known=binder.known,
        program=program,
    )
    executable, constants = assemble(part, target.name)
    return NativeModel(executable, code, constants, team)


class _Bound:
    """A graph whose operations are bound to kernels.

    Args:
        model: the model.
        graph: one of its graphs.
        target: the target of the code.
        code: the code of the library.
        team: the threads that run the model.
    """

    def __init__(self, model: Model, graph: Subgraph, target: Target, code: Code, team: Team) -> None:
        self._model = model
        self._target, self._code, self._team = target, code, team
        self._binder = Binder(model, graph, tiles_of(target))
        self._graph = self._binder.graph
        self._calls = self._binder.bound()

    @property
    def has_kernels(self) -> bool:
        """True if any operation has a kernel."""
        return any(self._calls)

    @property
    def is_complete(self) -> bool:
        """True if kernels compute all outputs."""
        return self.has_kernels and all(calls is not None for calls in self._calls)

    def native(self, operations: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]) -> NativeModel:
        """Returns the step of some operations.

        Args:
            operations: their positions.
            inputs, outputs: operands that other operations, or the client, compute or need.
        """
        part = BoundPart(
            model=self._model,
            graph=self._graph,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            calls=[(position, call) for position in operations for call in self._calls[position] or ()],
            known=self._binder.known,
        )
        executable, constants = assemble(part, self._target.name)
        return NativeModel(executable, self._code, constants, self._team)

    def steps(self) -> "list[Step]":
        """Returns the steps of the graph: on kernels where there are any, else on references."""
        from neurald.drivers.cpu.parts.native_segment import NativeSegment
        from neurald.drivers.cpu.parts.segment import segments

        graph, known, folded = self._graph, self._binder.known, set(self._binder.folded)
        is_native = [calls is not None for calls in self._calls]
        consumers = _consumers(graph)
        steps: list[Step] = [_constants(graph, self._binder)] if folded else []
        # Where operations on constants are does not matter, since nothing is computed there.
        for each in segments(graph, is_native):
            operations = tuple(position for position in each.operations if position not in folded)
            if not each.is_native or not operations:
                steps += operations
                continue
            inputs, outputs = _boundary(graph, operations, consumers, known)
            native = self.native(operations, inputs, outputs)
            steps.append(NativeSegment(operations=operations, inputs=inputs, outputs=outputs, native=native))
        _LOG.debug("%d of %d operations have kernels of the first tier", sum(is_native), len(is_native))
        return steps


def _constants(graph: Subgraph, binder: Binder) -> "KnownResults":
    """Returns the step that has the results of all operations on constants."""
    from neurald.drivers.cpu.parts.known_results import KnownResults

    positions = tuple(binder.folded)
    outputs = tuple(index for position in positions for index in graph.operations[position].outputs)
    return KnownResults(
        operations=positions, outputs=outputs, results=tuple(binder.results[index] for index in outputs)
    )


def _consumers(graph: Subgraph) -> Mapping[int, set[int]]:
    """Returns the positions of the operations that read each operand."""
    found: dict[int, set[int]] = {}
    for position, operation in enumerate(graph.operations):
        for index in operation.inputs:
            found.setdefault(index, set()).add(position)
    return found


def _boundary(
    graph: Subgraph,
    operations: Sequence[int],
    consumers: Mapping[int, set[int]],
    known: Container[int],
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the operands that operations need from others, and that others need from them.

    Args:
        graph: the graph of the operations.
        operations: their positions.
        consumers: the positions of the operations that read each operand.
        known: operands that are constants.
    """
    own = set(operations)
    produced = [index for position in operations for index in graph.operations[position].outputs]
    read = dict.fromkeys(index for position in operations for index in graph.operations[position].inputs)
    results, made = set(graph.outputs), set(produced)
    inputs = tuple(
        index
        for index in read
        if graph.operands[index].lifetime in _VARIABLES and index not in made and index not in known
    )
    outputs = tuple(index for index in produced if index in results or consumers.get(index, set()) - own)
    return inputs, outputs
