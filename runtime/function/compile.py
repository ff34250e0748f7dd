"""`neurald.compile`: loads and compiles a model in one call."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from neurald.hal.api_arguments import flag, instance, items, mapping, shown
from neurald.hal.device import Device
from neurald.hal.errors import BadData, WrongType
from neurald.hal.model.model import Model
from neurald.hal.records import replace
from neurald.runtime.compilation import Compilation
from neurald.runtime.compilation_builder import CompilationBuilder
from neurald.runtime.function.compiled_function import CompiledFunction, function_name
from neurald.runtime.function.kept_values import with_outputs
from neurald.runtime.function.signature_table import SignatureTable
from neurald.runtime.model.finished import finished_model
from neurald.runtime.plan.startup import Startup
from neurald.runtime.tflite import load_tflite
from neurald.runtime.tflite.file.content import read_advice

_FILE_TYPES: Final = (str, os.PathLike, bytes, bytearray, memoryview)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """The arguments of `compile`, see there."""

    source: Any
    devices: tuple[str | Device, ...] | None = None
    threads: int | None = None
    startup: Startup | None = None
    signature: str | None = None
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    keep: tuple[str, ...] = ()
    convert: bool = False
    receipts: bool = False


def compile(  # noqa: A001 - the name users expect; `neurald.compile` hides nothing
    model: str | os.PathLike[str] | bytes | bytearray | memoryview | Model,
    device: str | Device | Sequence[str | Device] | None = None,
    threads: int | None = None,
    *,
    startup: Startup | None = None,
    signature: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    keep: Sequence[str] = (),
    convert: bool = False,
    receipts: bool = False,
) -> CompiledFunction:
    """Loads and compiles a model, and returns it as a function.

        classify = nd.compile("digits.tflite")
        (scores,) = classify(image)

    Args:
        model: the path of a `.tflite` file, the bytes of one, or a finished model.
        device: a device or its name, or several, the only ones that may be used; None to choose
            among all.
        threads: number of CPU threads of one call; None to let the driver choose.
        startup: whether to wait for optimised code, see `CompilationBuilder.set_startup`.
        signature: the entry point of the file; None for its first subgraph.
        shapes: shapes of inputs by name, other than those in the file. Ranks may change, too.
        keep: names of values inside of the model that become further outputs.
        convert: converts inputs to the types of the model, quantises real numbers for quantised
            inputs, and returns quantised outputs as real numbers.
        receipts: keeps a receipt of every call, see `CompiledFunction.last_receipt`.

    Raises:
        MissingFile: there is no such file; this is a BadData and a FileNotFoundError.
        BadData: the file cannot be read or compiled, or an argument is wrong.
        WrongType: an argument is of another type; this is a BadData and a TypeError.
        UnavailableDevice: there is no device of that name.
        Error: a device that was named failed.
    """
    request = _Request(
        source=model,
        devices=None if device is None else _several(device),
        threads=threads,
        startup=startup,
        signature=None if signature is None else instance(signature, str, "the signature"),
        shapes=_shapes(shapes),
        keep=_names(keep),
        convert=flag(convert, "convert"),
        receipts=flag(receipts, "receipts"),
    )
    return _compiled(request, None)


def _compiled(request: _Request, shared: Compilation | None) -> CompiledFunction:
    """Compiles what is asked for, and shares variables with another compilation, if any."""
    model = with_outputs(_loaded(request), request.keep)
    builder = CompilationBuilder(model, request.devices, request.threads)
    if request.startup is not None:
        builder.set_startup(request.startup)
    if shared is not None:
        builder.share_state(shared)
    compilation = builder.finish()
    table = SignatureTable(
        tuple(model.signatures),
        lambda name: _compiled(replace(request, signature=name, shapes={}, keep=()), compilation),
    )
    name = function_name(request.source)
    if request.signature is not None:
        name += f", signature {request.signature}"
    return CompiledFunction(
        compilation,
        table,
        name,
        converts=request.convert,
        keeps_receipts=request.receipts,
        recipe=_recipe(request),
    )


def _loaded(request: _Request) -> Model:
    source = request.source
    if isinstance(source, _FILE_TYPES):
        return load_tflite(source, request.signature, shapes=request.shapes)
    if not isinstance(source, Model) and not hasattr(source, "finish"):
        raise WrongType(
            f"the model is {shown(source)}; the path or the bytes of a .tflite file, or a Model, are expected"
            f"{read_advice(source)}"
        )
    model = finished_model(source)
    if request.signature is not None or request.shapes:
        raise BadData("a signature or shapes can be chosen for a file only; the model is finished already")
    return model


def _several(device: str | Device | Sequence[str | Device]) -> tuple[str | Device, ...]:
    if isinstance(device, str | bytes | bytearray) or not isinstance(device, Sequence):
        return (device,)  # Other objects are refused later.
    return tuple(device)


def _shapes(shapes: Mapping[str, Sequence[int]] | None) -> Mapping[str, Sequence[int]]:
    expected = "a mapping from names of inputs to shapes"
    return {} if shapes is None else dict(mapping(shapes, "shapes", expected))


def _names(keep: Sequence[str]) -> tuple[str, ...]:
    """Returns names after checking them.

    Raises:
        WrongType: they are not a list of names.
    """
    return tuple(instance(each, str, "a name in keep") for each in items(keep, "keep", "a list of names"))


def _recipe(request: _Request) -> tuple[Any, tuple[Any, ...]] | None:
    """Returns a function and its arguments that compile the same in another process."""
    source = request.source
    if isinstance(source, bytearray | memoryview):
        source = bytes(source)
    has_devices = any(not isinstance(each, str) for each in request.devices or ())
    if has_devices:
        return None
    if isinstance(source, str | os.PathLike):
        source = os.path.abspath(source)  # noqa: PTH100 - of text or any path-like object
    elif not isinstance(source, bytes):
        source = finished_model(source)
    return _unpickled, (replace(request, source=source),)


def _unpickled(request: _Request) -> CompiledFunction:
    return _compiled(request, None)
