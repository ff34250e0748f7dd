"""The models and compilations of a subgraph, by the shapes of its inputs.

A program may give the inputs ever other shapes. What was prepared for the latest ones is kept, and
if there are many, the lengths that differ are left open, so that what is prepared takes them all.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from neurald.hal.errors import BadData, Error, copied, without_frames
from neurald.hal.model.model import Model
from neurald.hal.model.types import OperandType
from neurald.runtime.compilation import Compilation
from neurald.runtime.tflite.file.schema import Tensor, TfliteSubgraph
from neurald.runtime.tflite.kept.stored_entry import Entry

#: Shapes, by tensor or operand.
Shapes: TypeAlias = Mapping[int, tuple[int, ...]]
#: Loads the subgraph with other shapes of its inputs, by tensor, and whether to trust the shapes of
#: results in the file. A length of 0 leaves a dimension open.
Load: TypeAlias = Callable[[Mapping[int, Sequence[int]], bool], Entry]
#: Compiles a model; variables are shared with the other compilation, if there is one.
Compile: TypeAlias = Callable[[Model, Compilation | None], Compilation]

#: Number of sets of shapes for which something is prepared before lengths are left open, and number
#: of those for which it is kept. Code for any lengths is slower, so that few sets have their own.
_OWN_SHAPES: Final = 2
_MAX_PREPARED: Final = 4


class PreparedSubgraph(Struct, frozen=True):
    """The subgraph as a model, and its compilation."""

    entry: Entry
    compilation: Compilation


class PreparedShapes:
    """The models and compilations of a subgraph for sets of shapes of its inputs.

    Args:
        source: the subgraph in the file.
        load: see `Load`.
        compiled: see `Compile`.

    Attributes:
        latest: what was used last; None before `prepare`.
        postponed: why the declared shapes of open inputs, which stand for any others, cannot be
            computed; None if they can, or if the shapes are others.
    """

    def __init__(self, source: TfliteSubgraph, load: Load, compiled: Compile) -> None:
        self._source = source
        self._load = load
        self._compile = compiled
        self.latest: PreparedSubgraph | None = None
        self.postponed: Error | None = None
        #: In the order in which they were last used.
        self._kept: list[PreparedSubgraph] = []
        #: The shapes that each was prepared for, whether it is still kept or not; none if no more
        #: lengths can be left open.
        self._earlier_shapes: list[Shapes] | None = []

    def prepare(self, shapes: Shapes) -> list[tuple[int, ...] | None]:
        """Loads and compiles the subgraph, unless what is there takes the shapes.

        Args:
            shapes: the shapes of all inputs.

        Returns:
            The shapes of the outputs of the latest entry, as far as they are known before a run.

        Raises:
            Error: the subgraph cannot be computed with these shapes.
        """
        self.postponed = None
        return self._inferred(self._find(shapes) or self._add(shapes), shapes)

    def result_shapes(self, shapes: Shapes) -> Shapes:
        """Returns the shapes of the outputs of a new entry, which is not compiled.

        Args:
            shapes: the shapes of all inputs.

        Returns:
            The shapes that are known before a run, by tensor.

        Raises:
            Error: the subgraph cannot be computed with these shapes.
        """
        entry = self._load_as_declared(self._changed(shapes), shapes)
        known = zip(entry.outputs, self._inferred(entry, shapes), strict=True)
        return {index: shape for index, shape in known if shape is not None}

    def _changed(self, shapes: Shapes) -> Shapes:
        """Returns the shapes that the file does not declare."""
        return {
            index: shape
            for index, shape in shapes.items()
            if not _is_declared(shape, self._source.tensors[index])
        }

    def _find(self, shapes: Shapes) -> Entry | None:
        """Uses what is there and takes the shapes; returns None if nothing does."""
        for prepared in reversed(self._kept):
            if all(_fits(shape, prepared.entry, index) for index, shape in shapes.items()):
                self._use(prepared)
                return prepared.entry
        return None

    def _add(self, shapes: Shapes) -> Entry:
        """Loads and compiles the subgraph."""
        changed = self._changed(shapes)
        entry = self._load_open(changed, shapes) or self._load_as_declared(changed, shapes)
        latest = None if self.latest is None else self.latest.compilation
        try:
            compilation = self._compile(entry.model, latest)
        except BadData:
            # Variables whose shapes follow from the inputs' cannot keep their values.
            compilation = self._compile(entry.model, None)
        self._use(PreparedSubgraph(entry, compilation))
        if self._earlier_shapes is not None:
            self._earlier_shapes.append(shapes)
        return entry

    def _load_as_declared(self, changed: Shapes, shapes: Shapes) -> Entry:
        """Loads the subgraph, without the shapes of results in the file if they are wrong.

        They are used only where results have no elements, or an unknown number of dimensions.

        Args:
            changed: the shapes of inputs that the file does not declare.
            shapes: the shapes of all inputs.
        """
        wrong: BadData | None = None
        entry: Entry | None = None
        try:
            entry = self._load(changed, True)
            self._inferred(entry, shapes)
        except BadData as error:
            wrong = error.with_traceback(None)
        else:
            return entry
        try:
            found = self._load(changed, False)
            self._inferred(found, shapes)
        except BadData:
            # The errors name the shapes that the file states.
            if entry is None:
                raise copied(wrong) from None
            return entry
        return found

    def _use(self, prepared: PreparedSubgraph) -> None:
        self.latest = prepared
        kept = [each for each in self._kept if each is not prepared]
        self._kept = [*kept[1 - _MAX_PREPARED :], prepared]

    def _load_open(self, changed: Shapes, shapes: Shapes) -> Entry | None:
        """Loads the subgraph with open lengths where those of two sets of shapes differed.

        Args:
            changed: the shapes of inputs that the file does not declare.
            shapes: the shapes of all inputs.

        Returns:
            None if there were few sets of shapes, or if these lengths cannot be open.
        """
        earlier = self._earlier_shapes
        if earlier is None or len(earlier) < _OWN_SHAPES:
            return None
        opened = {
            index: tuple(
                0 if any(other[index][position : position + 1] != (length,) for other in earlier) else length
                for position, length in enumerate(shape)
            )
            for index, shape in changed.items()
        }
        try:
            if all(shape == changed[index] for index, shape in opened.items()):
                return None
            entry = self._load(opened, True)
            _infer(entry, shapes)
        except BadData:
            # Other sets of shapes are not tried, since each attempt takes time.
            self._earlier_shapes = None
            return None
        return entry

    def _inferred(self, entry: Entry, shapes: Shapes) -> list[tuple[int, ...] | None]:
        """Returns the shapes of an entry's outputs, as far as they are known before a run.

        Args:
            entry: the entry.
            shapes: the shapes of all inputs of the subgraph.

        Raises:
            BadData: the shapes of the inputs do not go together.
        """
        model, operands = entry.model, entry.model.main.operands
        found: Mapping[int, tuple[int, ...]] = {}
        if not all(operands[index].is_fully_specified for index in (*model.inputs, *model.outputs)):
            try:
                found = _infer(entry, shapes)
            except BadData as error:
                if not self._has_placeholders(shapes):
                    raise
                self.postponed = without_frames(error)
        declared = {
            operand: operands[operand].dimensions
            for operand in model.outputs
            if operands[operand].is_fully_specified
        }
        return [found.get(operand, declared.get(operand)) for operand in model.outputs]

    def _has_placeholders(self, shapes: Shapes) -> bool:
        """Returns True if all inputs have the shapes in the file, and these leave lengths open."""
        tensors = [self._source.tensors[index] for index in self._source.inputs]
        return any(-1 in tensor.shape_signature for tensor in tensors) and all(
            shapes[tensor.index] == tensor.shape for tensor in tensors
        )


def _infer(entry: Entry, shapes: Shapes) -> Shapes:
    """Returns the shapes that follow from those of a subgraph's inputs, by operand.

    Raises:
        BadData: the shapes of the inputs do not go together.
    """
    from neurald.hal.validation.shape_inference import bind_operations, infer_shapes  # slow to import

    model, graph = entry.model, entry.model.main
    given = {operand: shapes[tensor] for operand, tensor in zip(model.inputs, entry.inputs, strict=True)}
    return infer_shapes(model, graph, bind_operations(graph), given)


def _is_declared(shape: tuple[int, ...], tensor: Tensor) -> bool:
    """Returns True if a shape is one of those that the file declares for a tensor."""
    declared = tensor.shape_signature or tensor.shape
    return len(shape) == len(declared) and all(
        length == other or (other == -1 and length > 0) for length, other in zip(shape, declared, strict=True)
    )


def _fits(shape: tuple[int, ...], entry: Entry, tensor: int) -> bool:
    """Returns True if a loaded model takes a shape for an input."""
    operand = entry.model.main.operands[entry.model.inputs[entry.inputs.index(tensor)]]
    dimensions = operand.dimensions
    if operand.type is OperandType.TENSOR_STRING and dimensions is None:
        return True
    return (
        dimensions is not None
        and len(dimensions) == len(shape)
        and all(
            length in (0, given) and (given > 0 or length == given)
            for length, given in zip(dimensions, shape, strict=True)
        )
    )
