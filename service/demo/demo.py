"""Runs the digit classifier in this process, through a driver daemon, and as a service."""

import importlib.util
from dataclasses import dataclass

import numpy as np

import neurald as nd
from neurald.service.console.device_choice import address
from neurald.service.console.measurement import BoundExecution, RunControl, repeat, summarise
from neurald.service.console.output import status, write_line, write_table
from neurald.service.demo.clients import HttpAnswer, ask_over_grpc, ask_over_http
from neurald.service.demo.daemon import driver_daemon
from neurald.service.demo.digits import MODEL, Digits, load_held_out_digits
from neurald.service.demo.service import served_model
from neurald.service.tensors.arrays import Array

#: Number of digits that are drawn.
DRAWN_DIGITS = 4

_SHADES = " ░▒▓█"
_ASCII_SHADES = " .+*#"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    """The classification of the digits by one device.

    Attributes:
        device: name of the device.
        address: the address of its daemon or of the service; None for a device of this process.
        guesses: the most probable label of each digit.
        probabilities: the probability of that label, from 0 to 1.
        latency: the latency from `summarise`.
    """

    device: str
    address: str | None
    guesses: Array
    probabilities: Array
    latency: dict[str, float | int]

    def accuracy(self, labels: Array) -> float:
        """Returns the share of digits that were classified correctly."""
        return float(np.mean(self.guesses == labels))


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """The results of the demo.

    Attributes:
        digits: the digits that were classified.
        results: one for each way to run the model.
        http: the answer of the service over HTTP; None if there was no service.
        notes: what was left out, and why.
    """

    digits: Digits
    results: tuple[DemoResult, ...]
    http: HttpAnswer | None
    notes: tuple[str, ...]


def run(*, quiet: bool = False) -> Demo:
    """Classifies digits on the CPU device in this process, on that of a daemon, and by a service.

    Raises:
        Error: the daemon or the service does not start, or a device fails.
    """
    digits = load_held_out_digits()
    model = nd.load_tflite(MODEL)
    results = []
    with status("classifying digits in this process", quiet=quiet):
        results.append(_classify(model, nd.devices()[0], digits))
    with (
        status("classifying digits through a driver daemon", quiet=quiet),
        driver_daemon("cpu") as where,
    ):
        results.append(_classify(model, nd.connect(where), digits))
    http: HttpAnswer | None = None
    missing = [name for name in ("httptools", "uvicorn") if importlib.util.find_spec(name) is None]
    notes: tuple[str, ...] = ()
    if missing:
        notes = (
            f"Not served: {' and '.join(missing)} are not installed; pip install 'neurald[serve]' does.",
        )
        return Demo(digits=digits, results=tuple(results), http=None, notes=notes)
    with status("classifying digits through an execution service", quiet=quiet), served_model() as places:
        http = ask_over_http(places.http, digits.images[0])
        try:
            answers = ask_over_grpc(places.grpc, digits)
        except ModuleNotFoundError as error:
            notes = (
                f"Not asked over gRPC: {error.name} is not installed; pip install 'tritonclient[grpc]' does.",
            )
        else:
            results.append(
                DemoResult(
                    device=", ".join(answers.devices),
                    address=f"grpc://{places.grpc}",
                    guesses=answers.outputs.argmax(-1),
                    probabilities=_probabilities(model, answers.outputs),
                    latency=answers.latency,
                )
            )
    return Demo(digits=digits, results=tuple(results), http=http, notes=notes)


def _probabilities(model: nd.Model, outputs: Array) -> Array:
    (operand,) = (model.main.operands[index] for index in model.outputs)
    found: Array = (outputs.max(-1) - operand.zero_point) * operand.scale
    return found


def _classify(model: nd.Model, device: nd.Device, digits: Digits) -> DemoResult:
    compilation = nd.CompilationBuilder(model, devices=[device]).finish()
    image = np.empty((1, 8, 8, 1), np.uint8)
    scores = compilation.run(image)
    execution = BoundExecution(compilation, [image], scores)
    found = np.empty((len(digits.images), *scores[0].shape[1:]), scores[0].dtype)
    for number, digit in enumerate(digits.images):
        image[0, :, :, 0] = digit
        execution.time_once()
        found[number] = execution.outputs[0][0]
    seconds = repeat(execution.time_once, RunControl(runs=200, min_s=0.2, max_s=5.0))
    return DemoResult(
        device=device.name,
        address=address(device),
        guesses=found.argmax(-1),
        probabilities=_probabilities(model, found),
        latency=summarise(seconds),
    )


def show(demo: Demo, encoding: str) -> None:
    """Draws a few digits with the first device's guesses, and writes a table of all devices."""
    digits, results = demo.digits, demo.results
    first = results[0]
    write_line(f"{len(digits.images)} handwritten digits that the model has never seen, for example")
    write_line()
    for line in draw(digits.images[:DRAWN_DIGITS], encoding):
        write_line(line.rstrip())
    captions = [
        f"{guess} ({100 * probability:.1f} %)" + ("" if guess == label else f", is {label}")
        for guess, probability, label in zip(
            first.guesses[:DRAWN_DIGITS],
            first.probabilities[:DRAWN_DIGITS],
            digits.labels[:DRAWN_DIGITS],
            strict=True,
        )
    ]
    write_line("  ".join(f"{caption:^16}" for caption in captions).rstrip())
    write_line()
    columns = ("device", "where", "accuracy", "median ms", "p99 ms", "inferences/s")
    write_table(
        columns,
        [
            (
                result.device,
                result.address or "in process",
                f"{100 * result.accuracy(digits.labels):.2f} %",
                f"{result.latency['median_ms']:.3f}",
                f"{result.latency['p99_ms']:.3f}",
                f"{result.latency['inferences_per_s']:.0f}",
            )
            for result in results
        ],
        right=columns[2:],
    )
    write_line()
    if demo.http is not None:
        _show_http(demo.http)
    for note in demo.notes:
        write_line(note)
    same = all(np.array_equal(first.guesses, other.guesses) for other in results)
    write_line("All devices agree on every digit." if same else "The devices disagree on some digits.")


def _show_http(answer: HttpAnswer) -> None:
    if answer.command:
        write_line(f"$ {answer.command} < digit.json")
    else:
        write_line(f"Python, since curl is not installed: POST {answer.url}")
    write_line(f"The first digit is a {answer.guess}; it ran on {', '.join(answer.devices)}.")


def draw(images: Array, encoding: str) -> list[str]:
    """Draws images side by side as lines of text, with two characters per pixel.

    Uses ASCII characters if the encoding has no characters for shades.
    """
    try:
        _SHADES.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        shades = _ASCII_SHADES
    else:
        shades = _SHADES
    levels = images.astype(np.int32) * len(shades) // 256
    rows = np.moveaxis(levels, 0, 1)
    return ["  ".join("".join(2 * shades[pixel] for pixel in row) for row in line) for line in rows]
