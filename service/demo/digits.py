"""Loads the demo's model and digits, which `scripts/train_digits.py` creates.

The digits are part of "Optical Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak (UCI
Machine Learning Repository, licence CC BY 4.0), in the form in which scikit-learn includes them,
with pixels scaled from 0-16 to 0-255.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from neurald.service.tensors.arrays import Array

_DATA_DIRECTORY = Path(__file__).resolve().parent

#: The classifier. Its input is uint8 [1, 8, 8, 1], white on black; its output has the probabilities
#: as uint8 [1, 10].
MODEL = _DATA_DIRECTORY / "digits.tflite"

#: The digits that were held out from training.
DIGITS = _DATA_DIRECTORY / "digits.npz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Digits:
    """Handwritten digits.

    Attributes:
        images: uint8 [n, 8, 8], white on black.
        labels: uint8 [n], 0 to 9.
    """

    images: Array
    labels: Array


def load_held_out_digits() -> Digits:
    """Loads the digits that the model has never seen.

    Raises:
        OSError: the package's file is missing.
    """
    with np.load(DIGITS, allow_pickle=False) as file:
        return Digits(images=file["images"], labels=file["labels"])
