"""Fuzzes configurations of models, in both forms, and of the service manager.

An input is a JSON object: the form (`text`, `json` or `toml`), and the bytes. A configuration must
be used or refused with an error, and errors and lines of the log must not steer a terminal or look
like other lines.
"""

import json
import logging
import random
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fuzz.target import Finding, as_text, from_text, kind_of, mutate_bytes

import neurald as nd
from neurald.hal.lanes.opening import TensorDescription
from neurald.service.inference.protocol.errors import ServiceError
from neurald.service.inference.repository.model_config import (
    absent_versions,
    completed,
    parse_config,
    parse_config_json,
    settings_of,
    versions_to_serve,
)
from neurald.service.inference.repository.reshapes import Reshapes
from neurald.service.inference.worker.orders import ModelDescription
from neurald.service.logs.formatters import JournalFormatter, JsonFormatter, TextFormatter
from neurald.service.manager.settings.configuration import load_configuration

_TEXT: Final = b"""name: "m"
backend: "tflite"  # as in other services
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4, -1 ] reshape { shape: [ -1, 4 ] } } ]
output { name: "y" dims: 4 label_filename: "labels.txt" }
instance_group [ { count: 2 kind: KIND_CPU gpus: [ 0 ] } ]
dynamic_batching {
  preferred_batch_size: [ 4, 8 ]
  max_queue_delay_microseconds: 100
  priority_levels: 3
  default_priority_level: 2
  default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 5000 max_queue_size: 9 }
  priority_queue_policy { key: 1 value { allow_timeout_override: true } }
}
version_policy: { specific: { versions: [ 1, 3 ] } }
parameters { key: "threads" value: { string_value: "2" } }
parameters: [ { key: "loop_timeout", value: { string_value: "2.5" } }, { key: "device" value { string_value: "cpu" } } ]
model_warmup { name: "w" batch_size: 1 count: 3 inputs { key: "x" value { dims: 4 zero_data: true } } }
optimization { execution_accelerators { cpu_execution_accelerator : [ { name : "tflite" } ] } }
unknown_field { deeper [ { a: 1.5e3 b: 'text' } ] }
"""
_JSON: Final = json.dumps(
    {
        "name": "m",
        "maxBatchSize": 8,
        "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": ["4", -1]}],
        "output": [{"name": "y", "dims": [2, 2], "reshape": {"shape": [4]}}],
        "dynamic_batching": {
            "priority_levels": "3",
            "default_priority_level": 1,
            "priority_queue_policy": {"1": {"max_queue_size": 3}},
        },
        "parameters": {"lanes": {"string_value": "3"}},
        "instance_group": [{"count": 1, "kind": "KIND_AUTO"}],
        "version_policy": {"latest": {"num_versions": 2}},
        "model_warmup": [{"name": "w", "inputs": {"x": {"dims": [4], "random_data": True}}}],
        "unknown_field": {"deeper": [1.5, None, "text"]},
    }
).encode()
_TOML: Final = b"""autostart = false
idle_s = 30.5
log_level = "info"
users = ["root", 0]
socket_mode = "0660"
[drivers.cpu]
idle_s = 0
limits = { sessions = 8, memory_bytes = "512MiB", execution_s = 600, "weight.root" = 4 }
sandbox = "auto"
writable = ["/tmp"]
environment = { OMP_NUM_THREADS = "1" }
[drivers.remote]
driver = "module:factory"
listen = "0.0.0.0:7000"
tls = "/tmp"
[service]
grpc = 8001
http = "127.0.0.1:8000"
repositories = ["/tmp"]
load_models = ["*"]
model_control_mode = "explicit"
http_restricted_api = ["model-repository:admin-key=admin-value"]
limits = { queue = 8 }
trace = { file = "/tmp/trace.json", rate = 5 }
[remotes.other]
address = "host:7000"
tls = "/tmp"
"""
_PIECES: Final = (
    *(
        b"0",
        b"-1",
        b"1e400",
        b"nan",
        b"inf",
        b"9" * 30,
        b"9" * 5000,
        b"2147483647",
        b"4294967295",
        b"0x7f",
        b"1_0",
    ),
    *(b"18446744073709551615", b"9223372036854775807", b"\xd9\xa3", b"1.5", b"true", b"null", b'""', b"''"),
    *(
        b'"\\n\\u001b[31mred"',
        b'"\\033]0;t\\007"',
        b'"\\u2028"',
        b"\x1b[31m",
        b"\0",
        b"\r\n",
        b"\xff",
        b'"\\ud800"',
    ),
    *(
        "\u202e".encode(),
        b'"../../etc/passwd"',
        b'"' + b"x" * 5000 + b'"',
        b"#",
        b"[",
        b"]",
        b"{",
        b"}",
        b"<",
        b">",
    ),
    *(
        b"[" * 5000,
        b"{a:" * 5000,
        b"a{" * 100,
        b"a<" * 3000,
        b"[type.googleapis.com/a]",
        b"[inference.x]",
        b"1: 2",
    ),
    *(b'{"a":' * 3000, b"a.b.c", b"a = {" * 3000, b"[" + b"a." * 3000 + b"a]\n", b"ensemble_scheduling {}"),
)
_WORD: Final = re.compile(rb"\"[^\"\n]*\"|-?[\w.]+|[^\w\s]")
#: What the model has that is configured.
_LOADED: Final = ModelDescription(
    inputs=(TensorDescription(name="x", kind="float32", shape=(-1, 4, -1)),),
    outputs=(TensorDescription(name="y", kind="float32", shape=(-1, 4)),),
    devices=("cpu",),
    drivers=("1",),
)
#: Whatever steers a terminal, ends a line or changes the direction of writing.
_STEERING: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class _Lines(logging.Handler):
    """Keeps the lines of a log in each of the formats."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(f"\x1btraceback: {record.exc_info[1]}")
        self.found += [each().format(record) for each in (TextFormatter, JsonFormatter, JournalFormatter)]


class ConfigTarget:
    """Implements `Target`."""

    limit_s = 20.0
    address_space = 1 << 30

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name) / "neurald.toml"
        self._log = _Lines()
        logging.getLogger("neurald").addHandler(self._log)

    def seeds(self) -> Sequence[bytes]:
        """See `Target.seeds`."""
        return [_case("text", _TEXT), _case("json", _JSON), _case("toml", _TOML)]

    def mutate(self, content: bytes, rng: random.Random) -> tuple[bytes, str]:
        """See `Target.mutate`: changes words more often than bytes."""
        case = json.loads(content)
        data = from_text(case["data"])
        if rng.random() < 0.2:
            data, name = mutate_bytes(data, rng)
            return _case(case["form"], data), name
        names = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            words = [*_WORD.finditer(data)]
            if not words:
                break
            word, other = rng.choice(words), rng.choice(words)
            kind = rng.choice(("replace", "replace", "replace", "insert", "remove", "exchange", "part"))
            piece = {"insert": rng.choice(_PIECES) + b" " + word[0], "remove": b"", "exchange": other[0]}.get(
                kind, rng.choice(_PIECES)
            )
            start, end = word.span()
            if kind == "part":
                start, end = start, max(end, other.end())
                piece = data[start:end] * rng.choice((2, 2, 50))
            data = data[:start] + piece + data[end:]
            names.append(kind)
        return _case(case["form"], data[: 1 << 20]), "+".join(names)

    def run(self, content: bytes) -> str:
        """See `Target.run`."""
        case = json.loads(content)
        data = from_text(case["data"])
        self._log.found.clear()
        outcome = self._of_manager(data) if case["form"] == "toml" else self._of_model(case["form"], data)
        for line in self._log.found:
            if found := _STEERING.search(line):
                raise Finding(f"the log has {found[0]!r}: {line[:300]!r}")
        return f"{case['form']}: {outcome}"

    @staticmethod
    def _of_model(form: str, data: bytes) -> str:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return "no text"
        try:
            config = (parse_config if form == "text" else parse_config_json)("m", text)
            settings = settings_of("m", config)
            versions_to_serve(config, (1, 2, 3))
            absent_versions(config, (1, 2, 3))
            whole = completed(config, "m", _LOADED)
            reshapes = Reshapes(whole, _LOADED)
        except ServiceError as error:
            return f"refused {kind_of(str(error))}"
        return f"used, {settings.instances > 0}, {reshapes.has_any}"

    def _of_manager(self, data: bytes) -> str:
        self._path.write_bytes(data)
        try:
            load_configuration(self._path)
        except nd.Error as error:
            return f"refused {error.code.name} {kind_of(str(error).replace(str(self._path), ''))}"
        return "used"

    def pieces(self, content: bytes) -> Sequence[bytes]:
        """See `Target.pieces`."""
        return from_text(json.loads(content)["data"]).splitlines(keepends=True)

    def joined(self, pieces: Sequence[bytes], content: bytes) -> bytes:
        """See `Target.joined`."""
        return _case(json.loads(content)["form"], b"".join(pieces))

    def close(self) -> None:
        """See `Target.close`."""
        logging.getLogger("neurald").removeHandler(self._log)
        self._folder.cleanup()


def _case(form: str, data: bytes) -> bytes:
    return json.dumps({"form": form, "data": as_text(data)}).encode()


def create(models: Path | None) -> ConfigTarget:
    """Creates the target."""
    del models
    return ConfigTarget()
