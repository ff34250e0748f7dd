"""The description of the V2 protocol over HTTP, as an OpenAPI document.

It describes what this service answers, and is served at `/v2/openapi.json`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from neurald._version import __version__
from neurald.service.inference.protocol.element_types import DATATYPES

Document = dict[str, Any]

_NAME: Final = r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$"
_TEXT: Final[Document] = {"type": "string"}
_NUMBER: Final[Document] = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
_FLAG: Final[Document] = {"type": "boolean"}
_PARAMETERS: Final[Document] = {
    "type": "object",
    "additionalProperties": {"type": ["boolean", "integer", "number", "string"]},
}
#: What a call may answer besides its own answer.
_ERRORS: Final = {
    400: "The request is not valid, or too large.",
    401: "The service needs a token, and the request has none, or another.",
    403: "The call is restricted, and the request has not the header that it needs.",
    404: "There is no such model, version, region or path.",
    501: "The service has not got this, or does not allow it.",
    503: "The model is not ready, or too many requests wait.",
    504: "The request took longer than it may.",
}


def _object(properties: Mapping[str, Document], required: Sequence[str] = ()) -> Document:
    return {"type": "object", "properties": dict(properties), "required": list(required)}


def _list(items: Document) -> Document:
    return {"type": "array", "items": items}


def _schema(name: str) -> Document:
    return {"$ref": f"#/components/schemas/{name}"}


def _body(schema: Document, *, is_required: bool = False, binary: bool = False) -> Document:
    content: Document = {"application/json": {"schema": schema}}
    if binary:
        content["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}
    return {"required": is_required, "content": content}


def _call(
    summary: str,
    answer: Document | None = None,
    *,
    body: Document | None = None,
    errors: Sequence[int] = (400, 401, 404),
    more: Mapping[str, Document] | None = None,
    parameters: Sequence[Document] = (),
) -> Document:
    if body is not None:
        errors = (*errors, 501)  # for a body whose encoding is not known
    answered: Document = {"description": "The answer."}
    if answer is not None:
        answered["content"] = {"application/json": {"schema": answer}}
    call: Document = {
        "summary": summary,
        "responses": {"200": answered}
        | {
            str(code): {
                "description": _ERRORS[code],
                "content": {"application/json": {"schema": _schema("Error")}},
            }
            for code in sorted({*errors, 403} if errors else errors)
        }
        | dict(more or {}),
    }
    if body is not None:
        call["requestBody"] = body
    if parameters:
        call["parameters"] = list(parameters)
    return call


def _path_parameter(name: str, pattern: str, description: str) -> Document:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": {"type": "string", "pattern": pattern},
    }


def _schemas() -> dict[str, Document]:
    shape = _list({"type": "integer", "minimum": -1})
    tensor = _object(
        {"name": _TEXT, "datatype": _schema("Datatype"), "shape": shape}, ("name", "datatype", "shape")
    )
    data: Document = {"type": "array", "description": "The elements in row-major order, nested or not."}
    given_shape: Document = {
        "type": "array",
        "maxItems": 32,
        "items": {"type": "integer", "minimum": 0, "maximum": 2**40},
    }
    total = _object({"count": _NUMBER, "ns": _NUMBER}, ("count", "ns"))
    parts = ("compute_input", "compute_infer", "compute_output")
    totals = ("success", "fail", "queue", *parts, "cache_hit", "cache_miss")
    return {
        "Datatype": {"type": "string", "enum": list(DATATYPES)},
        "Error": _object({"error": _TEXT}, ("error",)),
        "Parameters": _PARAMETERS,
        "Server": _object(
            {"name": _TEXT, "version": _TEXT, "extensions": _list(_TEXT)}, ("name", "version", "extensions")
        ),
        "Tensor": tensor,
        "Model": _object(
            {
                "name": _TEXT,
                "versions": _list(_TEXT),
                "platform": _TEXT,
                "inputs": _list(_schema("Tensor")),
                "outputs": _list(_schema("Tensor")),
            },
            ("name", "versions", "platform", "inputs", "outputs"),
        ),
        "ModelConfiguration": {
            "type": "object",
            "description": "The message ModelConfig of the protocol: config.pbtxt, completed.",
        },
        "Request": _object(
            {
                "id": _TEXT,
                "parameters": _schema("Parameters"),
                "inputs": {
                    "type": "array",
                    "minItems": 1,
                    "items": _object(
                        {
                            "name": _TEXT,
                            "datatype": _schema("Datatype"),
                            "shape": given_shape,
                            "parameters": _schema("Parameters"),
                            "data": data,
                        },
                        ("name", "datatype", "shape"),
                    ),
                },
                "outputs": _list(_object({"name": _TEXT, "parameters": _schema("Parameters")}, ("name",))),
            },
            ("inputs",),
        ),
        "Answer": _object(
            {
                "model_name": _TEXT,
                "model_version": _TEXT,
                "id": _TEXT,
                "parameters": _schema("Parameters"),
                "outputs": _list(
                    _object(
                        {
                            "name": _TEXT,
                            "datatype": _schema("Datatype"),
                            "shape": _list(_NUMBER),
                            "parameters": _schema("Parameters"),
                            "data": data,
                        },
                        ("name", "datatype", "shape"),
                    )
                ),
            },
            ("model_name", "model_version", "outputs"),
        ),
        "Statistics": _object(
            {
                "model_stats": _list(
                    _object(
                        {
                            "name": _TEXT,
                            "version": _TEXT,
                            "last_inference": _NUMBER,
                            "inference_count": _NUMBER,
                            "execution_count": _NUMBER,
                            "inference_stats": _object(dict.fromkeys(totals, total), totals),
                            "batch_stats": _list(
                                _object({"batch_size": _NUMBER, **dict.fromkeys(parts, total)}, parts)
                            ),
                        },
                        ("name", "version", "inference_count", "execution_count", "inference_stats"),
                    )
                )
            },
            ("model_stats",),
        ),
        "Index": _list(
            _object({"name": _TEXT, "version": _TEXT, "state": _TEXT, "reason": _TEXT}, ("name", "state"))
        ),
        "Regions": _list(
            _object(
                {"name": _TEXT, "key": _TEXT, "offset": _NUMBER, "byte_size": _NUMBER},
                ("name", "key", "offset", "byte_size"),
            )
        ),
        "Region": _object({"key": _TEXT, "offset": _NUMBER, "byte_size": _NUMBER}, ("key", "byte_size")),
        "Settings": {"type": "object"},
    }


def _model_paths() -> dict[str, Document]:
    """Returns the calls of a model, each for its newest version and for one that the path names."""
    length: Document = {
        "name": "Inference-Header-Content-Length",
        "in": "header",
        "required": False,
        "description": "The length of the JSON, if the bytes of tensors follow it.",
        "schema": {"type": "integer", "minimum": 0},
    }
    prefer: Document = {
        "name": "Prefer",
        "in": "header",
        "required": False,
        "description": "wait=SECONDS: how long the client waits (RFC 7240). What would be late is refused.",
        "schema": {"type": "string"},
    }
    load: Document = {
        "name": "endpoint-load-metrics-format",
        "in": "header",
        "required": False,
        "description": "In which form the answer's header endpoint-load-metrics reports the load.",
        "schema": {"type": "string", "enum": ["json", "text"]},
    }
    not_ready = {
        "400": {"description": "It is not ready."},
        "401": {"description": _ERRORS[401]},
        "403": {"description": _ERRORS[403]},
    }
    calls: dict[str, tuple[str, Document]] = {
        "": ("get", _call("Describes a model.", _schema("Model"), errors=(401, 404, 503))),
        "/ready": ("get", _call("Says whether a model can be run now.", errors=(), more=not_ready)),
        "/config": (
            "get",
            _call("Returns a model's configuration.", _schema("ModelConfiguration"), errors=(401, 404)),
        ),
        "/stats": (
            "get",
            _call("Returns what a model has done.", _schema("Statistics"), errors=(400, 401, 404)),
        ),
        "/infer": (
            "post",
            _call(
                "Runs a model.",
                _schema("Answer"),
                body=_body(_schema("Request"), is_required=True, binary=True),
                errors=tuple(_ERRORS),
                parameters=(length, prefer, load),
            ),
        ),
        "/generate": (
            "post",
            _call(
                "Runs a model on plain values: its inputs by name, and parameters.",
                {"type": "object"},
                body=_body({"type": "object"}, is_required=True),
                errors=tuple(_ERRORS),
                parameters=(prefer, load),
            ),
        ),
        "/generate_stream": (
            "post",
            _call(
                "Does the same, and answers with server-sent events.",
                body=_body({"type": "object"}, is_required=True),
                errors=tuple(_ERRORS),
                parameters=(prefer, load),
            ),
        ),
    }
    model = _path_parameter("model", _NAME, "The name of a model.")
    version = _path_parameter("version", "^[1-9][0-9]{0,17}$", "The version of a model.")
    paths: dict[str, Document] = {}
    for suffix, (method, call) in calls.items():
        paths["/v2/models/{model}" + suffix] = {"parameters": [model], method: call}
        paths["/v2/models/{model}/versions/{version}" + suffix] = {
            "parameters": [model, version],
            method: call,
        }
    return paths


def _repository_paths() -> dict[str, Document]:
    parameters: Document = _object({"parameters": _schema("Parameters")})
    paths: dict[str, Document] = {
        "/v2/repository/index": {
            "post": _call(
                "Lists the models of the repository.",
                _schema("Index"),
                body=_body(_object({"ready": _FLAG})),
                errors=(400, 401),
            )
        }
    }
    for action in ("load", "unload"):
        paths[f"/v2/repository/models/{{model}}/{action}"] = {
            "parameters": [_path_parameter("model", _NAME, "The name of a model.")],
            "post": _call(
                f"{action.capitalize()}s a model.", body=_body(parameters), errors=(400, 401, 404, 503)
            ),
        }
    return paths


def _region_paths() -> dict[str, Document]:
    region = _path_parameter("region", "^[^/]{1,256}$", "The name of a region of shared memory.")
    paths: dict[str, Document] = {}
    for kind, what in (("system", "system shared memory"), ("cuda", "memory of CUDA")):
        base = f"/v2/{kind}sharedmemory"
        status = _call(f"Lists the regions of {what}.", _schema("Regions"), errors=(401, 404))
        remove = _call(f"Unregisters {what}.", errors=(400, 401, 501))
        paths[f"{base}/status"] = {"get": status}
        paths[f"{base}/region/{{region}}/status"] = {"parameters": [region], "get": status}
        paths[f"{base}/unregister"] = {"post": remove}
        paths[f"{base}/region/{{region}}/unregister"] = {"parameters": [region], "post": remove}
        paths[f"{base}/region/{{region}}/register"] = {
            "parameters": [region],
            "post": _call(
                f"Registers {what}.",
                body=_body(_schema("Region") if kind == "system" else {"type": "object"}, is_required=True),
                errors=(400, 401, 501, 503),
            ),
        }
    return paths


def openapi_document() -> Document:
    """Returns the document."""
    traces, log = (
        {
            "get": _call(f"Returns the settings of {what}.", _schema("Settings"), errors=(400, 401)),
            "post": _call(
                f"Changes settings of {what}, and returns all.",
                _schema("Settings"),
                body=_body({"type": "object"}),
                errors=(400, 401, 501),
            ),
        }
        for what in ("traces", "the log")
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "V2 inference protocol",
            "version": __version__,
            "description": "Models that are served with `neurald serve --http`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {
            "/v2/health/live": {"get": _call("Says that the service runs.", errors=())},
            "/v2/health/ready": {
                "get": _call(
                    "Says whether all models can be run.",
                    errors=(),
                    more={"400": {"description": "They are not."}},
                )
            },
            "/v2": {"get": _call("Describes the service.", _schema("Server"), errors=(401,))},
            "/v2/models/stats": {
                "get": _call("Returns what all models have done.", _schema("Statistics"), errors=(401,))
            },
            **_model_paths(),
            **_repository_paths(),
            **_region_paths(),
            "/v2/trace/setting": traces,
            "/v2/models/{model}/trace/setting": {
                "parameters": [_path_parameter("model", _NAME, "The name of a model.")],
                **traces,
            },
            "/v2/logging": log,
        },
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }
