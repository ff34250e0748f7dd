"""Inferences over HTTP."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final, TypeVar

from neurald.service.inference.models.runs.known_run import BegunRun, EndedRun, NoteKnown
from neurald.service.inference.models.served_version import ServedVersion
from neurald.service.inference.protocol.errors import ServiceError
from neurald.service.inference.protocol.generate_encoding import (
    decode_generate_request,
    encode_generate_answer,
)
from neurald.service.inference.protocol.json_encoding import (
    ParsedRequest,
    checked_request,
    encode_answer,
    parse_request,
)
from neurald.service.inference.protocol.known_requests import MAX_KNOWN_BYTES, KnownTable
from neurald.service.inference.protocol.tensors import InferenceAnswer, InferenceRequest
from neurald.service.inference.server.admission.header_forwarding import ForwardedHeaders
from neurald.service.inference.server.admission.restrictions import Restrictions
from neurald.service.inference.server.calls.calls import Calls
from neurald.service.inference.server.calls.endpoint_load import LOAD_FORMAT, LOAD_REPORT
from neurald.service.inference.server.http.answers import JSON, Answer
from neurald.service.inference.server.http.compression import chosen_encoding, compressed
from neurald.service.inference.server.http.request_body import HEADER_LENGTH, RequestBody

#: What a message may have in addition to the bytes of its tensors.
_ENVELOPE_BYTES: Final = 64 << 10
#: Shorter JSON of inferences is parsed at once, which takes some milliseconds.
_SHORT_JSON_BYTES: Final = 1 << 18
_Parsed = TypeVar("_Parsed")
_LOAD_FORMAT: Final = LOAD_FORMAT.encode()
_LOAD_REPORT: Final = LOAD_REPORT.encode()
_EVENTS: Final = [(b"content-type", b"text/event-stream; charset=utf-8")]


class HttpInferences:
    """Answers inferences over HTTP, for clients that were admitted.

    Args:
        calls, message_bytes, restrictions, forwarded: see `HttpApp`.
    """

    def __init__(
        self,
        calls: Calls,
        *,
        message_bytes: int,
        restrictions: Restrictions,
        forwarded: ForwardedHeaders,
    ) -> None:
        self._calls = calls
        self._message_bytes = message_bytes
        self._restrictions = restrictions
        self._forwarded = forwarded
        #: Held while a thread parses, since several would only wait for each other.
        self._parsing = asyncio.Lock()
        self._known = KnownTable()
        #: How many inferences are under way.
        self._running = 0

    async def infer(self, body: RequestBody, model: str, version: str) -> Answer:
        """Answers an inference of the protocol."""
        header_bytes = body.header_number(HEADER_LENGTH)
        async with self._arriving(body, model, version):
            content = await body.read(self._message_bytes, envelope=_ENVELOPE_BYTES if header_bytes else 0)
        self._running += 1
        try:
            if header_bytes is None and len(content) <= MAX_KNOWN_BYTES:
                answer = await self._inferred_again(body, content, model, version)
            else:
                answer = await self._inferred(body, content, header_bytes, model, version)
        finally:
            self._running -= 1
        encoded, header_bytes = answer if isinstance(answer, tuple) else (answer, None)
        headers = JSON
        if header_bytes is not None:
            headers = [
                (b"content-type", b"application/octet-stream"),
                (HEADER_LENGTH, str(header_bytes).encode()),
            ]
        headers = self._with_load(headers, body)
        encoding = chosen_encoding(body.headers.get(b"accept-encoding", b""))
        if not encoding:
            return 200, encoded, headers
        return 200, await compressed(encoded, encoding), [*headers, (b"content-encoding", encoding)]

    async def _inferred(
        self, body: RequestBody, content: bytes, header_bytes: int | None, model: str, version: str
    ) -> Any:
        """Returns the answer of an inference; see `encode_answer`."""
        if header_bytes == 0:
            request = self._calls.raw_request(model, version, memoryview(content))
        else:
            parsed = await self._parsed(content, header_bytes)
            request = checked_request(model, version, parsed, self._calls.regions)
        return await body.unless_gone(
            self._calls.infer(self._with_headers(request, body), encode_answer, body.remaining_s)
        )

    def _with_headers(self, request: InferenceRequest, body: RequestBody) -> InferenceRequest:
        """Returns a request with what the headers of the client say of it."""
        forwarded = self._forwarded.of_http(body.headers.items())
        return request.of_trace(body.trace_id).with_parameters(forwarded)

    def _with_load(self, headers: list[tuple[bytes, bytes]], body: RequestBody) -> list[tuple[bytes, bytes]]:
        """Returns headers with a report of the load, if the client asks for it and may know it."""
        form = body.headers.get(_LOAD_FORMAT)
        if form is None:
            return headers
        try:
            self._restrictions.require("statistics", lambda name: body.headers.get(name.encode()))
        except ServiceError:
            return headers
        report = self._calls.endpoint_load.report(form, self._calls.registry.served())
        return headers if report is None else [*headers, (_LOAD_REPORT, report)]

    async def _inferred_again(self, body: RequestBody, content: bytes, model: str, version: str) -> Any:
        """Returns the answer of an inference that may have come before; see `_encode_short`.

        The only request is run while the loop waits, for a millisecond at most: nothing else would
        use that time but new requests, and waking the loop takes as long as many runs.
        """
        key = (model, version, content)
        known = self._known.find(key)
        begun = None
        forwarded = self._forwarded.of_http(body.headers.items())
        if known is not None and self._running == 1 and body.remaining_s is None and not forwarded:
            found = self._calls.run_known(known, body.trace_id)
            if isinstance(found, EndedRun):
                found.count()
                return found.answer
            begun = found
        try:
            parsed = parse_request(content, None)
            request = checked_request(model, version, parsed, self._calls.regions).of_trace(body.trace_id)
        finally:
            if begun is not None:
                begun[1].known.release()
        if known is None:
            known = self._known.keep(key, request)
        request = request.with_parameters(forwarded)
        note_known = None if known is None else partial(setattr, known, "run")
        if begun is not None:
            return await body.unless_gone(self._ended(request, begun, note_known))
        return await body.unless_gone(self._calls.infer(request, _encode_short, body.remaining_s, note_known))

    async def _ended(
        self,
        request: InferenceRequest,
        begun: tuple[ServedVersion, BegunRun],
        note_known: NoteKnown | None,
    ) -> object:
        """Returns the answer of a run that was begun, for which another thread waits."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[object] = loop.create_future()
        abandons: list[Callable[[], bool]] = []

        def ended(result: object, error: Exception | None) -> None:
            loop.call_soon_threadsafe(settle, result, error)

        def settle(result: object, error: Exception | None) -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(result)
            else:
                answer.set_exception(error)

        def go_on(waiting: asyncio.Future[Callable[[], None] | None]) -> None:
            rest = waiting.result()
            if rest is not None:
                rest()

        waiting = loop.run_in_executor(
            None,
            partial(
                self._calls.begin,
                request,
                _encode_short,
                None,
                ended,
                abandons.append,
                _wait,
                begun,
                note_known,
            ),
        )
        # It goes on if the client leaves, since the lane has to be given back.
        waiting.add_done_callback(go_on)
        try:
            return await answer
        except asyncio.CancelledError:
            for abandon in abandons:
                abandon()
            raise

    @contextlib.asynccontextmanager
    async def _arriving(self, body: RequestBody, model: str, version: str) -> AsyncIterator[None]:
        """Makes the block read a request, unless it would be late, as its head says.

        Raises:
            ServiceError: it would be late, or it may be and there is no such model.
        """
        if body.remaining_s is None:
            yield
            return
        found = self._calls.registry.find(model, version)
        refusal = found.refusal(body.remaining_s)
        if refusal is not None:
            try:
                raise refusal
            finally:
                # The error refers to this frame, so the frame must not refer to it.
                del refusal
        arrived = found.arrivals.begin()
        try:
            yield
        finally:
            arrived()

    async def _parsed(self, content: bytes, header_bytes: int | None) -> ParsedRequest:
        size = len(content) if header_bytes is None else header_bytes
        return await self._in_turn(partial(parse_request, content, header_bytes), size)

    async def _in_turn(self, parse: Callable[[], _Parsed], size: int) -> _Parsed:
        """Parses JSON; much of it in another thread, so that other clients need not wait."""
        if size <= _SHORT_JSON_BYTES:
            return parse()
        async with self._parsing:
            return await asyncio.to_thread(parse)

    async def generate(self, body: RequestBody, model: str, version: str) -> Answer:
        """Answers a call of Triton's extension for generating models."""
        answer = await self._generated(body, model, version)
        return 200, answer, self._with_load(JSON, body)

    async def generate_stream(self, body: RequestBody, model: str, version: str) -> Answer:
        """Answers with the only event of a stream, since a run has one answer."""
        answer = await self._generated(body, model, version)
        return 200, b"".join((b"data: ", answer, b"\n\n")), self._with_load(_EVENTS, body)

    async def _generated(self, body: RequestBody, model: str, version: str) -> bytes:
        found = self._calls.registry.find(model, version)
        async with self._arriving(body, model, version):
            content = await body.read(self._message_bytes)
        inputs = found.loaded.inputs
        request = await self._in_turn(
            partial(decode_generate_request, model, version, content, inputs), len(content)
        )
        answer: bytes = await body.unless_gone(
            self._calls.infer(self._with_headers(request, body), encode_generate_answer, body.remaining_s)
        )
        return answer


def _encode_short(answer: InferenceAnswer) -> object:
    """Encodes an answer; returns only JSON if no bytes follow it, else see `encode_answer`."""
    encoded, header_bytes = encode_answer(answer)
    return encoded if header_bytes is None else (encoded, header_bytes)


def _wait() -> None:
    """Says that a thread waits for a run, which keeps nobody else from anything."""
