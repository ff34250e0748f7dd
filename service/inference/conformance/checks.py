"""The checks of a server of the V2 protocol.

Each is a function that raises `Violation` with what was found and what was expected, or
`Unavailable` if the server does not have what is checked. The protocol leaves some statuses open;
where servers differ, any of them is accepted.
"""

import math
import random
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from neurald.hal.records import replace
from neurald.service.inference.conformance.client import (
    Inference,
    ModelOffer,
    NamedTensor,
    Reply,
    Unavailable,
    V2Client,
)
from neurald.service.inference.protocol.element_types import content_field, dtype_of, kind_of_datatype

_DATATYPES: Final = (
    *("BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64"),
    *("FP16", "FP32", "FP64", "BF16", "BYTES"),
)
_INVALID: Final = frozenset({"INVALID_ARGUMENT"})
_MISSING: Final = frozenset({"NOT_FOUND", "INVALID_ARGUMENT"})
#: Statuses that mean that the server is to blame.
_FAULTS: Final = frozenset({"INTERNAL", "UNKNOWN", "UNAVAILABLE", "DATA_LOSS", "HTTP 500", "HTTP 502"})
_NOBODY: Final = "neurald-conformance-no-such-model"


class Violation(Exception):
    """The server does not behave as the protocol says."""


@dataclass(slots=True, kw_only=True)
class CheckedServer:
    """A model to check, with the connection to its server.

    Attributes:
        client: the connection.
        offer: what the server says of the model.
        max_batch: the most entries of a batch; 0 for a model without batches.
        mutations: how many damaged requests are sent.
    """

    client: V2Client
    offer: ModelOffer
    max_batch: int = 0
    mutations: int = 200
    _request: Inference | None = field(default=None)

    @property
    def request(self) -> Inference:
        """A valid request, with zeros."""
        if self._request is None:
            self._request = Inference(
                model=self.offer.name,
                inputs=tuple(_zeros(name, kind, shape) for name, kind, shape in self.offer.inputs),
            )
        return self._request

    def answer(self, request: Inference) -> Reply:
        """Runs the model; raises Violation if it is refused."""
        reply = self.client.infer(request)
        if reply.status != "OK":
            raise Violation(f"a valid request was refused: {reply.status}: {reply.message}")
        return reply

    def refused(self, request: Inference, statuses: frozenset[str] = _INVALID) -> None:
        """Requires that a request is refused, with a message, and that the server goes on."""
        self.require_refusal(self.client.infer(request), statuses)
        self.answer(self.request)

    def require_refusal(self, reply: Reply, statuses: frozenset[str] = _INVALID) -> None:
        """Requires that a reply is one of these refusals, and has a message."""
        if reply.status not in statuses:
            raise Violation(f"the status is {reply.status}; expected {' or '.join(sorted(statuses))}")
        if not reply.message:
            raise Violation(f"the refusal {reply.status} has no message")

    def with_input(self, **changes: Any) -> Inference:
        """Returns the valid request with another first input."""
        first, *others = self.request.inputs
        return replace(self.request, inputs=(replace(first, **changes), *others))


def _zeros(name: str, datatype: str, shape: tuple[int, ...]) -> NamedTensor:
    lengths = tuple(1 if length < 0 else length for length in shape)
    count = math.prod(lengths)
    if datatype == "BYTES":
        data = struct.pack("<I", 0) * count
    elif datatype == "BF16":
        data = bytes(2 * count)
    else:
        data = bytes(count * dtype_of(datatype).itemsize)
    return NamedTensor(name=name, datatype=datatype, shape=lengths, data=data)


# Health and descriptions.


def server_is_live(subject: CheckedServer) -> None:
    """The server is live."""
    if not subject.client.is_live():
        raise Violation("the server says that it is not live")


def server_is_ready(subject: CheckedServer) -> None:
    """The server is ready, since its model is."""
    if not subject.client.is_ready():
        raise Violation("the server says that it is not ready")


def readiness_of_models(subject: CheckedServer) -> None:
    """The model is ready, and one that does not exist is not."""
    if not subject.client.is_model_ready(subject.offer.name):
        raise Violation(f"{subject.offer.name} is not ready")
    if subject.client.is_model_ready(_NOBODY):
        raise Violation("a model that does not exist is ready")


def extensions_are_named(subject: CheckedServer) -> None:
    """The server lists its extensions."""
    subject.client.extensions()


