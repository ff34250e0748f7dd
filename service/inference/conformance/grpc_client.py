"""A client over gRPC for the checks."""

from collections.abc import Sequence
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError

from neurald.hal.records import replace
from neurald.service.inference.conformance.client import (
    Counters,
    Inference,
    ModelOffer,
    NamedTensor,
    Reply,
    Unavailable,
)
from neurald.service.inference.conformance.server_access import ServerAccess
from neurald.service.inference.protocol.element_types import content_field
from neurald.service.inference.protocol.messages import SERVICE, message_type

_TIMEOUT_S: Final = 60.0
_MAX_BYTES: Final = 1 << 30


class GrpcV2Client:
    """Implements `V2Client`.

    Args:
        access: the server.

    Raises:
        BadState: a file of a certificate cannot be read, or is not valid.
    """

    transport = "gRPC"

    def __init__(self, access: ServerAccess) -> None:
        options = (("grpc.max_receive_message_length", _MAX_BYTES),)
        self._channel = (
            grpc.secure_channel(access.target, access.credentials(), options)
            if access.is_encrypted
            else grpc.insecure_channel(access.target, options)
        )
        self._metadata = tuple(access.headers.items())

    def _call(self, call_name: str, /, **fields: Any) -> Any:
        request = message_type(f"{call_name}Request")(**fields)
        call: Any = self._channel.unary_unary(f"/{SERVICE}/{call_name}")
        try:
            data = call(request.SerializeToString(), timeout=_TIMEOUT_S, metadata=self._metadata)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                raise Unavailable(f"the server does not have {call_name}") from None
            return _refusal(error)
        return message_type(f"{call_name}Response").FromString(data)

    def _field(self, answer: Any, name: str) -> Any:
        if isinstance(answer, Reply):
            raise Unavailable(f"{answer.status}: {answer.message}")
        return getattr(answer, name)

    def is_live(self) -> bool:
        """See `V2Client`."""
        return bool(self._field(self._call("ServerLive"), "live"))

    def is_ready(self) -> bool:
        """See `V2Client`."""
        return bool(self._field(self._call("ServerReady"), "ready"))

    def is_model_ready(self, name: str) -> bool:
        """See `V2Client`."""
        answer = self._call("ModelReady", name=name)
        return not isinstance(answer, Reply) and bool(answer.ready)

    def extensions(self) -> tuple[str, ...]:
        """See `V2Client`."""
        return tuple(self._field(self._call("ServerMetadata"), "extensions"))

    def offer(self, name: str, version: str = "") -> ModelOffer | Reply:
        """See `V2Client`."""
        answer = self._call("ModelMetadata", name=name, version=version)
        if isinstance(answer, Reply):
            return answer
        return ModelOffer(
            name=answer.name,
            versions=tuple(answer.versions),
            inputs=tuple((each.name, each.datatype, tuple(each.shape)) for each in answer.inputs),
            outputs=tuple((each.name, each.datatype, tuple(each.shape)) for each in answer.outputs),
        )

    def max_batch(self, name: str) -> int:
        """See `V2Client`."""
        return int(self._field(self._call("ModelConfig", name=name), "config").max_batch_size)

    def counters(self, name: str) -> Counters:
        """See `V2Client`."""
        answer = self._call("ModelStatistics", name=name)
        found = self._field(answer, "model_stats")[-1]
        stats = found.inference_stats
        names = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output")
        return Counters(
            inferences=found.inference_count,
            executions=found.execution_count,
            counts={each: getattr(stats, each).count for each in names},
        )

    def models(self) -> dict[str, str]:
        """See `V2Client`."""
        return {each.name: each.state for each in self._field(self._call("RepositoryIndex"), "models")}

    def unregister_memory(self) -> None:
        """See `V2Client`."""
        for name in ("SystemSharedMemoryUnregister", "CudaSharedMemoryUnregister"):
            answer = self._call(name)
            if isinstance(answer, Reply):
                raise Unavailable(f"{name}: {answer.status}")

    def infer(self, request: Inference) -> Reply:
        """See `V2Client`."""
        return self.send_raw(self.encoded(request), request.model)

    def send_raw(self, content: bytes, model: str) -> Reply:
        """See `V2Client`."""
        call: Any = self._channel.unary_unary(f"/{SERVICE}/ModelInfer")
        try:
            data = call(content, timeout=_TIMEOUT_S, metadata=self._metadata)
        except grpc.RpcError as error:
            refusal = _refusal(error)
            # Libraries of gRPC give this status to bytes that are not a message.
            is_refused_by_grpc = refusal.status == "INTERNAL" and not _is_request(content)
            return replace(refusal, status="INVALID_ARGUMENT") if is_refused_by_grpc else refusal
        return _reply(message_type("ModelInferResponse").FromString(data))

    def stream(self, requests: Sequence[Inference]) -> list[Reply]:
        """See `V2Client`."""
        call: Any = self._channel.stream_stream(f"/{SERVICE}/ModelStreamInfer")
        replies: list[Reply] = []
        kind = message_type("ModelStreamInferResponse")
        try:
            for data in call(
                iter([self.encoded(each) for each in requests]), timeout=_TIMEOUT_S, metadata=self._metadata
            ):
                answer = kind.FromString(data)
                if answer.error_message:
                    replies.append(Reply(status="ERROR", message=answer.error_message))
                else:
                    replies.append(_reply(answer.infer_response))
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                raise Unavailable("the server does not have ModelStreamInfer") from None
            replies.append(_refusal(error))
        return replies

    def encoded(self, request: Inference) -> bytes:
        """See `V2Client`."""
        message = message_type("ModelInferRequest")(
            model_name=request.model, model_version=request.version, id=request.id
        )
        for tensor in request.inputs:
            target = message.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
            field = content_field(tensor.datatype)
            if tensor.elements is not None and field is not None:
                getattr(target.contents, field).extend(tensor.elements)
            elif tensor.data is not None:
                message.raw_input_contents.append(tensor.data)
        for name in request.outputs:
            message.outputs.add(name=name)
        content: bytes = message.SerializeToString()
        return content

    def close(self) -> None:
        """See `V2Client`."""
        self._channel.close()


def _is_request(content: bytes) -> bool:
    try:
        message_type("ModelInferRequest").FromString(content)
    except DecodeError:
        return False
    return True


def _refusal(error: Any) -> Reply:
    return Reply(status=error.code().name, message=error.details() or "")


def _reply(answer: Any) -> Reply:
    raw = list(answer.raw_output_contents)
    return Reply(
        model=answer.model_name,
        version=answer.model_version,
        id=answer.id,
        outputs=tuple(
            NamedTensor(
                name=each.name,
                datatype=each.datatype,
                shape=tuple(each.shape),
                data=raw[position] if position < len(raw) else None,
            )
            for position, each in enumerate(answer.outputs)
        ),
    )
