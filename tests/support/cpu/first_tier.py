"""Runs models on the first tier of the CPU device, for any target."""

from functools import cache

import numpy as np

from neurald.drivers.cpu.first_tier.kernels.units import library_units
from neurald.drivers.cpu.first_tier.preparation import prepare
from neurald.drivers.cpu.native.objects.llvm import LoadedCode, link_image
from neurald.drivers.cpu.native.objects.object_code import object_codes
from neurald.drivers.cpu.native.thread_pool import Team, process
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.drivers.cpu.target.target import TARGETS, runs_here
from neurald.hal.device import ExecuteOptions
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.model import Model
from neurald.hal.model.request import Argument, Request

#: The targets whose code runs on this machine.
TARGETS_HERE = sorted(name for name, target in TARGETS.items() if runs_here(target))


@cache
def library(target: str) -> LoadedCode:
    """Returns the code of the library."""
    (image,) = link_image(object_codes(library_units(TARGETS[target]), TARGETS[target]))
    return LoadedCode.of_image(image)


def prepared(
    model: Model, target: str = TARGETS_HERE[0], threads: int = 1
) -> CpuPreparedModel | ReferenceModel:
    """Prepares a model for the first tier."""
    team = Team(process.step_program(TARGETS[target]), threads)
    return prepare(model, TARGETS[target], library(target), team)


def results(
    model: CpuPreparedModel | ReferenceModel, graph: Model, inputs: "list[np.ndarray]"
) -> "list[np.ndarray]":
    """Executes a prepared model whose outputs are fully specified."""
    operands = graph.main.operands
    outputs = [np.empty(operands[n].dimensions or (), operands[n].type.dtype) for n in graph.main.outputs]
    pools = tuple(HostMemory(each) for each in (*inputs, *outputs))
    arguments = [Argument(pool=n, length=each.nbytes) for n, each in enumerate((*inputs, *outputs))]
    request = Request(
        inputs=tuple(arguments[: len(inputs)]), outputs=tuple(arguments[len(inputs) :]), pools=pools
    )
    model.execute(request, ExecuteOptions())
    return outputs
