from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ResultCode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESULT_CODE_NO_ERROR: _ClassVar[ResultCode]
    RESULT_CODE_OUT_OF_MEMORY: _ClassVar[ResultCode]
    RESULT_CODE_INCOMPLETE: _ClassVar[ResultCode]
    RESULT_CODE_UNEXPECTED_NULL: _ClassVar[ResultCode]
    RESULT_CODE_BAD_DATA: _ClassVar[ResultCode]
    RESULT_CODE_OP_FAILED: _ClassVar[ResultCode]
    RESULT_CODE_BAD_STATE: _ClassVar[ResultCode]
    RESULT_CODE_UNMAPPABLE: _ClassVar[ResultCode]
    RESULT_CODE_OUTPUT_INSUFFICIENT_SIZE: _ClassVar[ResultCode]
    RESULT_CODE_UNAVAILABLE_DEVICE: _ClassVar[ResultCode]
    RESULT_CODE_MISSED_DEADLINE_TRANSIENT: _ClassVar[ResultCode]
    RESULT_CODE_MISSED_DEADLINE_PERSISTENT: _ClassVar[ResultCode]
    RESULT_CODE_RESOURCE_EXHAUSTED_TRANSIENT: _ClassVar[ResultCode]
    RESULT_CODE_RESOURCE_EXHAUSTED_PERSISTENT: _ClassVar[ResultCode]
    RESULT_CODE_DEAD_OBJECT: _ClassVar[ResultCode]

class OperandType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OPERAND_TYPE_FLOAT32: _ClassVar[OperandType]
    OPERAND_TYPE_INT32: _ClassVar[OperandType]
    OPERAND_TYPE_UINT32: _ClassVar[OperandType]
    OPERAND_TYPE_TENSOR_FLOAT32: _ClassVar[OperandType]
    OPERAND_TYPE_TENSOR_INT32: _ClassVar[OperandType]
    OPERAND_TYPE_TENSOR_QUANT8_ASYMM: _ClassVar[OperandType]
    OPERAND_TYPE_BOOL: _ClassVar[OperandType]
    OPERAND_TYPE_TENSOR_QUANT16_SYMM: _ClassVar[OperandType]
    OPERAND_TYPE_TENSOR_FLOAT16: _ClassVar[OperandType]
    OPERAND_TYPE_TENSOR_BOOL8: _ClassVar[OperandType]
    OPERAND_TYPE_FLOAT16: _ClassVar[OperandType]
    OPERAND_TYPE_TENSOR_QUANT8_SYMM_PER_CHANNEL: _ClassVar[OperandType]
    OPERAND_TYPE_TENSOR_QUANT16_ASYMM: _ClassVar[OperandType]
    OPERAND_TYPE_TENSOR_QUANT8_SYMM: _ClassVar[OperandType]
    OPERAND_TYPE_TENSOR_QUANT8_ASYMM_SIGNED: _ClassVar[OperandType]
    OPERAND_TYPE_MODEL: _ClassVar[OperandType]
    OPERAND_TYPE_TENSOR_INT64: _ClassVar[OperandType]
    OPERAND_TYPE_TENSOR_UINT32: _ClassVar[OperandType]
    OPERAND_TYPE_TENSOR_UINT64: _ClassVar[OperandType]
    OPERAND_TYPE_TENSOR_FLOAT64: _ClassVar[OperandType]
    OPERAND_TYPE_TENSOR_COMPLEX64: _ClassVar[OperandType]
    OPERAND_TYPE_TENSOR_STRING: _ClassVar[OperandType]
    OPERAND_TYPE_TENSOR_COMPLEX128: _ClassVar[OperandType]

