"""The command `neurald benchmark`."""

from pathlib import Path
from typing import Annotated, Any

import typer


def benchmark(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A .tflite file.", show_default=False)],
    device: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Use this device only: a name from `neurald devices`, or the address of a daemon. May "
            "be repeated.",
        ),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Minimum number of measured runs.")] = 50,
    min_secs: Annotated[float, typer.Option(min=0, help="Minimum duration of the measurement.")] = 1.0,
    max_secs: Annotated[float, typer.Option(min=0, help="Stop measuring after this time.")] = 150.0,
    warmup_runs: Annotated[int, typer.Option(min=0, help="Minimum number of warm-up runs.")] = 1,
    warmup_min_secs: Annotated[float, typer.Option(min=0, help="Minimum duration of the warm-up.")] = 0.5,
    signature: Annotated[
        str | None, typer.Option(metavar="NAME", help="Run this signature of the file.")
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=SHAPE",
            help="The shape of a random input that the model leaves unspecified, such as "
            "x=1x224x224x3. May be repeated.",
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="CPU threads to use. [default: the driver's choice]")
    ] = None,
    startup: Annotated[
        str | None,
        typer.Option(
            metavar="instant|optimized",
            help="instant: also run before the model is compiled, and report when it was. The steady "
            "figures are always those of compiled code. [default: optimized]",
        ),
    ] = None,
    burst: Annotated[
        bool, typer.Option("--burst", help="Run in a burst, which uses shared memory instead of calls.")
    ] = False,
    profile: Annotated[
        bool,
        typer.Option("--profile", help="Also time each kernel, and list the operations that it computes."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Measures loading, preparing, the first run, and many further runs on random inputs.

    The first run includes lazy initialisation and is reported separately. Warm-up runs are not part
    of the figures. If the CPU device took over from a device that failed, the table and the JSON
    document say so.
    """
    import time
    from contextlib import nullcontext

    import neurald as nd
    from neurald.service.console.device_choice import describe_steps, executions_on_cpu, find_devices
    from neurald.service.console.measurement import BoundExecution, RunControl, repeat, summarise
    from neurald.service.console.output import note, progress, status, write_json
    from neurald.service.console.profile import describe_profile, median_profile
    from neurald.service.console.startup import preparing, startup_of
    from neurald.service.tensors.arrays import SEED, input_slots, random_inputs
    from neurald.service.tensors.shapes import default_shape_remarks, parse_shapes

    chosen = find_devices(device or ())
    wanted = startup_of(startup or nd.Startup.OPTIMIZED.value)
    with preparing(str(model), quiet=json) as shown:
        load_tflite = nd.load_tflite  # The import is not part of loading.
        start = time.perf_counter()
        loaded = load_tflite(model, signature=signature)
        load_s = time.perf_counter() - start
        slots = input_slots(loaded)
        shapes = parse_shapes(shape or (), slots)
        inputs = random_inputs(slots, shapes)
        start = time.perf_counter()
        builder = nd.CompilationBuilder(loaded, chosen, threads)
        builder.set_startup(wanted)
        builder.set_progress_callback(shown.step)
        compilation = builder.finish()
        prepare_s = time.perf_counter() - start
        first_start = time.perf_counter()
        outputs = compilation.run(*inputs)
        first_s = time.perf_counter() - first_start
        compilation.wait_until_optimized()
        optimized_s = time.perf_counter() - start
    if not json:
        for remark in default_shape_remarks(slots, shapes):
            note(remark)
    warmup: list[float] = []
    with compilation.create_burst() if burst else nullcontext() as used:
        execution = BoundExecution(compilation, inputs, outputs, used)
        if warmup_runs or warmup_min_secs:
            control = RunControl(runs=warmup_runs, min_s=warmup_min_secs, max_s=max_secs)
            with progress("warming up", quiet=json) as bar:
                warmup = repeat(execution.time_once, control, bar.advance_to)
        elsewhere = executions_on_cpu(compilation)
        with progress("measuring", quiet=json) as bar:
            steady = repeat(
                execution.time_once, RunControl(runs=runs, min_s=min_secs, max_s=max_secs), bar.advance_to
            )
        steps = describe_steps(compilation, elsewhere)
        with status("profiling", quiet=json):
            profiles = median_profile(compilation, execution.time_once) if profile else ()

    document = {
        "model": str(model),
        "inputs": f"random (seed {SEED})",
        "input_shapes": {slot.key: list(array.shape) for slot, array in zip(slots, inputs, strict=True)},
        "burst": burst,
        "steps": steps,
        "fallback": compilation.report.fallback,
        "load_ms": load_s * 1e3,
        "startup": wanted.value,
        "prepare_ms": prepare_s * 1e3,
        "optimized_ms": optimized_s * 1e3 if wanted is nd.Startup.INSTANT else None,
        "status": str(compilation.status),
        "first_ms": first_s * 1e3,
        "warmup": {"runs": len(warmup), "mean_ms": sum(warmup) / len(warmup) * 1e3 if warmup else None},
        "steady": summarise(steady),
    }
    if profile:
        document["profile"] = describe_profile(loaded, profiles)
    if json:
        write_json(document)
    else:
        _show(document)


def _cached(step: dict[str, Any]) -> str:
    """Describes the role of the cache in preparing a step; empty if it was not used."""
    if step["cache"] == "off":
        return ""
    return f" (cache {step['cache']}{': ' if step['reason'] else ''}{step['reason']})"


def _show(document: dict[str, Any]) -> None:
    from neurald.service.console.device_choice import fallback_messages
    from neurald.service.console.output import printable, write_line, write_table
    from neurald.service.console.profile import show_profile

    warmup, steady = document["warmup"], document["steady"]
    steps = ", then ".join(
        f"{step['operations']} operation{'s' if step['operations'] != 1 else ''} on "
        f"{step['device']}{_cached(step)}"
        for step in document["steps"]
    )
    write_line(
        printable(
            f"{document['model']}: {steps}; {document['inputs']} "
            f"inputs{', in a burst' if document['burst'] else ''}"
        )
    )
    for sentence in fallback_messages(document["steps"], document["fallback"]):
        write_line(printable(f"warning: {sentence}"))
    rows = [
        ("load", "1", f"{document['load_ms']:.3f}"),
        ("prepare", "1", f"{document['prepare_ms']:.3f}"),
        ("first run", "1", f"{document['first_ms']:.3f}"),
    ]
    if document["optimized_ms"] is not None:
        rows.append(("until optimized", "1", f"{document['optimized_ms']:.3f}"))
    if warmup["runs"]:
        rows.append(("warm-up, mean", str(warmup["runs"]), f"{warmup['mean_ms']:.3f}"))
    names = ("min", "median", "mean", "p90", "p99", "max", "std")
    rows += [(f"steady, {name}", str(steady["runs"]), f"{steady[f'{name}_ms']:.3f}") for name in names]
    write_table(("phase", "runs", "ms"), rows, right=("runs", "ms"))
    write_line(f"{steady['inferences_per_s']:.1f} inferences/s")
    if "profile" in document:
        show_profile(document["profile"], steady["median_ms"])
