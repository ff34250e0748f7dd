"""Answers over HTTP: their status, content and headers."""

from typing import Any, Final

import msgspec

from neurald.service.inference.protocol.messages import as_json

_ENCODER: Final = msgspec.json.Encoder()
#: The status, the content, and the headers.
Answer = tuple[int, bytes, list[tuple[bytes, bytes]]]
#: The headers of an answer in JSON.
JSON: Final = [(b"content-type", b"application/json")]


def error_content(message: str) -> bytes:
    """Returns the content of an answer that says what has failed."""
    return _ENCODER.encode({"error": message})


def json_answer(document: Any) -> Answer:
    """Answers with a document."""
    return 200, _ENCODER.encode(document), JSON


def message_answer(message: Any) -> Answer:
    """Answers with a message of the protocol."""
    return json_answer(as_json(message))
