from neurald._proto import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DeviceStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEVICE_STATUS_UNKNOWN: _ClassVar[DeviceStatus]
    DEVICE_STATUS_AVAILABLE: _ClassVar[DeviceStatus]
    DEVICE_STATUS_BUSY: _ClassVar[DeviceStatus]
    DEVICE_STATUS_OFFLINE: _ClassVar[DeviceStatus]

class Access(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACCESS_UNKNOWN: _ClassVar[Access]
    ACCESS_OWN_USER: _ClassVar[Access]
    ACCESS_TOKEN: _ClassVar[Access]
    ACCESS_ANYBODY: _ClassVar[Access]
    ACCESS_CERTIFICATE: _ClassVar[Access]
    ACCESS_LISTED_USERS: _ClassVar[Access]
DEVICE_STATUS_UNKNOWN: DeviceStatus
DEVICE_STATUS_AVAILABLE: DeviceStatus
DEVICE_STATUS_BUSY: DeviceStatus
DEVICE_STATUS_OFFLINE: DeviceStatus
ACCESS_UNKNOWN: Access
ACCESS_OWN_USER: Access
ACCESS_TOKEN: Access
ACCESS_ANYBODY: Access
ACCESS_CERTIFICATE: Access
ACCESS_LISTED_USERS: Access

class DescribeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeReply(_message.Message):
    __slots__ = ("name", "type", "version", "feature_level", "extensions", "model_cache_files", "data_cache_files", "declared_extensions", "carries_data", "takes_parts", "takes_ongoing_requests", "sends_times")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    EXTENSIONS_FIELD_NUMBER: _ClassVar[int]
    MODEL_CACHE_FILES_FIELD_NUMBER: _ClassVar[int]
    DATA_CACHE_FILES_FIELD_NUMBER: _ClassVar[int]
    DECLARED_EXTENSIONS_FIELD_NUMBER: _ClassVar[int]
    CARRIES_DATA_FIELD_NUMBER: _ClassVar[int]
    TAKES_PARTS_FIELD_NUMBER: _ClassVar[int]
    TAKES_ONGOING_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    SENDS_TIMES_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: _types_pb2.DeviceType
    version: str
    feature_level: _types_pb2.FeatureLevel
    extensions: _containers.RepeatedScalarFieldContainer[str]
    model_cache_files: int
    data_cache_files: int
    declared_extensions: _containers.RepeatedCompositeFieldContainer[_types_pb2.Extension]
    carries_data: bool
    takes_parts: bool
    takes_ongoing_requests: bool
    sends_times: bool
    def __init__(self, name: _Optional[str] = ..., type: _Optional[_Union[_types_pb2.DeviceType, str]] = ..., version: _Optional[str] = ..., feature_level: _Optional[_Union[_types_pb2.FeatureLevel, str]] = ..., extensions: _Optional[_Iterable[str]] = ..., model_cache_files: _Optional[int] = ..., data_cache_files: _Optional[int] = ..., declared_extensions: _Optional[_Iterable[_Union[_types_pb2.Extension, _Mapping]]] = ..., carries_data: bool = ..., takes_parts: bool = ..., takes_ongoing_requests: bool = ..., sends_times: bool = ...) -> None: ...

class GetCapabilitiesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetCapabilitiesReply(_message.Message):
    __slots__ = ("capabilities",)
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    capabilities: _types_pb2.Capabilities
    def __init__(self, capabilities: _Optional[_Union[_types_pb2.Capabilities, _Mapping]] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusReply(_message.Message):
    __slots__ = ("status", "sessions", "prepared_models", "memories", "calls", "access", "sandbox")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    PREPARED_MODELS_FIELD_NUMBER: _ClassVar[int]
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    ACCESS_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    status: DeviceStatus
    sessions: int
    prepared_models: int
    memories: int
    calls: int
    access: Access
    sandbox: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, status: _Optional[_Union[DeviceStatus, str]] = ..., sessions: _Optional[int] = ..., prepared_models: _Optional[int] = ..., memories: _Optional[int] = ..., calls: _Optional[int] = ..., access: _Optional[_Union[Access, str]] = ..., sandbox: _Optional[_Iterable[str]] = ...) -> None: ...

class OpenSessionRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class OpenSessionReply(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: bytes
    def __init__(self, session: _Optional[bytes] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DataChunk(_message.Message):
    __slots__ = ("content", "unpacked_bytes")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    UNPACKED_BYTES_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    unpacked_bytes: int
    def __init__(self, content: _Optional[bytes] = ..., unpacked_bytes: _Optional[int] = ...) -> None: ...

class WriteMemoryRequest(_message.Message):
    __slots__ = ("size_bytes", "chunk", "packed")
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    PACKED_FIELD_NUMBER: _ClassVar[int]
    size_bytes: int
    chunk: bytes
    packed: DataChunk
    def __init__(self, size_bytes: _Optional[int] = ..., chunk: _Optional[bytes] = ..., packed: _Optional[_Union[DataChunk, _Mapping]] = ...) -> None: ...

class WriteMemoryReply(_message.Message):
    __slots__ = ("memory",)
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    memory: bytes
    def __init__(self, memory: _Optional[bytes] = ...) -> None: ...

class ReadMemoryRequest(_message.Message):
    __slots__ = ("memory",)
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    memory: bytes
    def __init__(self, memory: _Optional[bytes] = ...) -> None: ...

class ReadMemoryReply(_message.Message):
    __slots__ = ("chunk",)
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    chunk: bytes
    def __init__(self, chunk: _Optional[bytes] = ...) -> None: ...

class ReleaseMemoryRequest(_message.Message):
    __slots__ = ("memories",)
    MEMORIES_FIELD_NUMBER: _ClassVar[int]
    memories: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, memories: _Optional[_Iterable[bytes]] = ...) -> None: ...

class ReleaseMemoryReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetSupportedOperationsRequest(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: _types_pb2.Model
    def __init__(self, model: _Optional[_Union[_types_pb2.Model, _Mapping]] = ...) -> None: ...

class GetSupportedOperationsReply(_message.Message):
    __slots__ = ("verdicts",)
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    verdicts: _containers.RepeatedCompositeFieldContainer[_types_pb2.Verdict]
    def __init__(self, verdicts: _Optional[_Iterable[_Union[_types_pb2.Verdict, _Mapping]]] = ...) -> None: ...

class PrepareOptions(_message.Message):
    __slots__ = ("preference", "priority", "deadline_s", "threads", "cache_key", "attributes")
    PREFERENCE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    THREADS_FIELD_NUMBER: _ClassVar[int]
    CACHE_KEY_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    preference: _types_pb2.Preference
    priority: _types_pb2.Priority
    deadline_s: float
    threads: int
    cache_key: bytes
    attributes: _containers.RepeatedCompositeFieldContainer[_types_pb2.AttributeValue]
    def __init__(self, preference: _Optional[_Union[_types_pb2.Preference, str]] = ..., priority: _Optional[_Union[_types_pb2.Priority, str]] = ..., deadline_s: _Optional[float] = ..., threads: _Optional[int] = ..., cache_key: _Optional[bytes] = ..., attributes: _Optional[_Iterable[_Union[_types_pb2.AttributeValue, _Mapping]]] = ...) -> None: ...

class PrepareModelRequest(_message.Message):
    __slots__ = ("model", "options")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    model: _types_pb2.Model
    options: PrepareOptions
    def __init__(self, model: _Optional[_Union[_types_pb2.Model, _Mapping]] = ..., options: _Optional[_Union[PrepareOptions, _Mapping]] = ...) -> None: ...

class PrepareModelReply(_message.Message):
    __slots__ = ("prepared_model", "has_artifact", "kept", "improves_later")
    PREPARED_MODEL_FIELD_NUMBER: _ClassVar[int]
    HAS_ARTIFACT_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    IMPROVES_LATER_FIELD_NUMBER: _ClassVar[int]
    prepared_model: int
    has_artifact: bool
    kept: Kept
    improves_later: bool
    def __init__(self, prepared_model: _Optional[int] = ..., has_artifact: bool = ..., kept: _Optional[_Union[Kept, _Mapping]] = ..., improves_later: bool = ...) -> None: ...

class Kept(_message.Message):
    __slots__ = ("key", "was_there", "compile_ms")
    KEY_FIELD_NUMBER: _ClassVar[int]
    WAS_THERE_FIELD_NUMBER: _ClassVar[int]
    COMPILE_MS_FIELD_NUMBER: _ClassVar[int]
    key: str
    was_there: bool
    compile_ms: float
    def __init__(self, key: _Optional[str] = ..., was_there: bool = ..., compile_ms: _Optional[float] = ...) -> None: ...

class PrepareModelFromCacheRequest(_message.Message):
    __slots__ = ("options", "artifact")
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_FIELD_NUMBER: _ClassVar[int]
    options: PrepareOptions
    artifact: Artifact
    def __init__(self, options: _Optional[_Union[PrepareOptions, _Mapping]] = ..., artifact: _Optional[_Union[Artifact, _Mapping]] = ...) -> None: ...

class GetArtifactRequest(_message.Message):
    __slots__ = ("prepared_model",)
    PREPARED_MODEL_FIELD_NUMBER: _ClassVar[int]
    prepared_model: int
    def __init__(self, prepared_model: _Optional[int] = ...) -> None: ...

class GetArtifactReply(_message.Message):
    __slots__ = ("artifact",)
    ARTIFACT_FIELD_NUMBER: _ClassVar[int]
    artifact: Artifact
    def __init__(self, artifact: _Optional[_Union[Artifact, _Mapping]] = ...) -> None: ...

class GetImprovementRequest(_message.Message):
    __slots__ = ("prepared_model",)
    PREPARED_MODEL_FIELD_NUMBER: _ClassVar[int]
    prepared_model: int
    def __init__(self, prepared_model: _Optional[int] = ...) -> None: ...

class GetImprovementReply(_message.Message):
    __slots__ = ("is_improved",)
    IS_IMPROVED_FIELD_NUMBER: _ClassVar[int]
    is_improved: bool
    def __init__(self, is_improved: bool = ...) -> None: ...

class Artifact(_message.Message):
    __slots__ = ("model_cache", "data_cache", "seal")
    MODEL_CACHE_FIELD_NUMBER: _ClassVar[int]
    DATA_CACHE_FIELD_NUMBER: _ClassVar[int]
    SEAL_FIELD_NUMBER: _ClassVar[int]
    model_cache: _containers.RepeatedScalarFieldContainer[bytes]
    data_cache: _containers.RepeatedScalarFieldContainer[bytes]
    seal: bytes
    def __init__(self, model_cache: _Optional[_Iterable[bytes]] = ..., data_cache: _Optional[_Iterable[bytes]] = ..., seal: _Optional[bytes] = ...) -> None: ...

class ReleasePreparedModelRequest(_message.Message):
    __slots__ = ("prepared_model",)
    PREPARED_MODEL_FIELD_NUMBER: _ClassVar[int]
    prepared_model: int
    def __init__(self, prepared_model: _Optional[int] = ...) -> None: ...

class ReleasePreparedModelReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ProfileRequest(_message.Message):
    __slots__ = ("prepared_model",)
    PREPARED_MODEL_FIELD_NUMBER: _ClassVar[int]
    prepared_model: int
    def __init__(self, prepared_model: _Optional[int] = ...) -> None: ...

class ProfileReply(_message.Message):
    __slots__ = ("kernels",)
    KERNELS_FIELD_NUMBER: _ClassVar[int]
    kernels: _containers.RepeatedCompositeFieldContainer[KernelTime]
    def __init__(self, kernels: _Optional[_Iterable[_Union[KernelTime, _Mapping]]] = ...) -> None: ...

class KernelTime(_message.Message):
    __slots__ = ("name", "duration_ns", "operations", "label")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DURATION_NS_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    name: str
    duration_ns: int
    operations: _containers.RepeatedScalarFieldContainer[int]
    label: str
    def __init__(self, name: _Optional[str] = ..., duration_ns: _Optional[int] = ..., operations: _Optional[_Iterable[int]] = ..., label: _Optional[str] = ...) -> None: ...

class ExecuteOptions(_message.Message):
    __slots__ = ("measure", "deadline_s", "loop_timeout_s", "attributes")
    MEASURE_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    LOOP_TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    measure: bool
    deadline_s: float
    loop_timeout_s: float
    attributes: _containers.RepeatedCompositeFieldContainer[_types_pb2.AttributeValue]
    def __init__(self, measure: bool = ..., deadline_s: _Optional[float] = ..., loop_timeout_s: _Optional[float] = ..., attributes: _Optional[_Iterable[_Union[_types_pb2.AttributeValue, _Mapping]]] = ...) -> None: ...

class ExecuteRequest(_message.Message):
    __slots__ = ("prepared_model", "request", "options", "wants_times")
    PREPARED_MODEL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    WANTS_TIMES_FIELD_NUMBER: _ClassVar[int]
    prepared_model: int
    request: _types_pb2.Request
    options: ExecuteOptions
    wants_times: bool
    def __init__(self, prepared_model: _Optional[int] = ..., request: _Optional[_Union[_types_pb2.Request, _Mapping]] = ..., options: _Optional[_Union[ExecuteOptions, _Mapping]] = ..., wants_times: bool = ...) -> None: ...

class ExecuteReply(_message.Message):
    __slots__ = ("output_shapes", "timing", "results", "times")
    OUTPUT_SHAPES_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    output_shapes: _containers.RepeatedCompositeFieldContainer[_types_pb2.OutputShape]
    timing: _types_pb2.Timing
    results: _containers.RepeatedScalarFieldContainer[bytes]
    times: bytes
    def __init__(self, output_shapes: _Optional[_Iterable[_Union[_types_pb2.OutputShape, _Mapping]]] = ..., timing: _Optional[_Union[_types_pb2.Timing, _Mapping]] = ..., results: _Optional[_Iterable[bytes]] = ..., times: _Optional[bytes] = ...) -> None: ...

class ExecuteWithDataRequest(_message.Message):
    __slots__ = ("request", "chunks", "bytes_per_s", "part_bytes")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    PART_BYTES_FIELD_NUMBER: _ClassVar[int]
    request: ExecuteRequest
    chunks: _containers.RepeatedCompositeFieldContainer[DataChunk]
    bytes_per_s: float
    part_bytes: int
    def __init__(self, request: _Optional[_Union[ExecuteRequest, _Mapping]] = ..., chunks: _Optional[_Iterable[_Union[DataChunk, _Mapping]]] = ..., bytes_per_s: _Optional[float] = ..., part_bytes: _Optional[int] = ...) -> None: ...

class ExecuteWithDataReply(_message.Message):
    __slots__ = ("reply", "chunks")
    REPLY_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    reply: ExecuteReply
    chunks: _containers.RepeatedCompositeFieldContainer[DataChunk]
    def __init__(self, reply: _Optional[_Union[ExecuteReply, _Mapping]] = ..., chunks: _Optional[_Iterable[_Union[DataChunk, _Mapping]]] = ...) -> None: ...

class ExecuteFencedRequest(_message.Message):
    __slots__ = ("prepared_model", "request", "options", "wait_for", "fence", "after_fences_s")
    PREPARED_MODEL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    WAIT_FOR_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FENCES_S_FIELD_NUMBER: _ClassVar[int]
    prepared_model: int
    request: _types_pb2.Request
    options: ExecuteOptions
    wait_for: _containers.RepeatedScalarFieldContainer[bytes]
    fence: bytes
    after_fences_s: float
    def __init__(self, prepared_model: _Optional[int] = ..., request: _Optional[_Union[_types_pb2.Request, _Mapping]] = ..., options: _Optional[_Union[ExecuteOptions, _Mapping]] = ..., wait_for: _Optional[_Iterable[bytes]] = ..., fence: _Optional[bytes] = ..., after_fences_s: _Optional[float] = ...) -> None: ...

class ExecuteFencedReply(_message.Message):
    __slots__ = ("execution",)
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    execution: int
    def __init__(self, execution: _Optional[int] = ...) -> None: ...

class GetFencedExecutionInfoRequest(_message.Message):
    __slots__ = ("execution",)
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    execution: int
    def __init__(self, execution: _Optional[int] = ...) -> None: ...

class GetFencedExecutionInfoReply(_message.Message):
    __slots__ = ("code", "message", "result", "after_fences")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FENCES_FIELD_NUMBER: _ClassVar[int]
    code: _types_pb2.ResultCode
    message: str
    result: ExecuteReply
    after_fences: _types_pb2.Timing
    def __init__(self, code: _Optional[_Union[_types_pb2.ResultCode, str]] = ..., message: _Optional[str] = ..., result: _Optional[_Union[ExecuteReply, _Mapping]] = ..., after_fences: _Optional[_Union[_types_pb2.Timing, _Mapping]] = ...) -> None: ...

class BufferRole(_message.Message):
    __slots__ = ("prepared_model", "index", "probability")
    PREPARED_MODEL_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    prepared_model: int
    index: int
    probability: float
    def __init__(self, prepared_model: _Optional[int] = ..., index: _Optional[int] = ..., probability: _Optional[float] = ...) -> None: ...

class AllocateRequest(_message.Message):
    __slots__ = ("dimensions", "inputs", "outputs")
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    dimensions: _types_pb2.Dimensions
    inputs: _containers.RepeatedCompositeFieldContainer[BufferRole]
    outputs: _containers.RepeatedCompositeFieldContainer[BufferRole]
    def __init__(self, dimensions: _Optional[_Union[_types_pb2.Dimensions, _Mapping]] = ..., inputs: _Optional[_Iterable[_Union[BufferRole, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[BufferRole, _Mapping]]] = ...) -> None: ...

class AllocateReply(_message.Message):
    __slots__ = ("buffer",)
    BUFFER_FIELD_NUMBER: _ClassVar[int]
    buffer: int
    def __init__(self, buffer: _Optional[int] = ...) -> None: ...

class CopyToBufferRequest(_message.Message):
    __slots__ = ("buffer", "memory", "dimensions")
    BUFFER_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    buffer: int
    memory: bytes
    dimensions: _types_pb2.Dimensions
    def __init__(self, buffer: _Optional[int] = ..., memory: _Optional[bytes] = ..., dimensions: _Optional[_Union[_types_pb2.Dimensions, _Mapping]] = ...) -> None: ...

class CopyToBufferReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CopyFromBufferRequest(_message.Message):
    __slots__ = ("buffer", "memory")
    BUFFER_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    buffer: int
    memory: bytes
    def __init__(self, buffer: _Optional[int] = ..., memory: _Optional[bytes] = ...) -> None: ...

class CopyFromBufferReply(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: bytes
    def __init__(self, result: _Optional[bytes] = ...) -> None: ...

class ReleaseBufferRequest(_message.Message):
    __slots__ = ("buffer",)
    BUFFER_FIELD_NUMBER: _ClassVar[int]
    buffer: int
    def __init__(self, buffer: _Optional[int] = ...) -> None: ...

class ReleaseBufferReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
