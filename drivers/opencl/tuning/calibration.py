"""Measures the OpenCL device's performance relative to the CPU device with small models.

The results are cached. It happens in daemons before they serve, and when a user calibrates devices;
elsewhere a device without cached results has an estimate. The benchmark is a small image network
(two convolutions with a depthwise one between them) in each relevant type, run on both devices with
inputs and outputs in host memory. OpenCL reports no power figures, so power is assumed proportional
to time.
"""

import hashlib
import logging
import statistics
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np

from neurald.hal.cache.file import read_small, write_small
from neurald.hal.decoding import from_json
from neurald.hal.device import Capabilities, Device, ExecuteOptions, Performance, PrepareOptions
from neurald.hal.errors import BadData, Error
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import DeviceType, Lifetime, OperandType, Preference
from neurald.hal.process.files.user_directories import cache_directory
from neurald.hal.process.fork import forkable_lock
from neurald.hal.records import DECODE_ERRORS
from neurald.hal.registry import create_device

_LOG = logging.getLogger(__name__)

_RUNS = 5
_SIZE, _DEPTH = 56, 32
#: Relative time of a device that cannot run the benchmark.
_USELESS = 1e6
#: Relative times of devices that were not measured: OpenCL on a processor is slower than the CPU
#: device, and GPUs of a desktop computer are some times as fast on networks of images.
_CPU_ESTIMATE = 3.0
_GPU_ESTIMATE = 0.3

_MAX_FILE_BYTES = 1 << 12
_lock = forkable_lock()


class _Figures(msgspec.Struct, frozen=True):
    """Times relative to the CPU device."""

    float32: float
    relaxed: float
    float16: float
    quant8: float


def calibrated(device: Device) -> Capabilities:
    """Returns the capabilities of a device.

    They are measured once per version of it and of the CPU device.
    """
    with _lock:
        cpu = create_device("cpu")
        path = _path(device, cpu)
        figures = _read(path)
        if figures is None:
            figures = _measured(device, cpu)
            _write(path, figures)
    return _capabilities(figures)


def known(device: Device) -> Capabilities | None:
    """Returns the capabilities of a device if they were measured before."""
    figures = _read(_path(device, create_device("cpu")))
    return None if figures is None else _capabilities(figures)


def estimated(kind: DeviceType) -> Capabilities:
    """Returns what the capabilities of a kind of device usually are."""
    ratio = _CPU_ESTIMATE if kind is DeviceType.CPU else _GPU_ESTIMATE
    return _capabilities(_Figures(float32=ratio, relaxed=ratio, float16=ratio, quant8=ratio))


def _path(device: Device, cpu: Device) -> Path:
    key = hashlib.sha256(f"{device.version}\0{cpu.version}".encode()).hexdigest()[:32]
    return cache_directory() / "calibration" / f"{key}.json"


def _read(path: Path) -> _Figures | None:
    try:
        figures = from_json(read_small(path, _MAX_FILE_BYTES), _Figures)
    except (BadData, OSError, *DECODE_ERRORS):
        return None
    is_sound = all(0 < getattr(figures, name) <= _USELESS for name in _Figures.__struct_fields__)
    return figures if is_sound else None


def _write(path: Path, figures: _Figures) -> None:
    """Caches the figures if possible, atomically."""
    try:
        write_small(path, msgspec.json.encode(figures))
    except (BadData, OSError) as error:
        _LOG.info("the calibration cannot be cached: %s", error)


def _measured(device: Device, cpu: Device) -> _Figures:
    started = time.monotonic()
    figures = _Figures(
        float32=_ratio(device, cpu, _model(OperandType.TENSOR_FLOAT32)),
        relaxed=_ratio(device, cpu, _model(OperandType.TENSOR_FLOAT32, relaxed=True)),
        float16=_ratio(device, cpu, _model(OperandType.TENSOR_FLOAT16)),
        quant8=_ratio(device, cpu, _model(OperandType.TENSOR_QUANT8_ASYMM_SIGNED)),
    )
    _LOG.info("calibrated %s in %.1f s: %s", device.name, time.monotonic() - started, figures)
    return figures


def _ratio(device: Device, cpu: Device, model: Model) -> float:
    try:
        return min(_USELESS, max(1e-6, _time_s(device, model) / _time_s(cpu, model)))
    except Error as error:
        _LOG.warning("%s cannot run the calibration model: %s", device.name, error)
        return _USELESS