class OperationType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OPERATION_TYPE_ADD: _ClassVar[OperationType]
    OPERATION_TYPE_AVERAGE_POOL_2D: _ClassVar[OperationType]
    OPERATION_TYPE_CONCATENATION: _ClassVar[OperationType]
    OPERATION_TYPE_CONV_2D: _ClassVar[OperationType]
    OPERATION_TYPE_DEPTHWISE_CONV_2D: _ClassVar[OperationType]
    OPERATION_TYPE_DEPTH_TO_SPACE: _ClassVar[OperationType]
    OPERATION_TYPE_DEQUANTIZE: _ClassVar[OperationType]
    OPERATION_TYPE_EMBEDDING_LOOKUP: _ClassVar[OperationType]
    OPERATION_TYPE_FLOOR: _ClassVar[OperationType]
    OPERATION_TYPE_FULLY_CONNECTED: _ClassVar[OperationType]
    OPERATION_TYPE_HASHTABLE_LOOKUP: _ClassVar[OperationType]
    OPERATION_TYPE_L2_NORMALIZATION: _ClassVar[OperationType]
    OPERATION_TYPE_L2_POOL_2D: _ClassVar[OperationType]
    OPERATION_TYPE_LOCAL_RESPONSE_NORMALIZATION: _ClassVar[OperationType]
    OPERATION_TYPE_LOGISTIC: _ClassVar[OperationType]
    OPERATION_TYPE_LSH_PROJECTION: _ClassVar[OperationType]
    OPERATION_TYPE_LSTM: _ClassVar[OperationType]
    OPERATION_TYPE_MAX_POOL_2D: _ClassVar[OperationType]
    OPERATION_TYPE_MUL: _ClassVar[OperationType]
    OPERATION_TYPE_RELU: _ClassVar[OperationType]
    OPERATION_TYPE_RELU1: _ClassVar[OperationType]
    OPERATION_TYPE_RELU6: _ClassVar[OperationType]
    OPERATION_TYPE_RESHAPE: _ClassVar[OperationType]
    OPERATION_TYPE_RESIZE_BILINEAR: _ClassVar[OperationType]
    OPERATION_TYPE_RNN: _ClassVar[OperationType]
    OPERATION_TYPE_SOFTMAX: _ClassVar[OperationType]
    OPERATION_TYPE_SPACE_TO_DEPTH: _ClassVar[OperationType]
    OPERATION_TYPE_SVDF: _ClassVar[OperationType]
    OPERATION_TYPE_TANH: _ClassVar[OperationType]
    OPERATION_TYPE_BATCH_TO_SPACE_ND: _ClassVar[OperationType]
    OPERATION_TYPE_DIV: _ClassVar[OperationType]
    OPERATION_TYPE_MEAN: _ClassVar[OperationType]
    OPERATION_TYPE_PAD: _ClassVar[OperationType]
    OPERATION_TYPE_SPACE_TO_BATCH_ND: _ClassVar[OperationType]
    OPERATION_TYPE_SQUEEZE: _ClassVar[OperationType]
    OPERATION_TYPE_STRIDED_SLICE: _ClassVar[OperationType]
    OPERATION_TYPE_SUB: _ClassVar[OperationType]
    OPERATION_TYPE_TRANSPOSE: _ClassVar[OperationType]
    OPERATION_TYPE_ABS: _ClassVar[OperationType]
    OPERATION_TYPE_ARGMAX: _ClassVar[OperationType]
    OPERATION_TYPE_ARGMIN: _ClassVar[OperationType]
    OPERATION_TYPE_AXIS_ALIGNED_BBOX_TRANSFORM: _ClassVar[OperationType]
    OPERATION_TYPE_BIDIRECTIONAL_SEQUENCE_LSTM: _ClassVar[OperationType]
    OPERATION_TYPE_BIDIRECTIONAL_SEQUENCE_RNN: _ClassVar[OperationType]
    OPERATION_TYPE_BOX_WITH_NMS_LIMIT: _ClassVar[OperationType]
    OPERATION_TYPE_CAST: _ClassVar[OperationType]
    OPERATION_TYPE_CHANNEL_SHUFFLE: _ClassVar[OperationType]
    OPERATION_TYPE_DETECTION_POSTPROCESSING: _ClassVar[OperationType]
    OPERATION_TYPE_EQUAL: _ClassVar[OperationType]
    OPERATION_TYPE_EXP: _ClassVar[OperationType]
    OPERATION_TYPE_EXPAND_DIMS: _ClassVar[OperationType]
    OPERATION_TYPE_GATHER: _ClassVar[OperationType]
    OPERATION_TYPE_GENERATE_PROPOSALS: _ClassVar[OperationType]
    OPERATION_TYPE_GREATER: _ClassVar[OperationType]
    OPERATION_TYPE_GREATER_EQUAL: _ClassVar[OperationType]
    OPERATION_TYPE_GROUPED_CONV_2D: _ClassVar[OperationType]
    OPERATION_TYPE_HEATMAP_MAX_KEYPOINT: _ClassVar[OperationType]
    OPERATION_TYPE_INSTANCE_NORMALIZATION: _ClassVar[OperationType]
    OPERATION_TYPE_LESS: _ClassVar[OperationType]
    OPERATION_TYPE_LESS_EQUAL: _ClassVar[OperationType]
    OPERATION_TYPE_LOG: _ClassVar[OperationType]
    OPERATION_TYPE_LOGICAL_AND: _ClassVar[OperationType]
    OPERATION_TYPE_LOGICAL_NOT: _ClassVar[OperationType]
    OPERATION_TYPE_LOGICAL_OR: _ClassVar[OperationType]
    OPERATION_TYPE_LOG_SOFTMAX: _ClassVar[OperationType]
    OPERATION_TYPE_MAXIMUM: _ClassVar[OperationType]
    OPERATION_TYPE_MINIMUM: _ClassVar[OperationType]
    OPERATION_TYPE_NEG: _ClassVar[OperationType]
    OPERATION_TYPE_NOT_EQUAL: _ClassVar[OperationType]
    OPERATION_TYPE_PAD_V2: _ClassVar[OperationType]
    OPERATION_TYPE_POW: _ClassVar[OperationType]
    OPERATION_TYPE_PRELU: _ClassVar[OperationType]
    OPERATION_TYPE_QUANTIZE: _ClassVar[OperationType]
    OPERATION_TYPE_QUANTIZED_16BIT_LSTM: _ClassVar[OperationType]
    OPERATION_TYPE_RANDOM_MULTINOMIAL: _ClassVar[OperationType]
    OPERATION_TYPE_REDUCE_ALL: _ClassVar[OperationType]
    OPERATION_TYPE_REDUCE_ANY: _ClassVar[OperationType]
    OPERATION_TYPE_REDUCE_MAX: _ClassVar[OperationType]
    OPERATION_TYPE_REDUCE_MIN: _ClassVar[OperationType]
    OPERATION_TYPE_REDUCE_PROD: _ClassVar[OperationType]
    OPERATION_TYPE_REDUCE_SUM: _ClassVar[OperationType]
    OPERATION_TYPE_ROI_ALIGN: _ClassVar[OperationType]
    OPERATION_TYPE_ROI_POOLING: _ClassVar[OperationType]
    OPERATION_TYPE_RSQRT: _ClassVar[OperationType]
    OPERATION_TYPE_SELECT: _ClassVar[OperationType]
    OPERATION_TYPE_SIN: _ClassVar[OperationType]
    OPERATION_TYPE_SLICE: _ClassVar[OperationType]
    OPERATION_TYPE_SPLIT: _ClassVar[OperationType]
    OPERATION_TYPE_SQRT: _ClassVar[OperationType]
    OPERATION_TYPE_TILE: _ClassVar[OperationType]
    OPERATION_TYPE_TOPK_V2: _ClassVar[OperationType]
    OPERATION_TYPE_TRANSPOSE_CONV_2D: _ClassVar[OperationType]
    OPERATION_TYPE_UNIDIRECTIONAL_SEQUENCE_LSTM: _ClassVar[OperationType]
    OPERATION_TYPE_UNIDIRECTIONAL_SEQUENCE_RNN: _ClassVar[OperationType]
    OPERATION_TYPE_RESIZE_NEAREST_NEIGHBOR: _ClassVar[OperationType]
    OPERATION_TYPE_QUANTIZED_LSTM: _ClassVar[OperationType]
    OPERATION_TYPE_IF: _ClassVar[OperationType]
    OPERATION_TYPE_WHILE: _ClassVar[OperationType]
    OPERATION_TYPE_ELU: _ClassVar[OperationType]
    OPERATION_TYPE_HARD_SWISH: _ClassVar[OperationType]
    OPERATION_TYPE_FILL: _ClassVar[OperationType]
    OPERATION_TYPE_RANK: _ClassVar[OperationType]
    OPERATION_TYPE_BATCH_MATMUL: _ClassVar[OperationType]
    OPERATION_TYPE_PACK: _ClassVar[OperationType]
    OPERATION_TYPE_MIRROR_PAD: _ClassVar[OperationType]
    OPERATION_TYPE_REVERSE: _ClassVar[OperationType]
    OPERATION_TYPE_DENSIFY: _ClassVar[OperationType]

