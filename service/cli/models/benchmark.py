"""The command `neurald benchmark`."""

import math
import os
from collections.abc import Sequence
from errno import ENOENT
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from neurald.service.cli.options.comparison import (
    CompareOption,
    OnnxOption,
    PeersOption,
    ReferenceOption,
    RequireFullDelegationOption,
)
from neurald.service.cli.options.completion import startup_names
from neurald.service.cli.options.devices import DevicesOption, RequireOption
from neurald.service.cli.options.figures import (
    CsvOption,
    HistogramOption,
    OutputOption,
    PercentileOption,
    ProfileCsvOption,
    ProfileOption,
    SlowestFirstOption,
    SvgOption,
)
from neurald.service.cli.options.model import (
    PreferenceOption,
    PriorityOption,
    ShapeOption,
    SignatureOption,
    ThreadsOption,
)
from neurald.service.cli.options.output import JsonOption
from neurald.service.cli.options.preparation import (
    CacheDirOption,
    MaxPartitionsOption,
    MinOperationsOption,
    RelaxedOption,
)
from neurald.service.cli.options.run_control import (
    ClientsOption,
    DelayOption,
    FrequencyOption,
    MaxSecsOption,
    MinSecsOption,
    RunsOption,
    WarmupMinSecsOption,
    WarmupRunsOption,
)

_MODEL = "MODEL"


class BenchmarkCommand(TyperCommand):
    """Also takes the flags of benchmark_model, benchmark_app and trtexec."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Translates the flags of other tools; see `neurald.service.benchmark.aliases`."""
        from neurald.hal.errors import BadData
        from neurald.service.benchmark.aliases import translated
        from neurald.service.console.output import note

        try:
            args, ignored = translated(args)
        except BadData as error:
            raise typer.BadParameter(str(error)) from None
        for flag in ignored:
            note(f"{flag} has no effect here")
        found: list[str] = super().parse_args(ctx, args)
        return found


