"""Executables of models: their calls and memory, and that they are deterministic."""

import numpy as np
import pytest
from support.opencl.models import FLOAT, INT32, Models, random_model
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.compiler.memory.buffer_location import Base
from neurald.drivers.opencl.assembly import ALIGNMENT, Compiled
from neurald.drivers.opencl.compiler import compile_model
from neurald.drivers.opencl.device import OpenClDevice
from neurald.drivers.opencl.platform.device_facts import DeviceKind
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.precision import Precision
from neurald.hal.device import PrepareOptions
from neurald.hal.errors import Cancelled
from neurald.hal.model.model import Model
from neurald.hal.records import replace
from neurald.hal.sync.cancellation import Cancellation

_Op = nd.OperationType


def compiled(opencl: DeviceContext, model: Model, *, is_fused: bool = True) -> Compiled:
    return compile_model(
        model,
        {},
        opencl.facts,
        precision=Precision.F32,
        choose=lambda kernels, pairs: [sources[0] for sources in kernels],
        is_fused=is_fused,
    )


def chain() -> Model:
    models = Models()
    value = models.input()
    for operation in (_Op.TANH, _Op.RELU, _Op.LOGISTIC):
        value = models.add(operation, [value])
    return models.finish(value)


def test_a_chain_is_one_call(opencl: DeviceContext) -> None:
    (call,) = compiled(opencl, chain()).executable.calls
    assert call.operations == (0, 1, 2)
    assert len(compiled(opencl, chain(), is_fused=False).executable.calls) == 3


@sweep("seed", range(8))
@sweep("is_fused", [True, False])
def test_locations_of_values(opencl: DeviceContext, seed: int, is_fused: bool) -> None:
    found = compiled(opencl, random_model(seed), is_fused=is_fused)
    executable = found.executable
    sizes = {Base.ARENA: executable.arena_bytes, Base.CONSTANTS: executable.constants_bytes}
    for call in executable.calls:
        assert f"void {call.kernel}(" in executable.text
        assert call.groups > 0
        assert call.locations[0].base is Base.ARENA
        for place in call.locations:
            assert place.offset % ALIGNMENT == 0
            assert 0 <= place.offset < sizes[place.base]
    for port in (*executable.inputs, *executable.outputs):
        port.check(executable.arena_bytes)
    assert found.constants.nbytes == executable.constants_bytes
    assert executable.arena_bytes < 2**20


@sweep("seed", range(4))
def test_the_same_model_gives_the_same_executable(opencl: DeviceContext, seed: int) -> None:
    one, other = (compiled(opencl, random_model(seed)) for _ in range(2))
    assert one.executable == other.executable
    np.testing.assert_array_equal(one.constants, other.constants)


def test_outputs_lie_just_before_the_flags(opencl: DeviceContext) -> None:
    """One transfer fetches both, and no other value shares their memory."""
    models = Models()
    value = models.add(_Op.TANH, [models.input()])
    executable = compiled(
        opencl, models.finish(models.add(_Op.ABS, [value]), value), is_fused=False
    ).executable
    first, second = sorted(executable.outputs, key=lambda port: port.offset or 0)
    starts = {call.locations[0].offset for call in executable.calls}
    assert {first.offset, second.offset} <= starts
    assert (first.offset or 0) + first.size_bytes <= (second.offset or 0)
    assert (
        executable.zeros - 2 * opencl.facts.alignment_bytes - ALIGNMENT
        < (second.offset or 0) + second.size_bytes
    )
    assert (second.offset or 0) + second.size_bytes <= executable.zeros


def test_independent_kernels_share_no_memory_in_a_persistent_kernel(opencl: DeviceContext) -> None:
    """Otherwise one may write to where the input of another was, and has to wait for it."""
    models = Models()
    inputs = [models.input(FLOAT, (400, 400)) for _ in range(3)]
    model = models.finish(*(models.add(_Op.ABS, [each], FLOAT, (400, 400)) for each in inputs))
    facts = replace(
        opencl.facts,
        kind=DeviceKind.GPU,
        compute_units=132,
        is_nvidia=True,
        compute_capability=(9, 0),
        images=None,
    )
    found = compile_model(
        model,
        {},
        facts,
        precision=Precision.F32,
        choose=lambda kernels, pairs: [sources[0] for sources in kernels],
    )
    places = [place.offset for call in found.executable.calls for place in call.locations]
    assert len(set(places)) == len(places) == 6
    # The only barrier is that of trials without phases.
    assert found.persistent_text.count("neurald_meet(sync, target +=") == 1


def test_status_words_and_messages_of_requirements(opencl: DeviceContext) -> None:
    models = Models()
    table, first, second = models.input(FLOAT, (5, 3)), models.input(INT32, (4,)), models.input(INT32, (2,))
    picked = models.add(_Op.GATHER, [table, models.number(0), first], shape=(4, 3))
    again = models.add(_Op.GATHER, [table, models.number(0), second], shape=(2, 3))
    executable = compiled(opencl, models.finish(picked, again)).executable
    assert len({call.status for call in executable.calls if call.messages}) == 2
    assert all(call.messages for call in executable.calls)


def test_compilation_can_be_aborted_before_the_first_kernel(opencl: DeviceContext) -> None:
    places: list[str] = []

    def compile_until(last: int) -> None:
        def require_wanted(where: str) -> None:
            places.append(where)
            if len(places) > last:
                raise Cancelled(where)

        compile_model(
            random_model(1),
            {},
            opencl.facts,
            precision=Precision.F32,
            choose=lambda kernels, pairs: [sources[0] for sources in kernels],
            is_fused=False,
            require_wanted=require_wanted,
        )

    compile_until(1000)
    count = len(places)
    assert len([where for where in places if "kernel 1 of" in where]) == 1
    for last in range(count):
        places.clear()
        with pytest.raises(Cancelled):
            compile_until(last)
        assert len(places) == last + 1


def test_a_cancelled_preparation_ends(opencl: DeviceContext) -> None:
    device = OpenClDevice(opencl.facts)
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(Cancelled):
        device.prepare_model(random_model(2), PrepareOptions(cancellation=cancellation))