class Lifetime(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LIFETIME_TEMPORARY_VARIABLE: _ClassVar[Lifetime]
    LIFETIME_SUBGRAPH_INPUT: _ClassVar[Lifetime]
    LIFETIME_SUBGRAPH_OUTPUT: _ClassVar[Lifetime]
    LIFETIME_CONSTANT_COPY: _ClassVar[Lifetime]
    LIFETIME_CONSTANT_POOL: _ClassVar[Lifetime]
    LIFETIME_NO_VALUE: _ClassVar[Lifetime]
    LIFETIME_SUBGRAPH: _ClassVar[Lifetime]

class FeatureLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FEATURE_LEVEL_UNSPECIFIED: _ClassVar[FeatureLevel]
    FEATURE_LEVEL_LEVEL_1: _ClassVar[FeatureLevel]
    FEATURE_LEVEL_LEVEL_2: _ClassVar[FeatureLevel]
    FEATURE_LEVEL_LEVEL_3: _ClassVar[FeatureLevel]
    FEATURE_LEVEL_LEVEL_4: _ClassVar[FeatureLevel]
    FEATURE_LEVEL_LEVEL_5: _ClassVar[FeatureLevel]
    FEATURE_LEVEL_LEVEL_6: _ClassVar[FeatureLevel]
    FEATURE_LEVEL_LEVEL_7: _ClassVar[FeatureLevel]
    FEATURE_LEVEL_LEVEL_8: _ClassVar[FeatureLevel]
    FEATURE_LEVEL_EXPERIMENTAL: _ClassVar[FeatureLevel]

class DeviceType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEVICE_TYPE_UNKNOWN: _ClassVar[DeviceType]
    DEVICE_TYPE_OTHER: _ClassVar[DeviceType]
    DEVICE_TYPE_CPU: _ClassVar[DeviceType]
    DEVICE_TYPE_GPU: _ClassVar[DeviceType]
    DEVICE_TYPE_ACCELERATOR: _ClassVar[DeviceType]

class Preference(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PREFERENCE_LOW_POWER: _ClassVar[Preference]
    PREFERENCE_FAST_SINGLE_ANSWER: _ClassVar[Preference]
    PREFERENCE_SUSTAINED_SPEED: _ClassVar[Preference]

class Priority(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRIORITY_UNSPECIFIED: _ClassVar[Priority]
    PRIORITY_LOW: _ClassVar[Priority]
    PRIORITY_MEDIUM: _ClassVar[Priority]
    PRIORITY_HIGH: _ClassVar[Priority]
RESULT_CODE_NO_ERROR: ResultCode
RESULT_CODE_OUT_OF_MEMORY: ResultCode
RESULT_CODE_INCOMPLETE: ResultCode
RESULT_CODE_UNEXPECTED_NULL: ResultCode
RESULT_CODE_BAD_DATA: ResultCode
RESULT_CODE_OP_FAILED: ResultCode
RESULT_CODE_BAD_STATE: ResultCode
RESULT_CODE_UNMAPPABLE: ResultCode
RESULT_CODE_OUTPUT_INSUFFICIENT_SIZE: ResultCode
RESULT_CODE_UNAVAILABLE_DEVICE: ResultCode
RESULT_CODE_MISSED_DEADLINE_TRANSIENT: ResultCode
RESULT_CODE_MISSED_DEADLINE_PERSISTENT: ResultCode
RESULT_CODE_RESOURCE_EXHAUSTED_TRANSIENT: ResultCode
RESULT_CODE_RESOURCE_EXHAUSTED_PERSISTENT: ResultCode
RESULT_CODE_DEAD_OBJECT: ResultCode
OPERAND_TYPE_FLOAT32: OperandType
OPERAND_TYPE_INT32: OperandType
OPERAND_TYPE_UINT32: OperandType
OPERAND_TYPE_TENSOR_FLOAT32: OperandType
OPERAND_TYPE_TENSOR_INT32: OperandType
OPERAND_TYPE_TENSOR_QUANT8_ASYMM: OperandType
OPERAND_TYPE_BOOL: OperandType
OPERAND_TYPE_TENSOR_QUANT16_SYMM: OperandType
OPERAND_TYPE_TENSOR_FLOAT16: OperandType
OPERAND_TYPE_TENSOR_BOOL8: OperandType
OPERAND_TYPE_FLOAT16: OperandType
OPERAND_TYPE_TENSOR_QUANT8_SYMM_PER_CHANNEL: OperandType
OPERAND_TYPE_TENSOR_QUANT16_ASYMM: OperandType
OPERAND_TYPE_TENSOR_QUANT8_SYMM: OperandType
OPERAND_TYPE_TENSOR_QUANT8_ASYMM_SIGNED: OperandType
OPERAND_TYPE_MODEL: OperandType
OPERAND_TYPE_TENSOR_INT64: OperandType
OPERAND_TYPE_TENSOR_UINT32: OperandType
OPERAND_TYPE_TENSOR_UINT64: OperandType
OPERAND_TYPE_TENSOR_FLOAT64: OperandType
OPERAND_TYPE_TENSOR_COMPLEX64: OperandType
OPERAND_TYPE_TENSOR_STRING: OperandType
OPERAND_TYPE_TENSOR_COMPLEX128: OperandType
OPERATION_TYPE_ADD: OperationType
OPERATION_TYPE_AVERAGE_POOL_2D: OperationType
OPERATION_TYPE_CONCATENATION: OperationType
OPERATION_TYPE_CONV_2D: OperationType
OPERATION_TYPE_DEPTHWISE_CONV_2D: OperationType
OPERATION_TYPE_DEPTH_TO_SPACE: OperationType
OPERATION_TYPE_DEQUANTIZE: OperationType
OPERATION_TYPE_EMBEDDING_LOOKUP: OperationType
OPERATION_TYPE_FLOOR: OperationType
OPERATION_TYPE_FULLY_CONNECTED: OperationType
OPERATION_TYPE_HASHTABLE_LOOKUP: OperationType
OPERATION_TYPE_L2_NORMALIZATION: OperationType
OPERATION_TYPE_L2_POOL_2D: OperationType
OPERATION_TYPE_LOCAL_RESPONSE_NORMALIZATION: OperationType
OPERATION_TYPE_LOGISTIC: OperationType
OPERATION_TYPE_LSH_PROJECTION: OperationType
OPERATION_TYPE_LSTM: OperationType
OPERATION_TYPE_MAX_POOL_2D: OperationType
OPERATION_TYPE_MUL: OperationType
OPERATION_TYPE_RELU: OperationType
OPERATION_TYPE_RELU1: OperationType
OPERATION_TYPE_RELU6: OperationType
OPERATION_TYPE_RESHAPE: OperationType
OPERATION_TYPE_RESIZE_BILINEAR: OperationType
OPERATION_TYPE_RNN: OperationType
OPERATION_TYPE_SOFTMAX: OperationType
OPERATION_TYPE_SPACE_TO_DEPTH: OperationType
OPERATION_TYPE_SVDF: OperationType
OPERATION_TYPE_TANH: OperationType
OPERATION_TYPE_BATCH_TO_SPACE_ND: OperationType
OPERATION_TYPE_DIV: OperationType
OPERATION_TYPE_MEAN: OperationType
OPERATION_TYPE_PAD: OperationType
OPERATION_TYPE_SPACE_TO_BATCH_ND: OperationType
OPERATION_TYPE_SQUEEZE: OperationType
OPERATION_TYPE_STRIDED_SLICE: OperationType
OPERATION_TYPE_SUB: OperationType
OPERATION_TYPE_TRANSPOSE: OperationType
OPERATION_TYPE_ABS: OperationType
OPERATION_TYPE_ARGMAX: OperationType
OPERATION_TYPE_ARGMIN: OperationType
OPERATION_TYPE_AXIS_ALIGNED_BBOX_TRANSFORM: OperationType
OPERATION_TYPE_BIDIRECTIONAL_SEQUENCE_LSTM: OperationType
OPERATION_TYPE_BIDIRECTIONAL_SEQUENCE_RNN: OperationType
OPERATION_TYPE_BOX_WITH_NMS_LIMIT: OperationType
OPERATION_TYPE_CAST: OperationType
OPERATION_TYPE_CHANNEL_SHUFFLE: OperationType
OPERATION_TYPE_DETECTION_POSTPROCESSING: OperationType
OPERATION_TYPE_EQUAL: OperationType
OPERATION_TYPE_EXP: OperationType
OPERATION_TYPE_EXPAND_DIMS: OperationType
OPERATION_TYPE_GATHER: OperationType
OPERATION_TYPE_GENERATE_PROPOSALS: OperationType
OPERATION_TYPE_GREATER: OperationType
OPERATION_TYPE_GREATER_EQUAL: OperationType
OPERATION_TYPE_GROUPED_CONV_2D: OperationType
OPERATION_TYPE_HEATMAP_MAX_KEYPOINT: OperationType
OPERATION_TYPE_INSTANCE_NORMALIZATION: OperationType
OPERATION_TYPE_LESS: OperationType
OPERATION_TYPE_LESS_EQUAL: OperationType
OPERATION_TYPE_LOG: OperationType
OPERATION_TYPE_LOGICAL_AND: OperationType
OPERATION_TYPE_LOGICAL_NOT: OperationType
OPERATION_TYPE_LOGICAL_OR: OperationType
OPERATION_TYPE_LOG_SOFTMAX: OperationType
OPERATION_TYPE_MAXIMUM: OperationType
OPERATION_TYPE_MINIMUM: OperationType
OPERATION_TYPE_NEG: OperationType
OPERATION_TYPE_NOT_EQUAL: OperationType
OPERATION_TYPE_PAD_V2: OperationType
OPERATION_TYPE_POW: OperationType
OPERATION_TYPE_PRELU: OperationType
OPERATION_TYPE_QUANTIZE: OperationType
OPERATION_TYPE_QUANTIZED_16BIT_LSTM: OperationType
OPERATION_TYPE_RANDOM_MULTINOMIAL: OperationType
OPERATION_TYPE_REDUCE_ALL: OperationType
OPERATION_TYPE_REDUCE_ANY: OperationType
OPERATION_TYPE_REDUCE_MAX: OperationType
OPERATION_TYPE_REDUCE_MIN: OperationType
OPERATION_TYPE_REDUCE_PROD: OperationType
OPERATION_TYPE_REDUCE_SUM: OperationType
OPERATION_TYPE_ROI_ALIGN: OperationType
OPERATION_TYPE_ROI_POOLING: OperationType
OPERATION_TYPE_RSQRT: OperationType
OPERATION_TYPE_SELECT: OperationType
OPERATION_TYPE_SIN: OperationType
OPERATION_TYPE_SLICE: OperationType
OPERATION_TYPE_SPLIT: OperationType
OPERATION_TYPE_SQRT: OperationType
OPERATION_TYPE_TILE: OperationType
OPERATION_TYPE_TOPK_V2: OperationType
OPERATION_TYPE_TRANSPOSE_CONV_2D: OperationType
OPERATION_TYPE_UNIDIRECTIONAL_SEQUENCE_LSTM: OperationType
OPERATION_TYPE_UNIDIRECTIONAL_SEQUENCE_RNN: OperationType
OPERATION_TYPE_RESIZE_NEAREST_NEIGHBOR: OperationType
OPERATION_TYPE_QUANTIZED_LSTM: OperationType
OPERATION_TYPE_IF: OperationType
OPERATION_TYPE_WHILE: OperationType
OPERATION_TYPE_ELU: OperationType
OPERATION_TYPE_HARD_SWISH: OperationType
OPERATION_TYPE_FILL: OperationType
OPERATION_TYPE_RANK: OperationType
OPERATION_TYPE_BATCH_MATMUL: OperationType
OPERATION_TYPE_PACK: OperationType
OPERATION_TYPE_MIRROR_PAD: OperationType
OPERATION_TYPE_REVERSE: OperationType
OPERATION_TYPE_DENSIFY: OperationType
LIFETIME_TEMPORARY_VARIABLE: Lifetime
LIFETIME_SUBGRAPH_INPUT: Lifetime
LIFETIME_SUBGRAPH_OUTPUT: Lifetime
LIFETIME_CONSTANT_COPY: Lifetime
LIFETIME_CONSTANT_POOL: Lifetime
LIFETIME_NO_VALUE: Lifetime
LIFETIME_SUBGRAPH: Lifetime
FEATURE_LEVEL_UNSPECIFIED: FeatureLevel
FEATURE_LEVEL_LEVEL_1: FeatureLevel
FEATURE_LEVEL_LEVEL_2: FeatureLevel
FEATURE_LEVEL_LEVEL_3: FeatureLevel
FEATURE_LEVEL_LEVEL_4: FeatureLevel
FEATURE_LEVEL_LEVEL_5: FeatureLevel
FEATURE_LEVEL_LEVEL_6: FeatureLevel
FEATURE_LEVEL_LEVEL_7: FeatureLevel
FEATURE_LEVEL_LEVEL_8: FeatureLevel
FEATURE_LEVEL_EXPERIMENTAL: FeatureLevel
DEVICE_TYPE_UNKNOWN: DeviceType
DEVICE_TYPE_OTHER: DeviceType
DEVICE_TYPE_CPU: DeviceType
DEVICE_TYPE_GPU: DeviceType
DEVICE_TYPE_ACCELERATOR: DeviceType
PREFERENCE_LOW_POWER: Preference
PREFERENCE_FAST_SINGLE_ANSWER: Preference
PREFERENCE_SUSTAINED_SPEED: Preference
PRIORITY_UNSPECIFIED: Priority
PRIORITY_LOW: Priority
PRIORITY_MEDIUM: Priority
PRIORITY_HIGH: Priority

class Dimensions(_message.Message):
    __slots__ = ("sizes",)
    SIZES_FIELD_NUMBER: _ClassVar[int]
    sizes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, sizes: _Optional[_Iterable[int]] = ...) -> None: ...

class Location(_message.Message):
    __slots__ = ("pool", "offset", "length")
    POOL_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    pool: int
    offset: int
    length: int
    def __init__(self, pool: _Optional[int] = ..., offset: _Optional[int] = ..., length: _Optional[int] = ...) -> None: ...

class ChannelQuant(_message.Message):
    __slots__ = ("dimension", "scales")
    DIMENSION_FIELD_NUMBER: _ClassVar[int]
    SCALES_FIELD_NUMBER: _ClassVar[int]
    dimension: int
    scales: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, dimension: _Optional[int] = ..., scales: _Optional[_Iterable[float]] = ...) -> None: ...

class Operand(_message.Message):
    __slots__ = ("type", "dimensions", "scale", "zero_point", "channel_quant", "lifetime", "value", "location", "subgraph", "name", "number", "extension_data")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    ZERO_POINT_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_QUANT_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    SUBGRAPH_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    EXTENSION_DATA_FIELD_NUMBER: _ClassVar[int]
    type: OperandType
    dimensions: Dimensions
    scale: float
    zero_point: int
    channel_quant: ChannelQuant
    lifetime: Lifetime
    value: bytes
    location: Location
    subgraph: int
    name: str
    number: int
    extension_data: bytes
    def __init__(self, type: _Optional[_Union[OperandType, str]] = ..., dimensions: _Optional[_Union[Dimensions, _Mapping]] = ..., scale: _Optional[float] = ..., zero_point: _Optional[int] = ..., channel_quant: _Optional[_Union[ChannelQuant, _Mapping]] = ..., lifetime: _Optional[_Union[Lifetime, str]] = ..., value: _Optional[bytes] = ..., location: _Optional[_Union[Location, _Mapping]] = ..., subgraph: _Optional[int] = ..., name: _Optional[str] = ..., number: _Optional[int] = ..., extension_data: _Optional[bytes] = ...) -> None: ...

class Extension(_message.Message):
    __slots__ = ("name", "operand_types", "operations", "compilation_attributes", "execution_attributes")
    class OperandType(_message.Message):
        __slots__ = ("code", "name", "is_tensor", "element_bytes")
        CODE_FIELD_NUMBER: _ClassVar[int]
        NAME_FIELD_NUMBER: _ClassVar[int]
        IS_TENSOR_FIELD_NUMBER: _ClassVar[int]
        ELEMENT_BYTES_FIELD_NUMBER: _ClassVar[int]
        code: int
        name: str
        is_tensor: bool
        element_bytes: int
        def __init__(self, code: _Optional[int] = ..., name: _Optional[str] = ..., is_tensor: bool = ..., element_bytes: _Optional[int] = ...) -> None: ...
    class Operation(_message.Message):
        __slots__ = ("code", "name")
        CODE_FIELD_NUMBER: _ClassVar[int]
        NAME_FIELD_NUMBER: _ClassVar[int]
        code: int
        name: str
        def __init__(self, code: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...
    class Attribute(_message.Message):
        __slots__ = ("code", "name")
        CODE_FIELD_NUMBER: _ClassVar[int]
        NAME_FIELD_NUMBER: _ClassVar[int]
        code: int
        name: str
        def __init__(self, code: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    OPERAND_TYPES_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    COMPILATION_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    operand_types: _containers.RepeatedCompositeFieldContainer[Extension.OperandType]
    operations: _containers.RepeatedCompositeFieldContainer[Extension.Operation]
    compilation_attributes: _containers.RepeatedCompositeFieldContainer[Extension.Attribute]
    execution_attributes: _containers.RepeatedCompositeFieldContainer[Extension.Attribute]
    def __init__(self, name: _Optional[str] = ..., operand_types: _Optional[_Iterable[_Union[Extension.OperandType, _Mapping]]] = ..., operations: _Optional[_Iterable[_Union[Extension.Operation, _Mapping]]] = ..., compilation_attributes: _Optional[_Iterable[_Union[Extension.Attribute, _Mapping]]] = ..., execution_attributes: _Optional[_Iterable[_Union[Extension.Attribute, _Mapping]]] = ...) -> None: ...

class AttributeValue(_message.Message):
    __slots__ = ("extension", "declaration", "code", "value")
    EXTENSION_FIELD_NUMBER: _ClassVar[int]
    DECLARATION_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    extension: str
    declaration: bytes
    code: int
    value: bytes
    def __init__(self, extension: _Optional[str] = ..., declaration: _Optional[bytes] = ..., code: _Optional[int] = ..., value: _Optional[bytes] = ...) -> None: ...

class Operation(_message.Message):
    __slots__ = ("type", "inputs", "outputs", "number")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    type: OperationType
    inputs: _containers.RepeatedScalarFieldContainer[int]
    outputs: _containers.RepeatedScalarFieldContainer[int]
    number: int
    def __init__(self, type: _Optional[_Union[OperationType, str]] = ..., inputs: _Optional[_Iterable[int]] = ..., outputs: _Optional[_Iterable[int]] = ..., number: _Optional[int] = ...) -> None: ...

class Subgraph(_message.Message):
    __slots__ = ("operands", "operations", "inputs", "outputs", "number")
    OPERANDS_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    operands: _containers.RepeatedCompositeFieldContainer[Operand]
    operations: _containers.RepeatedCompositeFieldContainer[Operation]
    inputs: _containers.RepeatedScalarFieldContainer[int]
    outputs: _containers.RepeatedScalarFieldContainer[int]
    number: int
    def __init__(self, operands: _Optional[_Iterable[_Union[Operand, _Mapping]]] = ..., operations: _Optional[_Iterable[_Union[Operation, _Mapping]]] = ..., inputs: _Optional[_Iterable[int]] = ..., outputs: _Optional[_Iterable[int]] = ..., number: _Optional[int] = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ("main", "referenced", "pools", "relaxed", "input_names", "output_names", "signatures", "extensions")
    class Signature(_message.Message):
        __slots__ = ("inputs", "outputs")
        INPUTS_FIELD_NUMBER: _ClassVar[int]
        OUTPUTS_FIELD_NUMBER: _ClassVar[int]
        inputs: _containers.RepeatedScalarFieldContainer[str]
        outputs: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, inputs: _Optional[_Iterable[str]] = ..., outputs: _Optional[_Iterable[str]] = ...) -> None: ...
    class SignaturesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Model.Signature
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Model.Signature, _Mapping]] = ...) -> None: ...
    MAIN_FIELD_NUMBER: _ClassVar[int]
    REFERENCED_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    RELAXED_FIELD_NUMBER: _ClassVar[int]
    INPUT_NAMES_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_NAMES_FIELD_NUMBER: _ClassVar[int]
    SIGNATURES_FIELD_NUMBER: _ClassVar[int]
    EXTENSIONS_FIELD_NUMBER: _ClassVar[int]
    main: Subgraph
    referenced: _containers.RepeatedCompositeFieldContainer[Subgraph]
    pools: _containers.RepeatedScalarFieldContainer[bytes]
    relaxed: bool
    input_names: _containers.RepeatedScalarFieldContainer[str]
    output_names: _containers.RepeatedScalarFieldContainer[str]
    signatures: _containers.MessageMap[str, Model.Signature]
    extensions: _containers.RepeatedCompositeFieldContainer[Extension]
    def __init__(self, main: _Optional[_Union[Subgraph, _Mapping]] = ..., referenced: _Optional[_Iterable[_Union[Subgraph, _Mapping]]] = ..., pools: _Optional[_Iterable[bytes]] = ..., relaxed: bool = ..., input_names: _Optional[_Iterable[str]] = ..., output_names: _Optional[_Iterable[str]] = ..., signatures: _Optional[_Mapping[str, Model.Signature]] = ..., extensions: _Optional[_Iterable[_Union[Extension, _Mapping]]] = ...) -> None: ...

