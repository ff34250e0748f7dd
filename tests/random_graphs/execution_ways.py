"""Runs random networks whose lengths follow from data in the ways in which executions can run.

Reusable executions get contents with results of changing sizes, some of which fail: indices may be
out of range, buffers may be short, and executions are cancelled. Those after them must be right.
"""

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial

import numpy as np
from random_graphs.check import logged_warnings
from random_graphs.data_lengths.network import DataNetwork
from random_graphs.data_programs import is_equal
from random_graphs.loop_programs import devices_of
from support.devices.modes import MODES, compute
from support.models.marked_outputs import MarkedOutputs
from support.models.plans import compiled

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.errors import Cancelled, Error, MissedDeadlineTransient, OutputInsufficientSize
from neurald.hal.model.model import Model
from neurald.hal.operations.machinery.call import Array

#: What runs the networks.
PLACES = ("compiled", "daemon", "split")
_GROUPS, _CONTENTS, _STEPS = 3, 4, 12

#: Inputs, and their results; none where the references fail.
_Case = tuple[list[Array], list[Array] | None]


def execution_mismatch(seed: int, place: str, daemon: nd.Device | None = None) -> str:
    """Compares executions of a network with the references.

    Args:
        seed: of all choices.
        place: one of `PLACES`.
        daemon: the device that a daemon offers, for its place.

    Returns:
        What differs; the empty text if nothing does, or if the network cannot be loaded.
    """
    network, rng = DataNetwork(seed), random.Random(seed)
    try:
        model = nd.load_tflite(network.file.build())
    except Error:
        return ""  # Constants do not fit.
    devices: Sequence[nd.Device] = [CpuDevice()]
    if place == "split":
        devices = devices_of(model, rng)
    elif daemon is not None:
        devices = [daemon]
    groups = _groups(network, seed, compiled(model, ReferenceDevice()))
    with logged_warnings() as warnings:
        found = _Executions(model, compiled(model, *devices), groups, rng).mismatch()
    return found or "".join(f"warning: {each}" for each in warnings[:1])


def _groups(network: DataNetwork, seed: int, reference: nd.Compilation) -> list[list[_Case]]:
    """Returns groups of cases of which the inputs have the same shapes."""
    groups, numbers = [], np.random.default_rng(seed)
    for number in range(_GROUPS):
        first = network.arrays(seed * 100 + number)
        group = []
        for most in (0, 1, 9, 200)[:_CONTENTS]:
            arrays = [numbers.integers(0, most, each.shape).astype(each.dtype) for each in first if most]
            group.append(_case(arrays or first, reference))
        groups.append(group)
    return groups


def _case(arrays: list[Array], reference: nd.Compilation) -> _Case:
    try:
        return arrays, reference.run(*arrays)
    except Error:
        # Compiled code does not compute what nothing reads.
        return arrays, None


class _Executions:
    """Executions of a compilation, each of which is checked."""

    def __init__(
        self, model: Model, compilation: nd.Compilation, groups: list[list[_Case]], rng: random.Random
    ) -> None:
        self._model, self._compilation, self._groups, self._rng = model, compilation, groups, rng
        self._types = [each.type for each in model.output_operands]

    def mismatch(self) -> str:
        """Returns what differs in any way."""
        ways: list[Callable[[], str]] = [self._runs, self._threads, self._stream]
        for group in self._groups:
            ways += [partial(self._reused, group, is_short=is_short) for is_short in (False, True)]
        self._rng.shuffle(ways)
        return next(filter(None, (way() for way in ways)), "")

    def _cases(self) -> list[_Case]:
        cases = [case for group in self._groups for case in group]
        self._rng.shuffle(cases)
        return cases

    def _runs(self) -> str:
        return next(filter(None, map(self._run, self._cases())), "")

    def _run(self, case: _Case) -> str:
        arrays, wanted = case
        try:
            found = self._compilation.run(*arrays)
        except MissedDeadlineTransient:
            return ""  # On a busy machine, loops take too long in the plan's interpreter.
        except Error as error:
            return f"a run fails: {error}" if wanted is not None else ""
        return _difference(found, wanted, "a run")

    def _threads(self) -> str:
        found: list[str] = []
        cases = self._cases()
        threads = [
            threading.Thread(target=lambda each: found.append(self._run(each)), args=(case,))
            for case in cases
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return next(filter(None, found), "" if len(found) == len(cases) else "a thread ends early")

    def _stream(self) -> str:
        cases = [case for case in self._cases() if case[1] is not None]
        with closing(self._compilation.stream(arrays for arrays, _ in cases)) as results:
            for _, wanted in cases:
                try:
                    found = next(results)
                except MissedDeadlineTransient:
                    return ""
                if text := _difference(found, wanted, "a stream"):
                    return text
        return ""

    def _reused(self, group: list[_Case], *, is_short: bool) -> str:
        """Computes a reusable execution with different contents.

        Args:
            group: the cases.
            is_short: whether outputs have room for the smallest results only.
        """
        results = [wanted for _, wanted in group if wanted is not None]
        if not results:
            return ""
        sizes = [
            (min if is_short else max)(each.size for each in outputs)
            for outputs in zip(*results, strict=True)
        ]
        marked, inputs = (
            MarkedOutputs(sizes, [each.dtype for each in self._types]),
            [each.copy() for each in group[0][0]],
        )
        execution = nd.Execution(self._compilation, reusable=True)
        for position, array in enumerate(inputs):
            execution.set_input(position, array)
        for position, (array, operand) in enumerate(
            zip(marked.arrays, self._model.output_operands, strict=True)
        ):
            execution.set_output(
                position, array.reshape(operand.dimensions) if operand.is_fully_specified else array
            )
        for _ in range(_STEPS):
            case, mode = self._rng.choice(group), self._rng.choice((*MODES, "cancelled"))
            marked.clear()
            for array, given in zip(inputs, case[0], strict=True):
                array[...] = given
            if text := self._computed(execution, case, marked, mode):
                return f"{text} ({mode})"
        return ""

    def _computed(self, execution: nd.Execution, case: _Case, marked: MarkedOutputs, mode: str) -> str:
        wanted = case[1]
        fits = wanted is None or all(
            one.size <= other.size for one, other in zip(wanted, marked.arrays, strict=True)
        )
        try:
            if mode == "cancelled":
                event = execution.start_compute()
                execution.cancel()
                event.wait()
            else:
                compute(execution, mode)
        except MissedDeadlineTransient:
            return ""
        except Cancelled:
            return "" if mode == "cancelled" else "an execution is cancelled that should not be"
        except OutputInsufficientSize as error:
            shapes = [each.shape for each in wanted or ()]
            is_told = wanted is None or list(error.dimensions) == shapes
            return "" if is_told and (wanted is None or not fits) else f"sizes are wrong: {error}"
        except Error as error:
            return f"an execution fails: {error}" if wanted is not None else ""
        if not marked.are_left:
            return "an execution writes beside its outputs"
        if wanted is None:
            return ""
        if not fits:
            return "an execution with short outputs succeeds"
        shapes = execution.output_shapes()
        found = [
            array[: int(np.prod(shape))].reshape(shape)
            for array, shape in zip(marked.arrays, shapes, strict=True)
        ]
        return _difference(found, wanted, "an execution")


def _difference(found: Sequence[Array], wanted: Sequence[Array] | None, what: str) -> str:
    if wanted is None:
        return ""
    for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if one.shape != other.shape or not is_equal(one, other):
            return f"output {number} of {what} is wrong"
    return ""
