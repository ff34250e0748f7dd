"""Serves a model over HTTP with the V2 inference protocol, and asks it without a client library."""

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import neurald.service.demo

DEMO = Path(neurald.service.demo.__file__).parent
#: How long the service may take to start and to end.
LIMIT_S = 60


def ask(place: str, path: str, document: object = None) -> Any:
    """Makes a request; returns the document of the answer."""
    connection = http.client.HTTPConnection(place, timeout=60)
    if document is None:
        connection.request("GET", path)
    else:
        connection.request("POST", path, json.dumps(document))
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def address(service: "subprocess.Popen[bytes]") -> str:
    """Waits until the service is ready, and returns its address."""
    end = time.monotonic() + LIMIT_S
    while service.poll() is None:
        command = [sys.executable, "-m", "neurald", "status", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = json.loads(done.stdout)["service"] if done.returncode == 0 else None
        if found is not None and found["is_ready"]:
            return str(found["addresses"]["http"])
        if time.monotonic() > end:
            raise SystemExit(f"the service is not ready after {LIMIT_S} s: {found or done.stderr}")
        time.sleep(0.1)
    raise SystemExit("the service has ended; HTTP needs the extra neurald[serve]")


def main() -> None:
    """Classifies digits through a service."""
    with tempfile.TemporaryDirectory() as folder:
        # Directories of this example, so that a service manager of this user is left alone.
        os.environ |= {"XDG_RUNTIME_DIR": folder, "NEURALD_AUTOSTART": "0"}
        command = [sys.executable, "-m", "neurald", "serve", "--http", "127.0.0.1:0"]
        service = subprocess.Popen([*command, "--repository", str(DEMO)])
        try:
            place = address(service)
            (tensor,) = ask(place, "/v2/models/digits")["inputs"]
            print("the model takes", tensor["datatype"], tensor["shape"])
            digits = np.load(DEMO / "digits.npz")
            right = 0
            answer: dict[str, Any] = {}
            for image, label in zip(digits["images"][:50], digits["labels"], strict=False):
                given = {**tensor, "data": image.reshape(-1).tolist()}
                answer = ask(
                    place,
                    "/v2/models/digits/infer",
                    {"inputs": [given], "parameters": {"receipt": True}},
                )
                right += int(np.argmax(answer["outputs"][0]["data"])) == label
            print(right, "of 50 digits are right")
            print("the last one ran on", json.loads(answer["parameters"]["receipt"])["devices"][0])
        finally:
            service.terminate()
            try:
                service.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                service.kill()
                raise


if __name__ == "__main__":
    main()