def _time_s(device: Device, model: Model) -> float:
    """Returns the median time of a run."""
    prepared = device.prepare_model(model, PrepareOptions(preference=Preference.LOW_POWER))
    main = model.main
    pools: list[HostMemory] = []
    arguments = []
    for index in (*main.inputs, *main.outputs):
        operand = main.operands[index]
        array = np.zeros(operand.dimensions or (), operand.type.dtype)
        arguments.append(Argument(pool=len(pools), offset=0, length=array.nbytes))
        pools.append(HostMemory(array))
    request = Request(inputs=(arguments[0],), outputs=(arguments[1],), pools=tuple(pools))
    prepared.execute(request, ExecuteOptions())
    times = []
    for _ in range(_RUNS):
        started = time.perf_counter()
        prepared.execute(request, ExecuteOptions())
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def _model(kind: OperandType, *, relaxed: bool = False) -> Model:
    """Creates two pointwise convolutions with a depthwise one between them."""
    is_quantized = kind is OperandType.TENSOR_QUANT8_ASYMM_SIGNED
    image = (1, _SIZE, _SIZE, _DEPTH)
    operands: list[Operand] = []

    def add(operand: Operand) -> int:
        operands.append(operand)
        return len(operands) - 1

    def data(lifetime: Lifetime) -> int:
        scale = 0.1 if is_quantized else 0.0
        return add(Operand(type=kind, dimensions=image, scale=scale, lifetime=lifetime))

    def constant(shape: tuple[int, ...], *, is_bias: bool = False) -> int:
        bias = OperandType.TENSOR_INT32 if is_quantized else kind
        of = bias if is_bias else kind
        scale = (0.001 if is_bias else 0.01) if is_quantized else 0.0
        value = np.full(shape, 1, of.dtype).tobytes()
        return add(
            Operand(type=of, dimensions=shape, scale=scale, lifetime=Lifetime.CONSTANT_COPY, value=value)
        )

    def number(value: int) -> int:
        raw = np.int32(value).tobytes()
        return add(Operand(type=OperandType.INT32, lifetime=Lifetime.CONSTANT_COPY, value=raw))

    same, one, none = number(1), number(1), number(0)
    values = [
        data(Lifetime.SUBGRAPH_INPUT),
        data(Lifetime.TEMPORARY_VARIABLE),
        data(Lifetime.TEMPORARY_VARIABLE),
        data(Lifetime.SUBGRAPH_OUTPUT),
    ]
    operations = []
    for position, (source, target) in enumerate(pairwise(values)):
        extra: tuple[int, ...]
        if position == 1:
            filter_, extra = constant((1, 3, 3, _DEPTH)), (one,)
        else:
            filter_, extra = constant((_DEPTH, 1, 1, _DEPTH)), ()
        operations.append(
            Operation(
                type=OperationType.DEPTHWISE_CONV_2D if extra else OperationType.CONV_2D,
                inputs=(source, filter_, constant((_DEPTH,), is_bias=True), same, one, one, *extra, none),
                outputs=(target,),
            )
        )
    main = Subgraph(
        operands=tuple(operands),
        operations=tuple(operations),
        inputs=(values[0],),
        outputs=(values[-1],),
    )
    return Model(main=main, relaxed=relaxed)


def _capabilities(figures: _Figures) -> Capabilities:
    def performance(ratio: float) -> Performance:
        return Performance(exec_time=ratio, power_usage=ratio)

    by_type: Mapping[OperandType, float] = {
        OperandType.FLOAT16: figures.float16,
        OperandType.TENSOR_FLOAT16: figures.float16,
        OperandType.TENSOR_QUANT8_ASYMM: figures.quant8,
        OperandType.TENSOR_QUANT8_ASYMM_SIGNED: figures.quant8,
        OperandType.TENSOR_QUANT8_SYMM: figures.quant8,
        OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL: figures.quant8,
    }
    return Capabilities(
        operand_performance={kind: performance(by_type.get(kind, figures.float32)) for kind in OperandType},
        relaxed_float32_scalar=performance(figures.relaxed),
        relaxed_float32_tensor=performance(figures.relaxed),
        # The runtime executes control flow.
        if_performance=performance(_USELESS),
        while_performance=performance(_USELESS),
    )
