"""LiteRT's SignatureRunner: calls an entry point of a file by names."""

from typing import Any, Protocol

import numpy as np

from neurald.runtime.litert.subgraphs.subgraph_runner import SubgraphRunner
from neurald.runtime.litert.subgraphs.tensor_details import Details
from neurald.runtime.tflite.file.schema import TfliteSignature


class EntryPoints(Protocol):
    """The methods of an interpreter that a signature runner calls."""

    def entry_point(self, signature_key: str) -> tuple[TfliteSignature, SubgraphRunner]:
        """Returns a signature, and what runs it.

        Raises:
            ValueError: there is no such signature.
        """


class SignatureRunner:
    """Calls an entry point. `Interpreter.get_signature_runner` returns it.

    Args:
        interpreter: the interpreter of the file.
        signature_key: the name of the entry point.

    Raises:
        ValueError: an argument is missing, or there is no such signature.
    """

    def __init__(self, interpreter: EntryPoints | None = None, signature_key: str | None = None) -> None:
        if not interpreter:
            raise ValueError("None interpreter provided.")
        if not signature_key:
            raise ValueError("None signature_key provided.")
        self._signature, self._runner = interpreter.entry_point(signature_key)
        self._subgraph_index = self._signature.subgraph

    def __call__(self, **kwargs: Any) -> dict[str, np.ndarray[Any, Any]]:
        """Computes the outputs.

        Inputs are resized to the shapes of the given values, and everything is allocated.

        Args:
            kwargs: the values of all inputs by name.

        Returns:
            The outputs by name.

        Raises:
            ValueError: an input is missing or unknown, or a value does not go with it.
            RuntimeError: the execution failed.
        """
        names = self._signature.inputs
        if len(kwargs) != len(names):
            raise ValueError(
                "Invalid number of inputs provided for running a SignatureDef, expected "
                f"{len(names)} vs provided {len(kwargs)}"
            )
        for name, value in kwargs.items():
            if name not in names:
                raise ValueError(f"Invalid Input name ({name}) for SignatureDef")
            self._runner.resize(names[name], value.shape, is_strict=False)
        self._runner.allocate()
        for name, value in kwargs.items():
            self._runner.set(names[name], value)
        self._runner.invoke()
        return {name: self._runner.get(index) for name, index in self._signature.outputs.items()}

    def get_input_details(self) -> dict[str, Details]:
        """Returns the descriptions of the inputs by name."""
        return {name: self._runner.details(index) for name, index in self._signature.inputs.items()}

    def get_output_details(self) -> dict[str, Details]:
        """Returns the descriptions of the outputs by name."""
        return {name: self._runner.details(index) for name, index in self._signature.outputs.items()}
