"""The messages of the V2 protocol, in a descriptor pool of their own.

Clients' packages register the same package, `inference`, in protobuf's default pool; a process can
then import only one of them. Messages of this pool coexist with all of them.
"""

from importlib.resources import files
from typing import Any, Final

from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message

#: Full name of the service.
SERVICE: Final = "inference.GRPCInferenceService"

POOL: Final = DescriptorPool()
POOL.AddSerializedFile(
    descriptor_pb2.FileDescriptorSet.FromString(
        files("neurald._proto").joinpath("inference.binpb").read_bytes()
    )
    .file[0]
    .SerializeToString()
)


def message_type(name: str) -> Any:
    """Returns the class of a message of the package `inference`."""
    found = POOL.FindMessageTypeByName(f"inference.{name}")
    return message_factory.GetMessageClass(found)


ModelConfig: Final = message_type("ModelConfig")
ModelInferRequest: Final = message_type("ModelInferRequest")
ModelInferResponse: Final = message_type("ModelInferResponse")
ModelStreamInferResponse: Final = message_type("ModelStreamInferResponse")


def as_json(message: Message) -> dict[str, Any]:
    """Returns a message as the HTTP protocol shows it: all fields, and integers as numbers."""
    result: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            value_field = field.message_type.fields_by_name["value"]
            result[field.name] = {key: _json_value(each, value_field) for key, each in value.items()}
        elif field.is_repeated:
            result[field.name] = [_json_value(each, field) for each in value]
        elif not field.has_presence or message.HasField(field.name):
            result[field.name] = _json_value(value, field)
    return result


def _json_value(value: Any, field: Any) -> Any:
    if isinstance(value, Message):
        return as_json(value)
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return value if named is None else named.name
    return value
