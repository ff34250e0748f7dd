"""A model that a worker has loaded, compiled and warmed up."""

import mmap
import os
import stat
from typing import Final

import msgspec
import numpy as np

import neurald as nd
from neurald.hal.errors import BadData, Error, UnavailableDevice
from neurald.hal.lanes.opening import TensorDescription
from neurald.hal.lanes.packets import kind_of
from neurald.hal.model.types import DeviceType
from neurald.hal.records import replace
from neurald.hal.sync.deadline import deadline_in
from neurald.runtime.compilation import Compilation
from neurald.runtime.devices.on_demand import OnDemandDevice
from neurald.runtime.function.tensor_info import TensorInfo, inputs_of, outputs_of
from neurald.service.inference.worker.native_lanes import NativeLanes
from neurald.service.inference.worker.orders import (
    LoadOrder,
    ModelDescription,
    ModelHealth,
    Warmup,
)
from neurald.service.inference.worker.sized_runs import Array, Shape, SizedRuns

#: The largest file of a model.
MAX_MODEL_BYTES: Final = 2 << 30
_MAX_WARMUPS: Final = 1000
#: How long one attempt to connect to a driver may take.
_REVIVAL_S: Final = 5.0
_TYPES: Final = {"cpu": DeviceType.CPU, "gpu": DeviceType.GPU}


