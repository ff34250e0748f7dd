"""Runs models with LiteRT for the sweep; needs numpy and ai-edge-litert, but not neurald.

It reads a line for each run: a JSON object with the paths `model`, `inputs` and `outputs` (of npz
files) and the name of the `kernels`. It answers with a line: an error message, or an empty line.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

KERNELS = {
    "reference": OpResolverType.BUILTIN_REF,
    "builtin": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    "default": OpResolverType.AUTO,
}


def run(model: str, inputs: str, outputs: str, kernels: str) -> None:
    """Runs a model once."""
    interpreter = Interpreter(
        model_content=Path(model).read_bytes(), experimental_op_resolver_type=KERNELS[kernels], num_threads=1
    )
    with np.load(inputs, allow_pickle=True) as found:
        values = [found[f"arr_{n}"] for n in range(len(found.files))]
    details = interpreter.get_input_details()
    for detail, value in zip(details, values, strict=True):
        if tuple(detail["shape"]) != value.shape:
            interpreter.resize_tensor_input(detail["index"], value.shape)
    interpreter.allocate_tensors()
    for detail, value in zip(details, values, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    results: list[Any] = [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]
    np.savez(outputs, *results)


def main() -> None:
    """Answers requests until standard input ends."""
    for line in sys.stdin:
        try:
            run(**json.loads(line))
            answer = ""
        except (ValueError, RuntimeError, TypeError) as error:
            answer = " ".join(str(error).split()) or type(error).__name__
        print(answer, flush=True)


if __name__ == "__main__":
    main()
