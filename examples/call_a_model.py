"""Calls a model like a function: by position, by name, with real numbers, and several at once."""

from pathlib import Path

import numpy as np

import neurald as nd
import neurald.service.demo

DEMO = Path(neurald.service.demo.__file__).parent


def main() -> None:
    """Prints what the model is, and its answers."""
    data = np.load(DEMO / "digits.npz")
    images, labels = data["images"][..., None], data["labels"]

    # Real numbers in and out: quantised values are converted by their scales.
    classify = nd.compile(DEMO / "digits.tflite", convert=True)
    print(classify.summary())

    (name,) = (info.name for info in classify.inputs_info)
    (probabilities,) = classify({name: images[:1]}).values()
    print(f"the first digit is a {probabilities.argmax()}: {probabilities.max():.0%}")

    answers = classify.stream((image[None] for image in images), depth=2)
    guesses = [outputs[0].argmax() for outputs in answers]
    print(f"{np.count_nonzero(guesses == labels)} of {len(labels)} digits are right")


if __name__ == "__main__":
    main()