class LoadedModel:
    """Compiles a model for the devices that an order names, and runs its warm-up.

    Args:
        descriptor: the descriptor of the model's file, which is not trusted.
        order: how to load it.

    Attributes:
        name: the name of the model.
        compilation: the compiled model.
        description: what the front end tells clients.
        native_lanes: what lanes share that native code serves.

    Raises:
        BadData: the file is not a valid model, cannot be served, or its warm-up does not fit it.
        Error: a device that was named is missing or failed.
    """

    def __init__(self, descriptor: int, order: LoadOrder) -> None:
        self.name = order.name
        self._loop_timeout_s = order.loop_timeout_s
        #: Why a driver takes no work, although its session exists; empty if it does.
        self._hanging = ""
        self.native_lanes = NativeLanes()
        content = _mapped(descriptor)
        model = nd.load_tflite(content, order.signature or None)
        singles = outputs_of(model)
        if order.is_batched:
            shapes = {info.name: _open_batch(info) for info in inputs_of(model)}
            model = nd.load_tflite(content, order.signature or None, shapes=shapes)
        builder = nd.CompilationBuilder(model, _devices(order), order.threads or None)
        builder.set_startup(nd.Startup(order.startup))
        self.compilation: Compilation = builder.finish()
        self._inputs = inputs_of(model)
        outputs = outputs_of(model)
        steps = self.compilation.plan.steps
        self.description = ModelDescription(
            inputs=tuple(map(_described, self._inputs)),
            outputs=tuple(map(_described, _batched(outputs, singles) if order.is_batched else outputs)),
            devices=tuple(step.device.name for step in steps),
            drivers=tuple(step.device.version for step in steps),
        )
        runs = self.create_runs()
        if order.is_batched:
            self._check_batch(runs)
        if order.joins_requests:
            self._require_independent_entries(runs)
        for warmup in order.warmups:
            self._warm_up(runs, warmup, is_batched=order.is_batched)

    def create_runs(self) -> SizedRuns:
        """Returns what executes the model, as its configuration says, in one thread."""
        return SizedRuns(self.compilation, self._loop_timeout_s)

    @property
    def tolerates_changing_inputs(self) -> bool:
        """True if a run stays inside its memories whatever another process writes to its inputs.

        False while a first tier runs, which optimised code may replace between the question and the
        run.
        """
        steps = self.compilation.plan.steps
        if len(steps) != 1 or steps[0].device.is_remote:
            return False
        step = self.compilation.recovery.step(steps[0])
        prepared = None if step.has_first_tier else step.usable()
        return prepared is not None and prepared.tolerates_changing_inputs

    @property
    def is_substituted(self) -> bool:
        """True if the CPU runs a step now that another device was chosen for."""
        return bool(self.compilation.recovery.fallbacks)

    def explained(self, title: str) -> bytes:
        """Returns the document of the page that explains the model; see `page_document`."""
        from neurald.runtime.explain.html import page_document

        return msgspec.json.encode(page_document(self.compilation.explain(), title))

    def health(self) -> ModelHealth:
        """Returns whether the model can run now, as far as is known without calling its drivers.

        A model for automatic devices can, as long as the CPU takes over from those that failed.
        """
        if not self.compilation.has_explicit_devices:
            return ModelHealth(is_ready=True)
        for step in self.compilation.plan.steps:
            device = step.device
            if device.is_remote and not getattr(device, "is_alive", True):
                return ModelHealth(is_ready=False, reason=f"the driver of {device.name} is not running")
        return ModelHealth(is_ready=not self._hanging, reason=self._hanging)

    def examine(self, within_s: float) -> ModelHealth:
        """Asks drivers whether they take work, and returns whether the model can be run now.

        Args:
            within_s: how long each driver has to answer.
        """
        hanging = ""
        for device in {id(step.device): step.device for step in self.compilation.plan.steps}.values():
            require_ready = getattr(device, "require_ready", None)
            if require_ready is None or not getattr(device, "is_alive", True):
                continue
            try:
                require_ready(within_s)
            except Error as error:
                hanging = f"the driver of {device.name} does not take work: {error}"
        self._hanging = hanging
        return self.health()

    def revive(self) -> None:
        """Connects to drivers that have died, as soon as they run again.

        Raises:
            Error: one does not run yet.
        """
        for step in self.compilation.plan.steps:
            device = step.device
            if not device.is_remote or getattr(device, "is_alive", True):
                continue
            if isinstance(device, OnDemandDevice):
                device.status()
            elif (reconnect := getattr(device, "reconnect", None)) is not None:
                reconnect(deadline_in(_REVIVAL_S), at_once=True)

    def _check_batch(self, runs: SizedRuns) -> None:
        """Runs a batch of two, and requires that each output has two entries.

        Open lengths are 1. A model that takes no such lengths is not checked.
        """
        try:
            results = self._run_batch(runs, 2)
        except BadData as error:
            if any(info.shape is None or None in info.shape[1:] for info in self._inputs):
                try:
                    self._run_batch(runs, 1)
                except Error:
                    return
            raise BadData(
                f"the model cannot be served in batches, so set max_batch_size to 0: {error}"
            ) from None
        for info, array in zip(self.description.outputs, results, strict=True):
            if not array.shape or array.shape[0] != 2:
                raise BadData(
                    f"the output {info.name} of a batch of 2 has the shape {list(array.shape)}, so the model "
                    "cannot be served in batches; set max_batch_size to 0"
                )

    def _run_batch(self, runs: SizedRuns, entries: int) -> list[Array]:
        return runs.compute(self._batch(entries, None))

    def _batch(self, entries: int, random: np.random.Generator | None) -> list[Array]:
        """Returns inputs of a batch, whose open lengths are 1; see `_warm_input`."""
        shapes = [(entries, *(length or 1 for length in (info.shape or ())[1:])) for info in self._inputs]
        return [_warm_input(info, shape, random) for info, shape in zip(self._inputs, shapes, strict=True)]

    def _require_independent_entries(self, runs: SizedRuns) -> None:
        """Requires that an entry of a batch of two has the same outputs beside other entries.

        Runs batches of random values of one shape, so that equal means equal bits. A model that
        takes no such values, has variables or gives other results for the same inputs is not
        checked.

        Raises:
            BadData: entries influence each other, so that requests must not be run as one batch.
        """
        if self.compilation.model.state:
            return
        batch = self._batch(2, np.random.default_rng(0))
        try:
            expected = runs.compute(batch)
            for entry in range(2):
                # Each entry is run once more beside another one.
                mixed = [_other_values(each) for each in batch]
                for array, each in zip(mixed, batch, strict=True):
                    array[entry] = each[entry]
                found = runs.compute(mixed)
                differing = [
                    number
                    for number, (alone, beside) in enumerate(zip(expected, found, strict=True))
                    if not _same_bits(alone[entry : entry + 1], beside[entry : entry + 1])
                ]
                # Models may compute random numbers, and optimised code may have replaced the first.
                if (
                    differing
                    and all(map(_same_bits, runs.compute(batch), expected))
                    and all(map(_same_bits, runs.compute(mixed), found))
                ):
                    raise _Dependent(self.description.outputs[differing[0]].name)
        except _Dependent as error:
            raise BadData(
                f"the output {error} of an entry of a batch depends on the other entries, so requests cannot "
                "be run as one batch: remove dynamic_batching, or set max_batch_size to 0"
            ) from None
        except Error:
            return

    def _warm_up(self, runs: SizedRuns, warmup: Warmup, *, is_batched: bool) -> None:
        known = {info.name for info in self._inputs}
        if unknown := warmup.shapes.keys() - known:
            raise BadData(f"the warm-up has the input {sorted(unknown)[0]!r}, which the model has not")
        if not 1 <= warmup.count <= _MAX_WARMUPS:
            raise BadData(f"the warm-up is run {warmup.count} times; 1 to {_MAX_WARMUPS} are expected")
        random = np.random.default_rng(0)
        arrays: list[Array] = []
        for info in self._inputs:
            shape = warmup.shapes.get(info.name)
            if shape is None:
                if info.shape is None:
                    raise BadData(f"the warm-up needs dims for the input {info.name}, whose rank is open")
                shape = tuple(length or 1 for length in info.shape[1 if is_batched else 0 :])
            if is_batched:
                shape = (warmup.batch or 1, *shape)
            arrays.append(_warm_input(info, shape, random if warmup.is_random else None))
        for _ in range(warmup.count):
            runs.compute(arrays)


