"""A client over HTTP for the checks, which uses no client library."""

import http.client
import json
from collections.abc import Sequence
from typing import Any, Final

from neurald.service.inference.conformance.client import (
    Counters,
    Inference,
    ModelOffer,
    NamedTensor,
    Reply,
    Unavailable,
)
from neurald.service.inference.conformance.server_access import ServerAccess

_TIMEOUT_S: Final = 60.0
_LENGTH: Final = "Inference-Header-Content-Length"
_STATUSES: Final = {
    200: "OK",
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
    413: "RESOURCE_EXHAUSTED",
    422: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class HttpV2Client:
    """Implements `V2Client`.

    Args:
        access: the server.

    Raises:
        BadState: a file of a certificate cannot be read, or is not valid.
    """

    transport = "HTTP"

    def __init__(self, access: ServerAccess) -> None:
        self._access = access
        self._tls = access.tls_context() if access.is_encrypted else None

    def _ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes, str | None]:
        connection = self._connection()
        try:
            connection.request(method, path, body, {**self._access.headers, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.getheader(_LENGTH)
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        target = self._access.target
        if self._tls is None:
            return http.client.HTTPConnection(target, timeout=_TIMEOUT_S)
        return http.client.HTTPSConnection(target, timeout=_TIMEOUT_S, context=self._tls)

    def _document(self, method: str, path: str, body: bytes | None = None) -> Any:
        status, content, _ = self._ask(method, path, body)
        if status != 200:
            message = _refusal(status, content).message
            raise Unavailable(f"{method} {path}: {status}{f': {message}' if message else ''}")
        return json.loads(content) if content else None

    def is_live(self) -> bool:
        """See `V2Client`."""
        return self._ask("GET", "/v2/health/live")[0] == 200

    def is_ready(self) -> bool:
        """See `V2Client`."""
        return self._ask("GET", "/v2/health/ready")[0] == 200

    def is_model_ready(self, name: str) -> bool:
        """See `V2Client`."""
        return self._ask("GET", f"/v2/models/{name}/ready")[0] == 200

    def extensions(self) -> tuple[str, ...]:
        """See `V2Client`."""
        return tuple(self._document("GET", "/v2").get("extensions", ()))

    def offer(self, name: str, version: str = "") -> ModelOffer | Reply:
        """See `V2Client`."""
        path = f"/v2/models/{name}" + (f"/versions/{version}" if version else "")
        status, content, _ = self._ask("GET", path)
        if status != 200:
            return _refusal(status, content)
        answer = json.loads(content)
        inputs, outputs = (
            tuple((each["name"], each["datatype"], tuple(each["shape"])) for each in answer.get(kind, ()))
            for kind in ("inputs", "outputs")
        )
        return ModelOffer(
            name=answer["name"], versions=tuple(answer.get("versions", ())), inputs=inputs, outputs=outputs
        )

    def max_batch(self, name: str) -> int:
        """See `V2Client`."""
        return int(self._document("GET", f"/v2/models/{name}/config").get("max_batch_size", 0))

    def counters(self, name: str) -> Counters:
        """See `V2Client`."""
        found = self._document("GET", f"/v2/models/{name}/stats")["model_stats"][-1]
        stats = found["inference_stats"]
        return Counters(
            inferences=found["inference_count"],
            executions=found["execution_count"],
            counts={name: each["count"] for name, each in stats.items()},
        )

    def models(self) -> dict[str, str]:
        """See `V2Client`."""
        index = self._document("POST", "/v2/repository/index", b"{}")
        return {each["name"]: each.get("state", "") for each in index}

    def unregister_memory(self) -> None:
        """See `V2Client`."""
        for kind in ("system", "cuda"):
            self._document("POST", f"/v2/{kind}sharedmemory/unregister", b"")

    def infer(self, request: Inference) -> Reply:
        """See `V2Client`."""
        content, header = self._encoded(request)
        path = f"/v2/models/{request.model}"
        if request.version:
            path += f"/versions/{request.version}"
        return self._post(f"{path}/infer", content, header)

    def send_raw(self, content: bytes, model: str) -> Reply:
        """See `V2Client`."""
        return self._post(f"/v2/models/{model}/infer", content, None)

    def stream(self, requests: Sequence[Inference]) -> list[Reply]:
        """See `V2Client`; there are no streams over HTTP."""
        raise Unavailable("HTTP has no streams")

    def encoded(self, request: Inference) -> bytes:
        """See `V2Client`."""
        return self._encoded(request)[0]

    def close(self) -> None:
        """See `V2Client`; each request has a connection of its own."""

    def _post(self, path: str, content: bytes, header: int | None) -> Reply:
        headers = {} if header is None else {_LENGTH: str(header)}
        status, body, length = self._ask("POST", path, content, headers)
        if status != 200:
            return _refusal(status, body)
        split = len(body) if length is None else int(length)
        answer, at = json.loads(body[:split]), split
        outputs: list[NamedTensor] = []
        for each in answer.get("outputs", ()):
            size = each.get("parameters", {}).get("binary_data_size")
            data = None
            if size is not None:
                data, at = body[at : at + size], at + size
            outputs.append(
                NamedTensor(
                    name=each["name"],
                    datatype=each["datatype"],
                    shape=tuple(each["shape"]),
                    data=data,
                    elements=tuple(each["data"]) if "data" in each else None,
                )
            )
        return Reply(
            model=answer.get("model_name", ""),
            version=answer.get("model_version", ""),
            id=answer.get("id", ""),
            outputs=tuple(outputs),
        )

    def _encoded(self, request: Inference) -> tuple[bytes, int | None]:
        """Returns the body, and the length of its JSON if bytes follow."""
        inputs: list[dict[str, Any]] = []
        binary: list[bytes] = []
        for tensor in request.inputs:
            each: dict[str, Any] = {
                "name": tensor.name,
                "datatype": tensor.datatype,
                "shape": list(tensor.shape),
            }
            if tensor.elements is not None:
                each["data"] = [
                    element.decode() if isinstance(element, bytes) else element for element in tensor.elements
                ]
            elif tensor.data is not None:
                each["parameters"] = {"binary_data_size": len(tensor.data)}
                binary.append(tensor.data)
            inputs.append(each)
        document: dict[str, Any] = {"inputs": inputs}
        if request.id:
            document["id"] = request.id
        if request.outputs:
            document["outputs"] = [
                {"name": name, "parameters": {"binary_data": True}} for name in request.outputs
            ]
        else:
            document["parameters"] = {"binary_data_output": True}
        header = json.dumps(document).encode()
        return b"".join((header, *binary)), len(header) if binary else None


def _refusal(status: int, content: bytes) -> Reply:
    message = content.decode(errors="replace")
    try:
        message = str(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        message = ""
    if status == 500 and message:
        # The protocol asks for an error's text, and leaves the status open. Triton answers JSON
        # that cannot be parsed with this one; a server that fails has no text.
        status = 400
    return Reply(status=_STATUSES.get(status, f"HTTP {status}"), message=message)
