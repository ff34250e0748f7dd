"""Loads a subgraph of a `.tflite` file with other input shapes, or with more outputs.

`load_tflite` covers what most programs need. This serves interfaces that address the tensors of a
file by their numbers. What a subgraph was converted to is kept, as for `load_tflite`.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from neurald.hal.memory.pool import Memory
from neurald.runtime.tflite.file.schema import TfliteFile
from neurald.runtime.tflite.kept.converted import ConvertedFile
from neurald.runtime.tflite.kept.stored_entry import Entry, restored_entry, stored_entry

if TYPE_CHECKING:
    # Most programs have no custom operators.
    from neurald.runtime.tflite.graph.custom_operators import CustomOperators


def load_entry(
    file: TfliteFile,
    memory: Memory,
    subgraph: int,
    *,
    shapes: Mapping[int, Sequence[int]],
    keeps_all: bool = False,
    trusts_file: bool = True,
    custom_operators: "CustomOperators | None" = None,
) -> Entry:
    """Loads a subgraph.

    Args:
        file: the file.
        memory: its bytes.
        subgraph: the number of the subgraph.
        shapes: the shapes of inputs that differ from those in the file, by tensor. A length of 0
            leaves a dimension open.
        keeps_all: makes the results of all operators outputs, after those of the subgraph. Results
            of operators on variables have no values.
        trusts_file: uses the shapes of results that the file states where they do not follow from
            the shapes of the inputs.
        custom_operators: functions of custom operators.

    Raises:
        BadData: the file is damaged, or has unsupported operators.
    """
    what: tuple[object, ...] = (
        "entry",
        subgraph,
        sorted((index, tuple(shape)) for index, shape in shapes.items()),
        keeps_all,
    )
    what = what if trusts_file else (*what, "without shapes of results")
    # Results of the application's own functions have no meaning for other processes.
    kept = None if custom_operators else ConvertedFile(memory, what)

    def convert() -> Entry:
        from neurald.runtime.tflite.conversion.entry_conversion import (
            convert_entry,  # Not needed for what is kept.
        )

        return convert_entry(
            file, memory, subgraph, shapes, custom_operators, keeps_all=keeps_all, trusts_file=trusts_file
        )

    found = None if kept is None else kept.load(restored_entry, lambda: stored_entry(convert()))
    if found is not None:
        return found
    entry = convert()
    if kept is not None:
        kept.store(entry.model, partial(stored_entry, entry))
    return entry
