"""Asks the demo's service as clients of Triton and KServe do: with curl, and with tritonclient."""

import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from neurald.hal.errors import OpFailed
from neurald.service.console.measurement import summarise
from neurald.service.demo.digits import Digits
from neurald.service.tensors.arrays import Array

NAME: Final = "digits"
_REQUEST_S: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """The service's answer over HTTP for one digit.

    Attributes:
        command: the command that was run, without the document of the request; empty if curl is not
            installed and Python made the request.
        url: the url that was asked.
        guess: the most probable label.
        devices: where the model ran, by the answer's receipt.
    """

    command: str
    url: str
    guess: int
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcAnswers:
    """The service's answers over gRPC for all digits.

    Attributes:
        outputs: the outputs of each digit.
        devices: where the model ran for the last one.
        latency: the latency from `summarise`.
    """

    outputs: Array
    devices: tuple[str, ...]
    latency: dict[str, float | int]


def ask_over_http(place: str, image: Array) -> HttpAnswer:
    """Classifies one digit with curl, or without it by Python's own client.

    Args:
        place: where the service listens, `host:port`.
        image: the image of the digit.

    Raises:
        OpFailed: the service answers with an error.
        OSError: it does not answer.
    """
    url = f"http://{place}/v2/models/{NAME}/infer"
    document = json.dumps(
        {
            "inputs": [
                {
                    "name": "image",
                    "datatype": "UINT8",
                    "shape": [1, *image.shape, 1],
                    "data": image.reshape(-1).tolist(),
                }
            ],
            "parameters": {"receipt": True},
        }
    )
    curl = shutil.which("curl")
    command: Sequence[str] = ()
    if curl is None:
        request = urllib.request.Request(url, document.encode())
        with urllib.request.urlopen(request, timeout=_REQUEST_S) as response:  # noqa: S310 - http
            content: bytes = response.read()
    else:
        command = ("curl", "-s", url, "-d", "@-")
        done = subprocess.run(  # noqa: S603 - the program that was found
            (curl, *command[1:], "--noproxy", "*", "--max-time", str(_REQUEST_S)),
            input=document.encode(),
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise OpFailed(f"{' '.join(command)} ended with status {done.returncode}")
        content = done.stdout
    answer: dict[str, Any] = json.loads(content)
    if "error" in answer:
        raise OpFailed(f"the service refuses {url}: {answer['error']}")
    return HttpAnswer(
        command=" ".join(command),
        url=url,
        guess=int(np.argmax(answer["outputs"][0]["data"])),
        devices=_devices(answer["parameters"]["receipt"]),
    )


def ask_over_grpc(place: str, digits: Digits) -> GrpcAnswers:
    """Classifies all digits with tritonclient.

    Args:
        place: where the service listens, `host:port`.
        digits: the digits to classify.

    Raises:
        ModuleNotFoundError: tritonclient is not installed.
        Exception: of tritonclient, if a call fails.
    """
    import tritonclient.grpc as triton

    seconds: list[float] = []
    outputs: list[Array] = []
    with triton.InferenceServerClient(place) as client:
        for image in digits.images:
            tensor = triton.InferInput("image", [1, *image.shape, 1], "UINT8")
            tensor.set_data_from_numpy(image.reshape(1, *image.shape, 1))
            began = time.perf_counter()
            answer = client.infer(NAME, [tensor], parameters={"receipt": True})
            seconds.append(time.perf_counter() - began)
            outputs.append(answer.as_numpy(answer.get_response().outputs[0].name)[0])
    receipt = answer.get_response().parameters["receipt"].string_param
    return GrpcAnswers(outputs=np.stack(outputs), devices=_devices(receipt), latency=summarise(seconds))


def _devices(receipt: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(json.loads(receipt)["devices"]))