def _mapped(descriptor: int) -> memoryview:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise BadData("the model is not a regular file")
    if not 0 < status.st_size <= MAX_MODEL_BYTES:
        raise BadData(f"the model has {status.st_size} bytes; 1 to {MAX_MODEL_BYTES} are expected")
    return memoryview(mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ))


def _open_batch(info: TensorInfo) -> tuple[int, ...]:
    if not info.shape:
        raise BadData(
            f"the input {info.name} has no dimension for a batch; set max_batch_size to 0 for this model"
        )
    return (0, *(length or 0 for length in info.shape[1:]))


def _batched(outputs: tuple[TensorInfo, ...], singles: tuple[TensorInfo, ...]) -> list[TensorInfo]:
    """Completes the shapes of the outputs of batches by those of the model as it is in the file.

    Raises:
        BadData: an output has no dimension for a batch.
    """
    result: list[TensorInfo] = []
    for info, single in zip(outputs, singles, strict=True):
        shape = single.shape
        if info.shape is not None and shape is not None and len(shape) != len(info.shape):
            shape = info.shape
        if shape is not None and not shape:
            raise BadData(
                f"the output {info.name} has no dimension for a batch; set max_batch_size to 0 for this model"
            )
        result.append(replace(info, shape=None if shape is None else (None, *shape[1:])))
    return result


def _devices(order: LoadOrder) -> list[nd.Device] | None:
    if not order.devices and not order.device_type:
        return None
    found = nd.devices()
    if order.device_type:
        wanted = _TYPES[order.device_type]
        found = tuple(device for device in found if device.type is wanted)
        if not found and not order.devices:
            raise UnavailableDevice(f"there is no device of the type {wanted.name}")
    if not order.devices:
        return list(found)
    by_name = {device.name: device for device in found}
    by_short_name = {device.name.partition("@")[0]: device for device in found}
    chosen: list[nd.Device] = []
    for name in order.devices:
        device = by_name.get(name) or by_short_name.get(name)
        if device is None:
            raise UnavailableDevice(f"there is no device {name!r}; there are: {', '.join(sorted(by_name))}")
        chosen.append(device)
    return chosen


def _described(info: TensorInfo) -> TensorDescription:
    shape = None if info.shape is None else tuple(-1 if each is None else each for each in info.shape)
    return TensorDescription(
        name=info.name,
        kind=kind_of(info.dtype),
        shape=shape,
        scale=info.scale,
        zero_point=info.zero_point,
    )


class _Dependent(Exception):
    """Names an output whose entries depend on each other."""


def _other_values(array: Array) -> Array:
    """Returns other values that are as likely to be valid for an input."""
    if array.dtype.hasobject:
        return np.array([b"%d" % (int(each) ^ 1) for each in array.flat], object).reshape(array.shape)
    return np.asarray(1 - array if array.dtype.kind in "fciu" else ~array)


def _same_bits(first: Array, second: Array) -> bool:
    """Returns whether two arrays have the same shape and, NaN included, the same elements."""
    if first.dtype.hasobject or first.shape != second.shape:
        return bool(first.shape == second.shape and first.tolist() == second.tolist())
    return first.tobytes() == second.tobytes()


def _warm_input(info: TensorInfo, shape: Shape, random: np.random.Generator | None) -> Array:
    """Returns an input of zeros or random values; strings are empty, or random digits."""
    if info.dtype.hasobject and random is not None:
        return random.integers(0, 10, shape).astype("S1").astype(object)
    if info.dtype.hasobject:
        strings = np.empty(shape, object)
        strings.fill(b"")
        return strings
    if random is None:
        return np.zeros(shape, info.dtype)
    if info.dtype.kind == "f":
        return random.random(shape).astype(info.dtype)
    # Integers are often indices, for which 0 and 1 are valid in most models.
    return random.integers(0, 2, shape).astype(info.dtype)
