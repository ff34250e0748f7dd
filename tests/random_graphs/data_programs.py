"""Runs random networks whose lengths follow from data, on each tier of the CPU and split."""

import random
from collections.abc import Sequence

import numpy as np
from random_graphs.check import logged_warnings
from random_graphs.data_lengths.network import DataNetwork
from random_graphs.loop_programs import devices_of
from support.cpu.first_tier import prepared
from support.models.marked_outputs import executed_within_marks
from support.models.plans import compiled

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import PrepareOptions
from neurald.hal.errors import Error, MissedDeadlineTransient
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.model.model import Model
from neurald.hal.operations.machinery.call import Array

#: How a network can be run.
WAYS = ("compiled", "first tier", "split")


class _FirstTier(CpuDevice):
    """CPU device that never compiles."""

    def prepare_model(self, model: Model, options: PrepareOptions) -> CpuPreparedModel | ReferenceModel:
        return prepared(model)


def data_mismatch(seed: int, way: str, executions: int = 5) -> str:
    """Compares executions of a network, whose inputs have different lengths, with the references.

    Args:
        seed: of all choices.
        way: one of `WAYS`.
        executions: their number.

    Returns:
        What differs; the empty text if nothing does, or if the network cannot be loaded.
    """
    network = DataNetwork(seed)
    try:
        model = nd.load_tflite(network.file.build())
    except Error:
        return ""  # Constants do not fit.
    devices: dict[str, Sequence[nd.Device]] = {
        "compiled": (CpuDevice(),),
        "first tier": (_FirstTier(),),
        "split": devices_of(model, random.Random(seed)),
    }
    with logged_warnings() as warnings:
        found = _mismatch(network, seed, compiled(model, *devices[way]), model, executions)
    return found or "".join(f"warning: {each}" for each in warnings[:1])


def _mismatch(
    network: DataNetwork, seed: int, compilation: nd.Compilation, model: Model, executions: int
) -> str:
    reference = compiled(model, ReferenceDevice())
    for number in range(executions):
        arrays = network.arrays(seed * 100 + number)
        try:
            wanted = reference.run(*arrays)
        except Error:
            # Compiled code does not compute what nothing reads.
            continue
        try:
            found, is_around_left = executed_within_marks(compilation, arrays, wanted)
        except MissedDeadlineTransient:
            continue  # On a busy machine, loops take too long in the plan's interpreter.
        except Error as error:
            return f"execution {number} fails: {error}"
        if not is_around_left:
            return f"execution {number} writes beside its outputs"
        for output, (one, other) in enumerate(zip(found, wanted, strict=True)):
            if one.shape != other.shape or not is_equal(one, other):
                return f"execution {number}: output {output} is wrong"
    return ""


def is_equal(one: Array, other: Array) -> bool:
    """Tells whether results are the same; those of float32 may be rounded differently."""
    if one.dtype != np.float32:
        return bool(np.array_equal(one, other))
    return np.allclose(one, other, rtol=1e-4, atol=1e-5, equal_nan=True)