def benchmark(
    model: Annotated[
        Path | None, typer.Argument(metavar=_MODEL, help="A .tflite file.", show_default=False)
    ] = None,
    device: DevicesOption = None,
    runs: RunsOption = 50,
    min_secs: MinSecsOption = 1.0,
    max_secs: MaxSecsOption = 150.0,
    warmup_runs: WarmupRunsOption = 1,
    warmup_min_secs: WarmupMinSecsOption = 0.5,
    delay: DelayOption = 0.0,
    frequency: FrequencyOption = 0.0,
    clients: ClientsOption = None,
    signature: SignatureOption = None,
    shape: ShapeOption = None,
    inputs: Annotated[
        Path | None,
        typer.Option(
            metavar="IN.npz",
            help="Inputs by tensor name, or by position (input_0, input_1, …). [default: random inputs]",
        ),
    ] = None,
    input_file: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="NAME=FILE",
            help="The value of one input: its bytes, or a .npy file. May be repeated.",
        ),
    ] = None,
    input_range: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=LOW:HIGH", help="The range of a random input, such as ids=0:999. May be repeated."
        ),
    ] = None,
    threads: ThreadsOption = None,
    relaxed: RelaxedOption = False,
    preference: PreferenceOption = "fast_single_answer",
    priority: PriorityOption = "medium",
    cache_dir: CacheDirOption = None,
    max_partitions: MaxPartitionsOption = None,
    min_operations: MinOperationsOption = 1,
    startup: Annotated[
        str | None,
        typer.Option(
            autocompletion=startup_names,
            metavar="instant|optimized",
            help="instant: also run before the model is compiled, and report when it was. The steady "
            "figures are always those of compiled code. [default: optimized]",
        ),
    ] = None,
    burst: Annotated[
        bool, typer.Option("--burst", help="Run in a burst, which uses shared memory instead of calls.")
    ] = False,
    percentile: PercentileOption = "90,99",
    profile: ProfileOption = False,
    slowest_first: SlowestFirstOption = False,
    reference: ReferenceOption = None,
    require_full_delegation: RequireFullDelegationOption = False,
    require: RequireOption = None,
    verify: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            metavar="SHARE",
            help="Verify runs on the CPU device for this share of the time, such as 0.01, and fail if results "
            "differ.",
        ),
    ] = 0.0,
    peers: PeersOption = False,
    onnx: OnnxOption = None,
    compare: CompareOption = None,
    histogram: HistogramOption = False,
    svg: SvgOption = None,
    csv: CsvOption = None,
    profile_csv: ProfileCsvOption = None,
    output: OutputOption = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a trace of loading, preparing and some runs to this file, for "
            "https://ui.perfetto.dev. These runs are not measured.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Measures loading, preparing, the first run, and many further runs on random inputs.

    The first run includes lazy initialisation and is reported separately. Warm-up runs are not part
    of the figures. If the CPU device took over from a device that failed, the table and the JSON
    document say so.

    Flags of benchmark_model, benchmark_app and trtexec are understood as well.
    """
    from neurald.service.console.output import write_json

    earlier = list(compare or ())
    if model is not None and model.suffix == ".json" and len(earlier) == 1:
        # `--compare before.json after.json`
        earlier, model = [*earlier, model], None
    files = [each for each in (*(output or ()), csv, profile_csv, svg, trace) if each is not None]
    if model is None:
        _compare_only(earlier, files, json=json)
        return
    if len(earlier) > 1:
        raise typer.BadParameter("--compare with a model takes one file")

    import neurald as nd
    from neurald.service.benchmark.comparison import read_run
    from neurald.service.benchmark.session import BenchmarkSettings, measure
    from neurald.service.console.delegation import parse_requirements
    from neurald.service.console.measurement import RunControl
    from neurald.service.console.members import member_of
    from neurald.service.console.output_files import require_writable

    require_writable(*files)
    if onnx is not None and not onnx.exists():
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT), str(onnx))
    before = {path: read_run(path) for path in earlier}
    document = measure(
        BenchmarkSettings(
            model=model,
            devices=device or (),
            warmup=RunControl(runs=warmup_runs, min_s=warmup_min_secs, max_s=max_secs),
            control=RunControl(runs=runs, min_s=min_secs, max_s=max_secs),
            delay_s=delay,
            frequency_hz=frequency,
            signature=signature,
            shapes=shape or (),
            inputs=inputs,
            input_files=input_file or (),
            input_ranges=input_range or (),
            threads=threads,
            relaxed=relaxed,
            preference=member_of(nd.Preference, preference, "--preference"),
            priority=member_of(nd.Priority, priority, "--priority"),
            cache_dir=cache_dir,
            max_partitions=max_partitions,
            min_operations=min_operations,
            startup=member_of(nd.Startup, startup or nd.Startup.OPTIMIZED.value, "--startup"),
            burst=burst,
            percentiles=_percentiles(percentile),
            profile=profile or slowest_first or profile_csv is not None,
            clients=_client_counts(clients) if clients is not None else (),
            reference=reference,
            require_full_delegation=require_full_delegation,
            requirements=parse_requirements(require or ()),
            verified_share=verify,
            peers=peers or onnx is not None,
            onnx=onnx,
            trace=trace,
            quiet=json,
        )
    )
    for path, found in before.items():
        document["comparison"] = _comparison(str(path), found, "this run", document)
    _write_files(document, output=output or (), csv=csv, profile_csv=profile_csv, svg=svg)
    if json:
        write_json(document)
    else:
        from neurald.service.benchmark.report import show

        show(document, histogram=histogram, slowest_first=slowest_first)
    if verify:
        from neurald.service.console.verification import require_right

        require_right(document["verification"])


def _percentiles(text: str) -> list[float]:
    """Returns the numbers of a list such as `50,99.9`."""
    try:
        found = [float(each) for each in text.split(",")]
    except ValueError:
        found = [math.nan]
    if not all(0 <= each <= 100 for each in found):
        raise typer.BadParameter(
            f"--percentile is {text!r}; numbers from 0 to 100 are expected, such as 90,99.9"
        )
    return found


def _client_counts(text: str) -> tuple[int, ...]:
    """Returns the numbers of a list such as `1,2,4`."""
    from neurald.hal.errors import BadData
    from neurald.service.benchmark.clients import client_counts

    try:
        return client_counts(text)
    except BadData as error:
        raise typer.BadParameter(str(error)) from None


def _write_files(
    document: dict[str, Any],
    *,
    output: Sequence[Path],
    csv: Path | None,
    profile_csv: Path | None,
    svg: Path | None,
) -> None:
    from neurald.hal.process.files.output_file import write_output

    if output:
        import msgspec

        content = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
        for each in output:
            write_output(each, content)
    if csv is not None:
        from neurald.service.benchmark.table_file import write_csv

        write_csv(csv, document)
    if profile_csv is not None:
        from neurald.service.benchmark.table_file import write_profile_csv

        write_profile_csv(profile_csv, document["profile"])
    if svg is not None:
        from neurald.service.benchmark.histogram import svg_histogram

        title = f"{document['model']}: {document['steady']['runs']} runs"
        write_output(svg, svg_histogram(document["latencies_ms"], title).encode())


def _comparison(before: str, first: Any, after: str, second: Any) -> dict[str, Any]:
    from neurald.service.benchmark.comparison import compare_runs, disturbance, latencies_of

    statistics = compare_runs(latencies_of(first, before), latencies_of(second, after))
    notes = [found for run, name in ((first, before), (second, after)) if (found := disturbance(run, name))]
    return {"before": before, "after": after, "statistics": statistics, "notes": notes}


def _compare_only(paths: list[Path], files: Sequence[Path], *, json: bool) -> None:
    """Compares two earlier runs.

    Args:
        paths: their files.
        files: those for figures of a run, of which there is none.
        json: writes a JSON document.
    """
    if not paths:
        raise typer.BadParameter("no model is given; a .tflite file is expected", param_hint=_MODEL)
    if len(paths) != 2:
        raise typer.BadParameter(f"--compare without a model takes two files, not {len(paths)}")
    if files:
        raise typer.BadParameter(
            f"{files[0]} cannot be written: without a model nothing is measured; --json prints the comparison"
        )
    from neurald.service.benchmark.comparison import read_run
    from neurald.service.benchmark.report import show_comparison
    from neurald.service.console.output import write_json

    first, second = map(read_run, paths)
    found = _comparison(str(paths[0]), first, str(paths[1]), second)
    if json:
        write_json(found)
    else:
        show_comparison(found)
