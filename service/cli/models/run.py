"""The command `neurald run`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand

from neurald.service.cli.options.completion import model_files, startup_names
from neurald.service.cli.options.devices import DevicesOption, RequireOption
from neurald.service.cli.options.media import (
    AudioOption,
    ImageOption,
    LabelsOption,
    MeanOption,
    RateOption,
    StdOption,
    TopOption,
)
from neurald.service.cli.options.model import ShapeOption, SignatureOption, ThreadsOption
from neurald.service.cli.options.output import JsonOption

if TYPE_CHECKING:
    import neurald as nd

#: Boxes of lower scores are hardly those of anything.
_MIN_SCORE = 0.1

#: Number of classes that are shown by default.
_CLASSES: Final = 5

#: The options for files other than photos, by the ends of their names.
_OPTIONS: Final = {".wav": "--audio", ".npz": "--inputs", ".txt": "--labels"}


class RunCommand(TyperCommand):
    """Names the option for a file that is given after the model."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the command line."""
        ctx.allow_extra_args = True
        rest: list[str] = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            option = _OPTIONS.get(Path(rest[0]).suffix.lower(), "--image")
            ctx.fail(f"Got unexpected argument {rest[0]!r} after the model. Is {option} meant before it?")
        return rest


def run(
    model: Annotated[
        Path,
        typer.Argument(
            autocompletion=model_files,
            metavar="MODEL",
            help="A .tflite file, or a plan file of `neurald compile`.",
            show_default=False,
        ),
    ],
    image: ImageOption = None,
    audio: AudioOption = None,
    rate: RateOption = None,
    labels: LabelsOption = None,
    top: TopOption = None,
    mean: MeanOption = None,
    std: StdOption = None,
    inputs: Annotated[
        Path | None,
        typer.Option(metavar="IN.npz", help="Inputs by tensor name, or by position (input_0, input_1, …)."),
    ] = None,
    outputs: Annotated[
        Path | None, typer.Option(metavar="OUT.npz", help="Write the outputs to this file, by tensor name.")
    ] = None,
    signature: SignatureOption = None,
    shape: ShapeOption = None,
    device: DevicesOption = None,
    threads: ThreadsOption = None,
    startup: Annotated[
        str | None,
        typer.Option(
            autocompletion=startup_names,
            metavar="instant|optimized",
            help="instant: run at once, before the model is compiled. optimized: compile it first. "
            "[default: optimized with --device, --require or --verify, else instant]",
        ),
    ] = None,
    require: RequireOption = None,
    trust: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Public keys by which a plan file may be signed, besides those trusted."
        ),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Run on the CPU device, too, and fail if the results differ."),
    ] = False,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a trace of loading, preparing and running to this file, for https://ui.perfetto.dev.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Runs a model once and shows the results."""
    given = [each for each in (image, audio, inputs) if each is not None]
    _require_one_kind_of_input(given, shape)
    if audio is None and rate is not None:
        raise typer.BadParameter("--rate needs --audio")
    if image is None and (mean is not None or std is not None):
        raise typer.BadParameter("--mean and --std need --image")
    if top is not None and image is audio is labels is None:
        raise typer.BadParameter("--top needs --image, --audio or --labels")
    from contextlib import nullcontext

    import neurald as nd
    from neurald.runtime.plan_files.container import is_plan_file
    from neurald.service.console.delegation import parse_requirements, require_devices
    from neurald.service.console.device_choice import describe_steps, fallback_messages, find_devices
    from neurald.service.console.members import member_of
    from neurald.service.console.output import note, status, write_json
    from neurald.service.console.output_files import require_writable
    from neurald.service.console.startup import preparing
    from neurald.service.console.verification import describe_verification, require_right
    from neurald.service.tensors.arrays import input_slots, output_slots, write_outputs
    from neurald.service.tensors.classification import read_labels
    from neurald.service.tensors.input_files import InputFiles, read_given
    from neurald.service.tensors.packed_labels import packed_labels
    from neurald.service.tensors.packed_normalization import packed_normalization
    from neurald.service.tensors.shapes import default_shape_remarks, parse_shapes

    # These checks are cheap, so they come before any work.
    names = None if labels is None else read_labels(labels)
    require_writable(outputs, trace)
    is_plan = is_plan_file(model)
    if is_plan and (signature is not None or threads is not None):
        raise typer.BadParameter(
            "a plan file has its signature and its threads; --signature and --threads do not apply"
        )
    if trust is not None and not is_plan:
        raise typer.BadParameter("--trust is for plan files, and the model is none")
    requirements = parse_requirements(require or ())
    devices = find_devices(device or ())
    if requirements:
        require_devices(requirements, devices or nd.devices())
    wanted = None if startup is None else member_of(nd.Startup, startup, "--startup")
    if wanted is None and (requirements or verify):
        # A first tier runs on the CPU device.
        wanted = nd.Startup.OPTIMIZED
    read = InputFiles(
        image=image,
        mean=mean,
        std=std,
        packed=None if image is None else packed_normalization(model),
        audio=audio,
        rate=rate,
        arrays=inputs,
    )
    tracing = nullcontext() if trace is None else nd.trace(trace)
    with tracing, preparing(model.name, quiet=json) as shown:
        if is_plan:
            compilation = nd.load_plan(
                model,
                devices,
                trust=trust,
                startup=wanted,
                sample=1.0 if verify else None,
            )
            loaded = compilation.model
            shapes = parse_shapes(shape or (), input_slots(loaded))
            source, arrays, remarks = read_given(loaded, read, shapes)
        else:
            loaded = nd.load_tflite(model, signature=signature)
            shapes = parse_shapes(shape or (), input_slots(loaded))
            source, arrays, remarks = read_given(loaded, read, shapes)
            builder = nd.CompilationBuilder(loaded, devices, threads)
            if wanted is not None:
                builder.set_startup(wanted)
            builder.set_verification(1.0 if verify else None)
            builder.set_progress_callback(shown.step)
            compilation = builder.finish()
        shown.close()
        with status(f"running {model.name}", quiet=json):
            results = compilation.run(*arrays)
    if not given and not json:
        note(f"inputs are {source}")
        for remark in default_shape_remarks(input_slots(loaded), shapes):
            note(remark)
    if outputs is not None:
        write_outputs(outputs, output_slots(loaded), results)

    steps, fallback = describe_steps(compilation), compilation.report.fallback
    document: dict[str, Any] = {"model": str(model), "inputs": source, "steps": steps, "fallback": fallback}
    for requirement in requirements:
        requirement.check(steps, compilation.explain())
    if verify:
        document["verification"] = describe_verification(compilation)
    document["outputs"] = [_summary(*pair) for pair in zip(output_slots(loaded), results, strict=True)]
    if outputs is not None:
        document["outputs_file"] = str(outputs)
    if image is not None or audio is not None or labels is not None:
        packed = packed_labels(model) if names is None else None
        guessed, more = _guesses(loaded, results, names, packed, top or _CLASSES)
        document |= guessed
        remarks += more
        document["remarks"] = remarks
    if json:
        write_json(document)
    else:
        for remark in [*fallback_messages(steps, fallback), *remarks]:
            note(remark)
        _show(document)
    if verify:
        require_right(document["verification"])


