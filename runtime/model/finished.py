"""Checks that an argument of a call is a finished model."""

import os

from neurald.hal.api_arguments import shown
from neurald.hal.errors import BadState, UnexpectedNull, WrongType
from neurald.hal.model.model import Model


def finished_model(value: object) -> Model:
    """Returns a model after checking that it is one.

    Raises:
        BadState: it is a builder, whose model is not finished.
        UnexpectedNull: it is None.
        WrongType: it is something else.
    """
    if value is None:
        raise UnexpectedNull("model is None; what ModelBuilder.finish or load_tflite returns is expected")
    if isinstance(value, Model):
        return value
    if hasattr(value, "finish"):
        raise BadState(f"a {type(value).__name__} is not a finished model; its finish() returns one")
    remedy = ", as neurald.load_tflite returns it" if isinstance(value, str | bytes | os.PathLike) else ""
    raise WrongType(f"the model is {shown(value)}; a Model is expected{remedy}")