def tensors_are_described(subject: CheckedServer) -> None:
    """Inputs and outputs have names, known datatypes and shapes."""
    offer = subject.offer
    if not offer.outputs:
        raise Violation("the model has no outputs")
    for name, datatype, shape in (*offer.inputs, *offer.outputs):
        if not name or datatype not in _DATATYPES or any(length < -1 for length in shape):
            raise Violation(f"{name!r} is {datatype} {list(shape)}")
    for tensors in (offer.inputs, offer.outputs):
        names = [name for name, _, _ in tensors]
        if len(set(names)) < len(names):
            raise Violation(f"names are not unique: {names}")


def versions_are_described(subject: CheckedServer) -> None:
    """Each version has a description of its own."""
    for version in subject.offer.versions:
        if isinstance(found := subject.client.offer(subject.offer.name, version), Reply):
            raise Violation(f"version {version}: {found.status}: {found.message}")


def unknown_models_are_not_found(subject: CheckedServer) -> None:
    """Descriptions of models and versions that do not exist are refused."""
    for name, version in ((_NOBODY, ""), (subject.offer.name, "987654321")):
        found = subject.client.offer(name, version)
        if isinstance(found, ModelOffer):
            raise Violation(f"{name!r} version {version!r} is described")
        subject.require_refusal(found, _MISSING)


def the_index_has_the_model(subject: CheckedServer) -> None:
    """The index of the repository says that the model is ready."""
    state = subject.client.models().get(subject.offer.name)
    if state != "READY":
        raise Violation(f"its state is {state!r}")


# Inference.


def answers_fit_the_description(subject: CheckedServer) -> None:
    """An answer has the outputs that the description promises, with as many bytes as they take."""
    reply = subject.answer(subject.request)
    if reply.model != subject.offer.name:
        raise Violation(f"the answer is of the model {reply.model!r}")
    promised = {name: (datatype, shape) for name, datatype, shape in subject.offer.outputs}
    if {each.name for each in reply.outputs} != set(promised):
        raise Violation(f"the outputs are {[each.name for each in reply.outputs]}; expected {list(promised)}")
    for each in reply.outputs:
        datatype, shape = promised[each.name]
        fits = len(shape) == len(each.shape) and all(
            length in (-1, found) for length, found in zip(shape, each.shape, strict=True)
        )
        if each.datatype != datatype or not (fits or shape == (-1,)):
            raise Violation(
                f"{each.name} is {each.datatype} {list(each.shape)}; expected {datatype} {list(shape)}"
            )
        if each.data is not None and kind_of_datatype(datatype) not in (None, "bytes"):
            size = math.prod(each.shape) * dtype_of(datatype).itemsize
            if len(each.data) != size:
                raise Violation(f"{each.name} has {len(each.data)} bytes; its shape takes {size}")


def ids_are_repeated(subject: CheckedServer) -> None:
    """The answer has the id of the request."""
    for wanted in ("a", "", "ü" * 100):
        found = subject.answer(replace(subject.request, id=wanted)).id
        if found != wanted:
            raise Violation(f"the id is {found!r}; expected {wanted!r}")


def runs_are_repeatable(subject: CheckedServer) -> None:
    """The same request has the same answer."""
    first, second = (subject.answer(subject.request).outputs for _ in range(2))
    if first != second:
        raise Violation("two answers differ")


def outputs_are_chosen(subject: CheckedServer) -> None:
    """Only the outputs that are asked for are in the answer, in this order."""
    names = tuple(name for name, _, _ in subject.offer.outputs)
    for chosen in (names[:1], names[::-1]):
        found = tuple(each.name for each in subject.answer(replace(subject.request, outputs=chosen)).outputs)
        if found != chosen:
            raise Violation(f"the outputs are {list(found)}; asked for were {list(chosen)}")


def inputs_in_any_order(subject: CheckedServer) -> None:
    """The order of the inputs does not matter."""
    expected = subject.answer(subject.request).outputs
    found = subject.answer(replace(subject.request, inputs=subject.request.inputs[::-1])).outputs
    if found != expected:
        raise Violation("the answer depends on the order of the inputs")


