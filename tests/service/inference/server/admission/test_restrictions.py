"""Groups of calls that need a header."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.inference import zoo
from support.inference.serving import Serving

from neurald.hal.errors import BadData, BadState
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.server.admission.restrictions import Restrictions

pytest.importorskip("tritonclient.http", reason="the group test is not installed")
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

RULES = ["model-repository:admin-key=one", "inference,health:Infer-Key=two"]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (["inference"], "not of the form"),
        (["inference:key"], "not of the form"),
        (["inference:=value"], "not of the form"),
        (["model-reposit,health:k1=v1"], "unknown restricted api 'model-reposit': it is not one of health"),
        (
            ["health:k1=v1", "metadata,health:k2=v2"],
            "api 'health' can not be specified in multiple config groups",
        ),
    ],
)
def test_rules_that_are_refused(rules: list[str], message: str) -> None:
    with pytest.raises(BadData, match=message) as caught:
        Restrictions(rules, noun="API")
    assert "v1" not in str(caught.value)


def test_values_of_files(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("secret\n")
    file.chmod(0o644)
    with pytest.raises(BadState, match="not private"):
        Restrictions([f"trace:key=@{file}"], noun="API")
    file.chmod(0o600)
    found = Restrictions([f"trace:key=@{file}"], noun="API")
    found.require("trace", {"key": b"secret"}.get)
    nothing: dict[str, bytes] = {}
    found.require("logging", nothing.get)
    for headers in (nothing, {"key": b"secret\n"}, {"other": b"secret"}):
        with pytest.raises(ServiceError, match="This API is restricted, expecting header 'key'") as caught:
            found.require("trace", headers.get)
        assert caught.value.status is Status.FORBIDDEN


def infer(client: Any, module: Any, headers: dict[str, str]) -> None:
    tensor = module.InferInput("x", [1, 4], "FP32")
    tensor.set_data_from_numpy(np.zeros((1, 4), np.float32))
    client.infer("same", [tensor], headers=headers)


def test_calls_need_their_headers(tmp_path: Path) -> None:
    zoo.write_plain(tmp_path, "same", zoo.reshaping())
    with Serving(tmp_path, http_restricted_api=RULES, grpc_restricted_protocol=RULES) as service:
        service.wait_ready()
        for module, place, prefix, noun, status in (
            (triton_http, service.http, "", "API", "403"),
            (triton_grpc, service.grpc, "triton-grpc-protocol-", "protocol", "StatusCode.PERMISSION_DENIED"),
        ):
            own = {f"{prefix}infer-key": "two"}
            with module.InferenceServerClient(place) as client:
                client.get_server_metadata()
                client.get_model_repository_index(headers={f"{prefix}admin-key": "one"})
                infer(client, module, own)
                for wrong in ({}, {f"{prefix}admin-key": "one"}, {f"{prefix}infer-key": "three"}):
                    with pytest.raises(
                        InferenceServerException, match=f"This {noun} is restricted"
                    ) as caught:
                        infer(client, module, wrong)
                    assert caught.value.status() == status
                with pytest.raises(InferenceServerException, match=f"This {noun} is restricted"):
                    client.get_model_repository_index(headers=own)
        with triton_grpc.InferenceServerClient(service.grpc) as client:
            with pytest.raises(InferenceServerException, match="This protocol is restricted"):
                client.is_server_live()
            assert client.is_server_live(headers={"triton-grpc-protocol-infer-key": "two"})
