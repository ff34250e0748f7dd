"""Finds a device that computes wrong values, and the operation that it computes wrong."""

import os
import sys
import tempfile
from typing import Any

import numpy as np

import neurald as nd
from neurald.hal.device import ExecuteOptions, ExecutionResult
from neurald.hal.types import Request


class WrongModel:
    """A prepared model of which the first element of the first output has a flipped bit."""

    def __init__(self, right: Any) -> None:
        self._right = right

    def __getattr__(self, name: str) -> Any:
        return getattr(self._right, name)

    def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
        """Executes the model, and flips the bit."""
        result: ExecutionResult = self._right.execute(request, options)
        output = request.outputs[0]
        request.pools[output.pool or 0].view(output.offset, output.length)[3] ^= 0x40
        return result


class WrongDevice:
    """A device that is wrong about TANH. Anything else is that of a sample device."""

    def __init__(self, right: nd.Device) -> None:
        self._right = right

    def __getattr__(self, name: str) -> Any:
        return getattr(self._right, name)

    def prepare_model(self, model: nd.Model, options: Any) -> Any:
        """Prepares a model, which is wrong if it has a TANH."""
        right = self._right.prepare_model(model, options)
        kinds = {operation.type for operation in model.main.operations}
        return WrongModel(right) if nd.OperationType.TANH in kinds else right


def curves() -> nd.Model:
    """Returns y = logistic(tanh(exp(x)))."""
    builder = nd.ModelBuilder()
    x, a, b, y = (builder.add_operand(nd.OperandType.TENSOR_FLOAT32, (4,)) for _ in range(4))
    builder.add_operation(nd.OperationType.EXP, [x], [a])
    builder.add_operation(nd.OperationType.TANH, [a], [b])
    builder.add_operation(nd.OperationType.LOGISTIC, [b], [y])
    builder.identify_inputs_and_outputs([x], [y])
    return builder.finish()


def main() -> int:
    """Runs a model on a device that is wrong."""
    # What is found is kept for all applications of the user; here, for this program only.
    with tempfile.TemporaryDirectory() as state:
        os.environ["XDG_STATE_HOME"] = state
        device: Any = WrongDevice(nd.open_device("sample-all"))
        builder = nd.CompilationBuilder(curves(), [device])
        builder.set_verification(sample=0.01)
        compilation = builder.finish()
        x = np.linspace(-1, 1, 4, dtype=np.float32)
        (y,) = compilation.run(x)
        expected = 1 / (1 + np.exp(-np.tanh(np.exp(x))))
        print("right:", bool(np.allclose(y, expected)))
        compilation.wait_until_investigated()
        for found in compilation.verifications:
            print(found)
        try:
            nd.CompilationBuilder(curves(), [device]).finish()
        except nd.Error as error:
            print("later:", error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