def typed_elements(subject: CheckedServer) -> None:
    """Elements in typed contents, or JSON, mean the same as bytes."""
    typed: list[NamedTensor] = []
    for each in subject.request.inputs:
        if content_field(each.datatype) is None:
            raise Unavailable(f"{each.datatype} has no elements of its own")
        count = math.prod(each.shape)
        zero: Any = b"" if each.datatype == "BYTES" else False if each.datatype == "BOOL" else 0
        typed.append(replace(each, elements=(zero,) * count))
    expected = subject.answer(subject.request).outputs
    if subject.answer(replace(subject.request, inputs=tuple(typed))).outputs != expected:
        raise Violation("the answer differs from that for bytes")


def batches_are_rows(subject: CheckedServer) -> None:
    """A batch has the results of its entries."""
    if subject.max_batch < 2:
        raise Unavailable("the model has no batches")
    one = subject.answer(subject.request).outputs
    if any(each.datatype == "BYTES" for each in subject.request.inputs):
        raise Unavailable("the model has strings")
    twice = tuple(
        replace(each, shape=(2, *each.shape[1:]), data=(each.data or b"") * 2)
        for each in subject.request.inputs
    )
    for single, double in zip(
        one, subject.answer(replace(subject.request, inputs=twice)).outputs, strict=True
    ):
        if double.shape != (2, *single.shape[1:]):
            raise Violation(f"{double.name} has the shape {list(double.shape)} for a batch of 2")
        if single.datatype == "BYTES" or single.data is None or double.data is None:
            continue
        left, right = (
            np.frombuffer(data, dtype_of(single.datatype)).astype(np.float64)
            for data in (single.data * 2, double.data)
        )
        if not np.allclose(left, right, rtol=1e-3, atol=1e-3, equal_nan=True):
            raise Violation(f"{double.name} differs from that of single requests")