class Argument(_message.Message):
    __slots__ = ("pool", "offset", "length", "dimensions", "padding")
    POOL_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    pool: int
    offset: int
    length: int
    dimensions: Dimensions
    padding: int
    def __init__(self, pool: _Optional[int] = ..., offset: _Optional[int] = ..., length: _Optional[int] = ..., dimensions: _Optional[_Union[Dimensions, _Mapping]] = ..., padding: _Optional[int] = ...) -> None: ...

class RequestPool(_message.Message):
    __slots__ = ("memory", "results_bytes", "buffer", "content_bytes")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    RESULTS_BYTES_FIELD_NUMBER: _ClassVar[int]
    BUFFER_FIELD_NUMBER: _ClassVar[int]
    CONTENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    memory: bytes
    results_bytes: int
    buffer: int
    content_bytes: int
    def __init__(self, memory: _Optional[bytes] = ..., results_bytes: _Optional[int] = ..., buffer: _Optional[int] = ..., content_bytes: _Optional[int] = ...) -> None: ...

class Request(_message.Message):
    __slots__ = ("inputs", "outputs", "pools")
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    inputs: _containers.RepeatedCompositeFieldContainer[Argument]
    outputs: _containers.RepeatedCompositeFieldContainer[Argument]
    pools: _containers.RepeatedCompositeFieldContainer[RequestPool]
    def __init__(self, inputs: _Optional[_Iterable[_Union[Argument, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[Argument, _Mapping]]] = ..., pools: _Optional[_Iterable[_Union[RequestPool, _Mapping]]] = ...) -> None: ...

class OutputShape(_message.Message):
    __slots__ = ("dimensions", "sufficient", "length")
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    SUFFICIENT_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    dimensions: Dimensions
    sufficient: bool
    length: int
    def __init__(self, dimensions: _Optional[_Union[Dimensions, _Mapping]] = ..., sufficient: bool = ..., length: _Optional[int] = ...) -> None: ...

class Timing(_message.Message):
    __slots__ = ("on_device_ns", "in_driver_ns", "queued_ns")
    ON_DEVICE_NS_FIELD_NUMBER: _ClassVar[int]
    IN_DRIVER_NS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_NS_FIELD_NUMBER: _ClassVar[int]
    on_device_ns: int
    in_driver_ns: int
    queued_ns: int
    def __init__(self, on_device_ns: _Optional[int] = ..., in_driver_ns: _Optional[int] = ..., queued_ns: _Optional[int] = ...) -> None: ...

class Verdict(_message.Message):
    __slots__ = ("ok", "reason")
    OK_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ok: bool
    reason: str
    def __init__(self, ok: bool = ..., reason: _Optional[str] = ...) -> None: ...

class Performance(_message.Message):
    __slots__ = ("exec_time", "power_usage")
    EXEC_TIME_FIELD_NUMBER: _ClassVar[int]
    POWER_USAGE_FIELD_NUMBER: _ClassVar[int]
    exec_time: float
    power_usage: float
    def __init__(self, exec_time: _Optional[float] = ..., power_usage: _Optional[float] = ...) -> None: ...

class Capabilities(_message.Message):
    __slots__ = ("operand_performance", "relaxed_float32_scalar", "relaxed_float32_tensor", "if_performance", "while_performance")
    class OperandPerformance(_message.Message):
        __slots__ = ("type", "performance")
        TYPE_FIELD_NUMBER: _ClassVar[int]
        PERFORMANCE_FIELD_NUMBER: _ClassVar[int]
        type: OperandType
        performance: Performance
        def __init__(self, type: _Optional[_Union[OperandType, str]] = ..., performance: _Optional[_Union[Performance, _Mapping]] = ...) -> None: ...
    OPERAND_PERFORMANCE_FIELD_NUMBER: _ClassVar[int]
    RELAXED_FLOAT32_SCALAR_FIELD_NUMBER: _ClassVar[int]
    RELAXED_FLOAT32_TENSOR_FIELD_NUMBER: _ClassVar[int]
    IF_PERFORMANCE_FIELD_NUMBER: _ClassVar[int]
    WHILE_PERFORMANCE_FIELD_NUMBER: _ClassVar[int]
    operand_performance: _containers.RepeatedCompositeFieldContainer[Capabilities.OperandPerformance]
    relaxed_float32_scalar: Performance
    relaxed_float32_tensor: Performance
    if_performance: Performance
    while_performance: Performance
    def __init__(self, operand_performance: _Optional[_Iterable[_Union[Capabilities.OperandPerformance, _Mapping]]] = ..., relaxed_float32_scalar: _Optional[_Union[Performance, _Mapping]] = ..., relaxed_float32_tensor: _Optional[_Union[Performance, _Mapping]] = ..., if_performance: _Optional[_Union[Performance, _Mapping]] = ..., while_performance: _Optional[_Union[Performance, _Mapping]] = ...) -> None: ...
