"""Runs a model at once, while it is compiled, and again with its optimised code."""

import time
from pathlib import Path

import numpy as np

import neurald as nd
import neurald.service.demo

DEMO = Path(neurald.service.demo.__file__).parent


def count_right(compilation: nd.Compilation, images: np.ndarray, labels: np.ndarray) -> int:
    """Returns how many digits the model recognises."""
    found = [compilation.run(image[None, :, :, None])[0].argmax() for image in images]
    return int((np.array(found) == labels).sum())


def main() -> None:
    """Prints what runs, and how long it took to get there."""
    digits = np.load(DEMO / "digits.npz")
    images, labels = digits["images"], digits["labels"]

    started = time.perf_counter()
    builder = nd.CompilationBuilder(nd.load_tflite(DEMO / "digits.tflite"))
    builder.set_startup(nd.Startup.INSTANT)
    compilation = builder.finish()
    before = count_right(compilation, images, labels)
    print(f"after {time.perf_counter() - started:.2f} s: {compilation.status}")

    compilation.wait_until_optimized()
    print(f"after {time.perf_counter() - started:.2f} s: {compilation.status}")
    after = count_right(compilation, images, labels)
    print(f"{before} of {len(labels)} digits are right, before and after" if before == after else after)


if __name__ == "__main__":
    main()
