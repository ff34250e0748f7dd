"""Classifies handwritten digits with a quantised network, and compares with the labels."""

from pathlib import Path

import numpy as np

import neurald as nd
import neurald.service.demo

DEMO = Path(neurald.service.demo.__file__).parent


def main() -> None:
    """Prints the accuracy, and the scores of the first digit."""
    data = np.load(DEMO / "digits.npz")
    images, labels = data["images"], data["labels"]

    model = nd.load_tflite(DEMO / "digits.tflite")
    compilation = nd.CompilationBuilder(model).finish()

    # The network takes one image at a time: (1, height, width, channels).
    answers = [compilation.run(image[None, :, :, None])[0][0] for image in images]
    guesses = np.array([answer.argmax() for answer in answers])

    print(f"{np.count_nonzero(guesses == labels)} of {len(labels)} digits are right")
    # The output is quantised: a probability is the value times the scale, 1 / 256.
    print("first digit:", ", ".join(f"{digit}: {p / 256:.0%}" for digit, p in enumerate(answers[0]) if p > 2))


if __name__ == "__main__":
    main()