def many_at_once(subject: CheckedServer) -> None:
    """Many requests at once have the answers that they have alone."""
    expected = subject.answer(subject.request).outputs

    def run(number: int) -> None:
        reply = subject.answer(replace(subject.request, id=str(number)))
        if reply.id != str(number) or len(reply.outputs) != len(expected):
            raise Violation(f"request {number} has the answer to {reply.id!r}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(64)))


# What has to be refused.


def unknown_models_are_refused(subject: CheckedServer) -> None:
    """A model or version that does not exist cannot be run."""
    subject.refused(replace(subject.request, model=_NOBODY), _MISSING)
    subject.refused(replace(subject.request, version="987654321"), _MISSING)


def unknown_inputs_are_refused(subject: CheckedServer) -> None:
    """An input of another name is refused."""
    subject.refused(subject.with_input(name="no-such-input"))


def missing_inputs_are_refused(subject: CheckedServer) -> None:
    """A request with too few inputs is refused."""
    subject.refused(replace(subject.request, inputs=subject.request.inputs[1:]))


def repeated_inputs_are_refused(subject: CheckedServer) -> None:
    """A request that has an input twice is refused."""
    subject.refused(replace(subject.request, inputs=(*subject.request.inputs, subject.request.inputs[0])))


def unknown_outputs_are_refused(subject: CheckedServer) -> None:
    """An output of another name is refused."""
    subject.refused(replace(subject.request, outputs=("no-such-output",)))


def wrong_datatypes_are_refused(subject: CheckedServer) -> None:
    """Elements of another datatype are refused, as is one that does not exist."""
    first = subject.request.inputs[0]
    other = "INT64" if first.datatype != "INT64" else "INT32"
    data = bytes(math.prod(first.shape) * dtype_of(other).itemsize)
    subject.refused(subject.with_input(datatype=other, data=data))
    subject.refused(subject.with_input(datatype="FP33"))


def wrong_shapes_are_refused(subject: CheckedServer) -> None:
    """Another rank, negative lengths, and lengths that overflow are refused."""
    first = subject.request.inputs[0]
    if subject.offer.inputs[0][2] != (-1,):
        subject.refused(subject.with_input(shape=(*first.shape, 1, 1)))
    subject.refused(subject.with_input(shape=(-1,) * max(1, len(first.shape))))
    subject.refused(subject.with_input(shape=(2**40,) * max(2, len(first.shape))))


def wrong_sizes_are_refused(subject: CheckedServer) -> None:
    """Bytes that are fewer or more than the shape takes are refused."""
    data = subject.request.inputs[0].data or b""
    for wrong in (data[:-1], data + b"\0", data * 2 + b"\0"):
        subject.refused(subject.with_input(data=wrong))


def inputs_without_data_are_refused(subject: CheckedServer) -> None:
    """An input without any elements is refused."""
    if not math.prod(subject.request.inputs[0].shape):
        raise Unavailable("the input has no elements")
    subject.refused(subject.with_input(data=None))


def garbage_is_refused(subject: CheckedServer) -> None:
    """Bytes that are not a request are refused."""
    for content in (b"\xff" * 64, b"{", bytes(1000), b"[" * 1000):
        reply = subject.client.send_raw(content, subject.offer.name)
        if reply.status == "OK" or reply.status in _FAULTS:
            raise Violation(f"{content[:8]!r}… has the status {reply.status}: {reply.message}")
    subject.answer(subject.request)


def damaged_requests_are_survived(subject: CheckedServer) -> None:
    """Damaged requests are answered or refused, but never break the server."""
    source = random.Random(7)  # noqa: S311 - repeatable
    good = subject.client.encoded(subject.request)
    for number in range(subject.mutations):
        content = bytearray(good)
        for _ in range(source.randint(1, 4)):
            content[source.randrange(min(len(content), 400))] = source.randrange(256)
        if source.random() < 0.2:
            content = content[: source.randrange(len(content))]
        reply = subject.client.send_raw(bytes(content), subject.offer.name)
        if reply.status in _FAULTS:
            raise Violation(f"damaged request {number} has the status {reply.status}: {reply.message}")
    subject.answer(subject.request)


# Streams, statistics, memory.


def streams_answer_all_requests(subject: CheckedServer) -> None:
    """A stream has one answer for each request."""
    replies = subject.client.stream([replace(subject.request, id=str(n)) for n in range(10)])
    if sorted(reply.id for reply in replies) != sorted(map(str, range(10))):
        raise Violation(f"the answers have the ids {[reply.id for reply in replies]}: {replies[-1].message}")


def streams_survive_errors(subject: CheckedServer) -> None:
    """An error of one request does not end a stream."""
    wrong = replace(subject.request, model=_NOBODY)
    replies = subject.client.stream([subject.request, wrong, subject.request])
    if [reply.status == "OK" for reply in replies].count(True) != 2 or len(replies) != 3:
        raise Violation(f"the answers have the statuses {[reply.status for reply in replies]}")


def statistics_count_requests(subject: CheckedServer) -> None:
    """Statistics count each request, and its parts equally often."""
    before = subject.client.counters(subject.offer.name)
    for _ in range(5):
        subject.answer(subject.request)
    after = subject.client.counters(subject.offer.name)
    if after.inferences - before.inferences < 5 or after.counts["success"] - before.counts["success"] < 5:
        raise Violation(f"5 requests were counted as {after.inferences - before.inferences}")
    parts = {after.counts[name] for name in ("compute_input", "compute_infer", "compute_output")}
    if len(parts) != 1:
        raise Violation(f"the parts of requests were counted differently: {after.counts}")


def memory_is_unregistered(subject: CheckedServer) -> None:
    """Unregistering all shared memory succeeds, also if there is none."""
    subject.client.unregister_memory()


CHECKS: Final[tuple[tuple[str, Callable[[CheckedServer], None]], ...]] = (
    ("description", server_is_live),
    ("description", server_is_ready),
    ("description", readiness_of_models),
    ("description", extensions_are_named),
    ("description", tensors_are_described),
    ("description", versions_are_described),
    ("description", unknown_models_are_not_found),
    ("description", the_index_has_the_model),
    ("inference", answers_fit_the_description),
    ("inference", ids_are_repeated),
    ("inference", runs_are_repeatable),
    ("inference", outputs_are_chosen),
    ("inference", inputs_in_any_order),
    ("inference", typed_elements),
    ("inference", batches_are_rows),
    ("inference", many_at_once),
    ("refusals", unknown_models_are_refused),
    ("refusals", unknown_inputs_are_refused),
    ("refusals", missing_inputs_are_refused),
    ("refusals", repeated_inputs_are_refused),
    ("refusals", unknown_outputs_are_refused),
    ("refusals", wrong_datatypes_are_refused),
    ("refusals", wrong_shapes_are_refused),
    ("refusals", wrong_sizes_are_refused),
    ("refusals", inputs_without_data_are_refused),
    ("refusals", garbage_is_refused),
    ("refusals", damaged_requests_are_survived),
    ("extensions", streams_answer_all_requests),
    ("extensions", streams_survive_errors),
    ("extensions", statistics_count_requests),
    ("extensions", memory_is_unregistered),
)
