"""Drivers that prepare another model than the given one, or confuse models in their caches."""

import time
from collections.abc import Callable, Mapping

import numpy as np
from support.devices.faulty import FaultyPrepared
from support.devices.unrecorded import SampleDevice

from neurald.hal.device import Artifact, Device, PreparedModel, PrepareOptions
from neurald.hal.errors import Error
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.quantization import QUANTIZED
from neurald.hal.model.types import Lifetime
from neurald.hal.records import replace
from neurald.hal.validation.shape_inference import bind_operations


class Miscompiling(SampleDevice):
    """Prepares the model after `change` of each operand, with the name of its parameter."""

    def __init__(self, change: Callable[[str, Operand, Mapping[str, Operand]], Operand]) -> None:
        super().__init__("faulty")
        self._change = change

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        operands = list(model.main.operands)
        for binding in bind_operations(model.main):
            named = {name: operands[indexes[0]] for name, indexes in binding.inputs.items()}
            named |= {name: operands[indexes[0]] for name, indexes in binding.outputs.items()}
            for name, indexes in (*binding.inputs.items(), *binding.outputs.items()):
                for index in indexes:
                    operands[index] = self._change(name, operands[index], named)
        changed = replace(model, main=replace(model.main, operands=tuple(operands)))
        return super().prepare_model(changed, options)


def _number(operand: Operand) -> int | None:
    is_number = operand.lifetime is Lifetime.CONSTANT_COPY and not operand.type.is_tensor
    return int(np.frombuffer(operand.value, operand.type.dtype)[0]) if is_number else None


def _as(operand: Operand, number: int) -> Operand:
    return replace(operand, value=np.asarray(number, operand.type.dtype).tobytes())


def replacing(parameter: str, old: int | None, new: int) -> Callable[[], Device]:
    """Returns a driver that replaces the value `old` of a parameter by `new`.

    None replaces any value.
    """

    def change(name: str, operand: Operand, named: Mapping[str, Operand]) -> Operand:
        number = _number(operand) if name == parameter else None
        return _as(operand, new) if number is not None and old in (None, number) else operand

    return lambda: Miscompiling(change)


def negative_axis(name: str, operand: Operand, named: Mapping[str, Operand]) -> Operand:
    """Takes the first axis for negative ones, other than the last."""
    number = _number(operand) if name == "axis" else None
    return _as(operand, 0) if number is not None and number < -1 else operand


def equal_padding(name: str, operand: Operand, named: Mapping[str, Operand]) -> Operand:
    """Splits padding evenly between the sides."""
    sides = {"padding_left": "padding_right", "padding_right": "padding_left"}
    if name not in sides or sides[name] not in named:
        return operand
    one, other = _number(named[name]), _number(named[sides[name]])
    if one is None or other is None:
        return operand
    total = one + other
    return _as(operand, total // 2 if name == "padding_left" else total - total // 2)


def first_channel_scale(name: str, operand: Operand, named: Mapping[str, Operand]) -> Operand:
    """Uses the scale of the first channel for all."""
    quant = operand.channel_quant
    if quant is None:
        return operand
    return replace(operand, channel_quant=replace(quant, scales=quant.scales[:1] * len(quant.scales)))


def unsigned_zero(name: str, operand: Operand, named: Mapping[str, Operand]) -> Operand:
    """Uses the zero point of the first input for the output."""
    if not name.startswith("output") or operand.type not in QUANTIZED:
        return operand
    first = named.get("input1") or named.get("input") or operand
    return replace(operand, zero_point=first.zero_point)


class Colliding(SampleDevice):
    """Reuses prepared models with an incomplete key.

    Args:
        without: what the key lacks: names of parameters, or "scale", "zero_point", "constants".
    """

    def __init__(self, *without: str) -> None:
        super().__init__("faulty")
        self._without = without
        self._known: dict[object, PreparedModel] = {}

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        key = self._key(model), bool(options.cache_key)
        if key not in self._known:
            self._known[key] = super().prepare_model(model, options)
        return self._known[key]

    def _key(self, model: Model) -> object:
        graph = model.main
        names = {
            index: name
            for binding in bind_operations(graph)
            for name, indexes in binding.inputs.items()
            for index in indexes
        }
        found: list[object] = [operation.type for operation in graph.operations]
        for index, operand in enumerate(graph.operands):
            if names.get(index) in self._without:
                continue
            found += [operand.type, operand.dimensions, operand.lifetime, operand.channel_quant]
            for name in ("scale", "zero_point"):
                if name not in self._without:
                    found.append(getattr(operand, name))
            value = model.constant(operand)
            if value is not None and ("constants" not in self._without or not operand.type.is_tensor):
                found.append(value.tobytes())
        return tuple(found), graph.inputs, graph.outputs, model.relaxed


class CollidingArtifacts(SampleDevice):
    """Identifies artifacts by the sizes of their files."""

    def __init__(self) -> None:
        super().__init__("faulty")
        self._read: dict[object, PreparedModel] = {}

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        key = [memory.size for memory in (*artifact.model, *artifact.data)].__repr__()
        if key not in self._read:
            self._read[key] = super().prepare_model_from_cache(artifact, options)
        return self._read[key]


class Crashing(SampleDevice):
    """Raises the parser's own errors for damaged cache files."""

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        try:
            return super().prepare_model_from_cache(artifact, options)
        except Error as error:
            raise IndexError(str(error)) from None


class Trusting(SampleDevice):
    """Uses the previous content for truncated cache files."""

    _last: PreparedModel | None = None

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        try:
            prepared = super().prepare_model_from_cache(artifact, options)
        except Error:
            if self._last is None:
                raise
            return self._last
        self._last = prepared
        return prepared


class _Artifacts(FaultyPrepared):
    def __init__(self, right: PreparedModel, change: Callable[[Artifact], Artifact]) -> None:
        super().__init__(right, lambda right, request, options: right.execute(request, options))
        self._change = change

    def artifact(self) -> Artifact | None:
        found = super().artifact()
        return None if found is None else self._change(found)


def _varying(artifact: Artifact) -> Artifact:
    stamp = time.monotonic_ns().to_bytes(8, "little")
    return replace(artifact, data=(HostMemory(bytes(artifact.data[0].view()) + stamp),))


class Varying(SampleDevice):
    """Its artifacts contain the time."""

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        return _Artifacts(prepared, _varying)

    def prepare_model_from_cache(self, artifact: Artifact, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        content = bytes(artifact.data[0].view())[:-8]
        return self.wrap(
            super().prepare_model_from_cache(replace(artifact, data=(HostMemory(content),)), options)
        )
