"""Runs random programs of loops and branches compiled as a whole, and split over devices."""

import random

import numpy as np
from support.models.plans import CONTROL_FLOW, all_but, compiled, only
from support.models.random_loops import random_loops

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.errors import Error, MissedDeadlineTransient

#: Programs that compute without failing, that may fail, whose queues grow, and that append to them.
_FORMS: tuple[dict[str, bool], ...] = ({}, {"may_fail": True}, {"grows": True}, {"appends": True})


def devices_of(model: nd.Model, rng: random.Random) -> list[nd.Device]:
    """Returns a sample device for some types of operations, and the CPU device for the others.

    Loops whose bodies have both are run by the plan's interpreter, and their state crosses the
    border.
    """
    found = {each.type for graph in (model.main, *model.referenced) for each in graph.operations}
    types = sorted(found.difference(CONTROL_FLOW), key=lambda each: each.name)
    chosen = rng.sample(types, max(1, len(types) // rng.choice((2, 3, 5))))
    return [rng.choice((only, all_but))("sample", *chosen), CpuDevice()]


def mismatch_of(seed: int, *, is_split: bool) -> str:
    """Compares a program with the references.

    Args:
        seed: of all choices.
        is_split: whether it is split over two devices.

    Returns:
        What differs; the empty text if nothing does.
    """
    form = _FORMS[seed % len(_FORMS)]
    model, executions = random_loops(seed, **form)
    devices = devices_of(model, random.Random(seed)) if is_split else [CpuDevice()]
    compilation, reference = compiled(model, *devices), compiled(model, ReferenceDevice())
    for number, arrays in enumerate(executions):
        try:
            wanted = reference.run(*arrays)
        except Error:
            # Compiled code does not compute what nothing reads.
            continue
        try:
            results = compilation.run(*arrays)
        except MissedDeadlineTransient:
            # On a busy machine, the plan's interpreter exceeds the time that loops have.
            continue
        except Error as error:
            return f"execution {number} of {form} fails: {error}"
        for output, (found, expected) in enumerate(zip(results, wanted, strict=True)):
            if found.shape != expected.shape or not np.array_equal(found, expected):
                return f"execution {number} of {form}: output {output} is wrong"
    return ""
