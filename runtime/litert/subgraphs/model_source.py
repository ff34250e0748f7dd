"""A `.tflite` file whose subgraphs and signatures are addressed as LiteRT's API does."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from neurald.hal.api_arguments import shown
from neurald.hal.errors import BadData
from neurald.hal.unpicklable import Unpicklable
from neurald.runtime.tflite.entry import load_entry
from neurald.runtime.tflite.file.content import file_content
from neurald.runtime.tflite.file.schema import TfliteFile, TfliteSignature, TfliteSubgraph
from neurald.runtime.tflite.kept.stored_entry import Entry

if TYPE_CHECKING:
    from neurald.runtime.tflite.graph.custom_operators import CustomOperators

Content: TypeAlias = bytes | bytearray | memoryview


def required_content(content: Content) -> Content:
    """Returns the bytes of a file after checking that they are bytes, and not a path.

    Raises:
        TypeError: they are something else.
    """
    if not isinstance(content, bytes | bytearray | memoryview):
        raise TypeError(f"the content of a model is {shown(content)}; bytes are expected")
    return content


class ModelSource(Unpicklable):
    """An open file.

    Args:
        content: the path of a file, or the bytes of one.
        custom_operators: functions of custom operators.

    Raises:
        ValueError: the file cannot be opened, or is damaged.
    """

    instead_of_pickling = "Open the file again where it is used, by its path or its bytes"

    def __init__(
        self, content: str | os.PathLike[str] | Content, custom_operators: "CustomOperators | None" = None
    ) -> None:
        self._custom_operators = custom_operators
        try:
            _, self._memory = file_content(content)
        except BadData as error:
            if isinstance(content, bytes | bytearray | memoryview):
                raise ValueError("The model is not a valid Flatbuffer buffer") from error
            path = os.fspath(content)
            # The error begins with the path.
            raise ValueError(f"Could not open '{path}'. {str(error).removeprefix(f'{path}: ')}") from error
        try:
            self._file = TfliteFile(self._memory.view())
            self._subgraphs = tuple(self._file.subgraph(index) for index in range(self._file.subgraph_count))
        except BadData as error:
            raise ValueError(f"The model is not a valid Flatbuffer buffer: {error}") from error

    @property
    def data(self) -> memoryview:
        """All bytes of the file."""
        return self._memory.view()

    @property
    def subgraphs(self) -> tuple[TfliteSubgraph, ...]:
        """All subgraphs, as they are in the file."""
        return self._subgraphs

    @property
    def signatures(self) -> Mapping[str, TfliteSignature]:
        """The entry points of the file by name; without any, an empty mapping."""
        return self._file.signatures

    def load(
        self, subgraph: int, shapes: Mapping[int, Sequence[int]], *, keeps_all: bool, trusts_file: bool
    ) -> Entry:
        """Loads a subgraph, see `load_entry`."""
        return load_entry(
            self._file,
            self._memory,
            subgraph,
            shapes=shapes,
            keeps_all=keeps_all,
            trusts_file=trusts_file,
            custom_operators=self._custom_operators,
        )
