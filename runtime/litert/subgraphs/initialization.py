"""Values that CALL_ONCE gives to variables when a subgraph runs for the first time.

The subgraphs of a file share variables. Each of them may initialise them by a subgraph of its own,
which runs once for each interpreter, however late, so that what others have assigned is lost.
"""

from collections.abc import Iterator, Sequence

from neurald.runtime.tflite.file.schema import TfliteSubgraph
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.callees import CALLERS, called_subgraphs
from neurald.runtime.tflite.graph.state import VariableKey, handle_key, shown_key


class Initialization:
    """Knows which subgraphs of CALL_ONCE have run.

    Args:
        subgraphs: of the file.
    """

    def __init__(self, subgraphs: Sequence[TfliteSubgraph]) -> None:
        self._subgraphs = subgraphs
        self._done: set[int] = set()

    def begin(self, subgraph: int) -> frozenset[str]:
        """Returns the names of the variables that only the next run of a subgraph initialises."""
        due = set(self._called_once(subgraph, set())) - self._done
        self._done |= due
        return frozenset(name for each in due for name in self._assigned(each))

    def _called_once(self, subgraph: int, seen: set[int]) -> Iterator[int]:
        """Yields the subgraphs of CALL_ONCE that a subgraph and those that it calls have."""
        if subgraph in seen or not 0 <= subgraph < len(self._subgraphs):
            return
        seen.add(subgraph)
        for operator in self._subgraphs[subgraph].operators:
            if operator.code == BuiltinOperator.CALL_ONCE:
                yield called_subgraphs(operator)[0][0]
            elif operator.code in CALLERS:
                for each in called_subgraphs(operator)[0]:
                    yield from self._called_once(each, seen)

    def _assigned(self, subgraph: int) -> Iterator[str]:
        """Yields the names of the variables that a subgraph assigns."""
        handles: dict[int, VariableKey] = {}
        for operator in self._subgraphs[subgraph].operators:
            made = handle_key(operator)
            if made is not None and operator.outputs:
                handles[operator.outputs[0]] = made
            elif operator.code == BuiltinOperator.ASSIGN_VARIABLE and operator.inputs:
                key = handles.get(operator.inputs[0])
                if key is not None:
                    yield shown_key(key)
