"""The OpenAPI document: the service answers schemathesis' requests from it as it says."""

import importlib.util
import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.inference import zoo
from support.inference.serving import Serving

from neurald.service.inference.server.http.openapi import openapi_document

#: Hooks that choose names of models, so that most requests reach one.
_NAMES = """
[parameters]
"path.model" = ["same", "add", "text", "batched"]
"path.version" = "1"
"""
#: The service may lack something, be overloaded, or be late, but never fail without a cause.
_CONFIGURATION = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "4xx", 501, 503, 504]
"""
_CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("models")
    zoo.write_plain(folder, "same", zoo.reshaping())
    zoo.write_plain(folder, "add", zoo.addition())
    zoo.write_plain(folder, "text", zoo.reshaping("STRING"))
    zoo.write_model(folder, "batched", zoo.open_addition(), config="max_batch_size: 8 dynamic_batching { }")
    with Serving(folder) as found:
        yield found.wait_ready()


def test_the_document_is_served(service: Serving) -> None:
    with urllib.request.urlopen(f"http://{service.http}/v2/openapi.json") as response:
        assert json.load(response) == json.loads(json.dumps(openapi_document()))


def test_every_reference_has_a_target() -> None:
    document = openapi_document()
    text = json.dumps(document)
    for name in re.findall(r"#/components/schemas/(\w+)", text):
        assert name in document["components"]["schemas"]


def ask(service: Serving, folder: Path, configuration: str, examples: int, seed: int = 7) -> int:
    """Has schemathesis make requests; returns how many it made."""
    if importlib.util.find_spec("schemathesis") is None:
        pytest.skip("schemathesis is not installed (dependency group test)")
    file = folder / "schemathesis.toml"
    file.write_text(configuration + _CONFIGURATION)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(file), "run"),
            *(f"http://{service.http}/v2/openapi.json", "--max-examples", str(examples)),
            *(
                "--checks",
                _CHECKS,
                "--phases",
                "fuzzing",
                "--seed",
                str(seed),
                "--generation-database",
                "none",
            ),
        ],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    generated, passed = map(int, re.findall(r"(\d+) generated, (\d+) passed", done.stdout)[0])
    assert generated == passed
    service.wait_for(lambda status: status.process is not None)
    return generated


def test_made_up_requests(service: Serving, tmp_path: Path) -> None:
    assert ask(service, tmp_path, "", 5) + ask(service, tmp_path, _NAMES, 5) > 100


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_thousands_of_made_up_requests(service: Serving, tmp_path: Path) -> None:
    made, seed = 0, 0
    while made < 5000:
        seed += 1
        made += ask(service, tmp_path, _NAMES if seed % 2 else "", 100, seed)
