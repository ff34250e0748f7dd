"""A program of LiteRT that runs on neurald. Only its import was changed."""

from pathlib import Path

import numpy as np

import neurald.service.demo
from neurald.litert import Interpreter  # was: from ai_edge_litert.interpreter import Interpreter

DEMO = Path(neurald.service.demo.__file__).parent


def main() -> None:
    """Prints the accuracy of a classifier."""
    data = np.load(DEMO / "digits.npz")
    interpreter = Interpreter(model_path=str(DEMO / "digits.tflite"), num_threads=2)
    interpreter.allocate_tensors()
    (given,), (found,) = interpreter.get_input_details(), interpreter.get_output_details()
    print(given["name"], given["shape"].tolist(), given["dtype"].__name__, given["quantization"])

    right = 0
    for image, label in zip(data["images"], data["labels"], strict=True):
        interpreter.set_tensor(given["index"], image[None, :, :, None])
        interpreter.invoke()
        right += int(interpreter.get_tensor(found["index"]).argmax() == label)
    print(f"{right} of {len(data['labels'])} digits are right")


if __name__ == "__main__":
    main()
