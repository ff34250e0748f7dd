"""Loads models as a worker does, in this process."""

import os
from typing import Any

from neurald.service.inference.worker.loaded_model import LoadedModel
from neurald.service.inference.worker.orders import LoadOrder


def load(content: bytes, **order: Any) -> LoadedModel:
    """Loads a model from a file without a name."""
    descriptor = os.memfd_create("model")
    os.write(descriptor, content)
    try:
        return LoadedModel(descriptor, LoadOrder(name="m", **order))
    finally:
        os.close(descriptor)