def _require_one_kind_of_input(given: Sequence[Path], shape: Sequence[str] | None) -> None:
    """Raises an error if files are given for several kinds of inputs."""
    if len(given) > 1:
        raise typer.BadParameter("--image, --audio and --inputs exclude each other")
    if shape and given:
        raise typer.BadParameter("--shape is for random inputs, and excludes --image, --audio and --inputs")


def _guesses(
    model: "nd.Model", results: Sequence[Any], names: list[str] | None, packed: list[str] | None, top: int
) -> tuple[dict[str, Any], list[str]]:
    """Returns what the model has found, or the most probable classes, by name, and remarks on them.

    Args:
        model, results, names, packed, top: see `_classes`.
    """
    found = _findings(model, results, names or packed, top)
    if not found:
        guesses, remarks = _classes(model, results, names, packed, top)
        return {} if guesses is None else {"top": guesses}, remarks
    remarks = []
    if "detector" in found:
        remarks.append(f"the boxes are decoded as those of {found['detector']}")
    if "detections" in found and not any(each["score"] >= _MIN_SCORE for each in found["detections"]):
        remarks.append(
            f"no box has a score of {100 * _MIN_SCORE:.0f} % or more: nothing of what the model knows is "
            "there, or it takes its pixels in another way, see --mean and --std"
        )
    return found, remarks


def _findings(model: "nd.Model", results: Sequence[Any], names: list[str] | None, top: int) -> dict[str, Any]:
    """Returns what was found by its name in the document; empty if nothing was."""
    from neurald.service.tensors.findings import (
        decode_detections,
        find_detections,
        find_keypoints,
        find_segments,
        find_transcript,
    )

    for name, found in (
        ("detections", find_detections(model, results, names, top)),
        ("keypoints", find_keypoints(model, results)),
        ("segments", find_segments(results, names, top)),
        ("transcript", find_transcript(results, names)),
    ):
        if found is not None:
            return {name: found}
    decoded = decode_detections(model, results, names, top)
    return {} if decoded is None else {"detections": decoded[1], "detector": decoded[0]}


def _classes(
    model: "nd.Model", results: Sequence[Any], names: list[str] | None, packed: list[str] | None, top: int
) -> tuple[list[dict[str, Any]] | None, list[str]]:
    """Returns the most probable classes, or None if there are none, and remarks on them.

    Args:
        model: the model.
        results: its outputs.
        names: labels that were given, which must fit.
        packed: labels in the model's file, which are only used if they fit.
        top: how many classes.
    """
    from neurald.hal.errors import BadData
    from neurald.service.tensors.classification import align_labels, best, class_output, class_scores
    from neurald.service.tensors.findings import image_size
    from neurald.service.tensors.raw_detections import KNOWN_KINDS, is_like_a_detector

    position = class_output(results)
    if position is None:
        shapes = ", ".join(str(list(result.shape)) for result in results)
        reason = f"the model is not a classifier: its outputs have the shapes {shapes}"
        if image_size(model) is not None and is_like_a_detector(results):
            reason += (
                f". They may be those of a detector of an unknown kind; known are {KNOWN_KINDS}. --outputs "
                "writes them to a file"
            )
        if names is not None:
            raise BadData(f"{reason}; --labels needs exactly one output with a score for each class")
        return None, [reason]
    scores = class_scores(model, position, results[position])
    remarks = [scores.remark]
    if names is None and packed is not None and abs(len(packed) - len(scores.values)) <= 1:
        names = packed
    if names is not None:
        names, remark = align_labels(names, len(scores.values))
        remarks.append(remark)
    guesses = [
        {"index": guess.index, "probability": guess.probability, "label": guess.label}
        for guess in best(scores, top, names)
    ]
    return guesses, [remark for remark in remarks if remark]


def _summary(slot: Any, array: Any) -> dict[str, Any]:
    """Summarises an output by its type, shape, minimum, maximum and mean.

    The last three are those of the dequantised values, or of the magnitudes of complex values. They
    are None for an empty output and for strings.
    """
    import numpy as np

    from neurald.hal.model.quantization import is_quantized
    from neurald.service.tensors.classification import real_values

    summary: dict[str, Any] = {"name": slot.key, "type": array.dtype.name, "shape": list(array.shape)}
    if is_quantized(slot.operand):
        summary |= {"scale": slot.operand.scale, "zero_point": slot.operand.zero_point}
    if array.dtype.kind == "O":
        return summary | {"type": "strings", "min": None, "max": None, "mean": None}
    # The mean is computed in 64 bits, so that it does not overflow for large numbers.
    values = real_values(array, slot.operand)
    values = np.asarray(np.abs(values) if values.dtype.kind == "c" else values, np.float64)
    for name, figure in (("min", np.min), ("max", np.max), ("mean", np.mean)):
        summary[name] = float(figure(values)) if values.size else None
    return summary


def _show(document: dict[str, Any]) -> None:
    from neurald.service.console.output import write_table
    from neurald.service.tensors.findings import finding_table

    table = finding_table(document)
    if table is not None:
        texts = [each for each in ("label", "keypoint", "transcript") if each in table[0]]
        write_table(*table, right=[each for each in table[0] if each not in texts], shorten=texts)
        return
    if "top" in document:
        columns = ["probability", "class", "label"]
        rows = [
            [f"{100 * guess['probability']:.2f} %", str(guess["index"]), guess["label"] or ""]
            for guess in document["top"]
        ]
        if all(guess["label"] is None for guess in document["top"]):
            columns, rows = columns[:2], [row[:2] for row in rows]
        write_table(columns, rows, right=columns[:2], shorten=columns[2:])
        return
    figures = ["min", "max", "mean"]
    rows = []
    for output in document["outputs"]:
        shape = "x".join(map(str, output["shape"])) or "scalar"
        numbers = ["-" if output[name] is None else f"{output[name]:.6g}" for name in figures]
        rows.append([output["name"], output["type"], shape, *numbers])
    write_table(["output", "type", "shape", *figures], rows, right=figures, shorten=["output"])
