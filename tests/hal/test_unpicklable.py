"""What belongs to a process is neither copied nor pickled, and says what to do instead."""

import copy
import os
import pickle

import numpy as np
import pytest
from support.models.small import add_model
from support.tflite.litert_files import two_signatures

import neurald as nd

pytestmark = pytest.mark.quick


def test_every_public_object_that_owns_something_refuses() -> None:
    compilation = nd.CompilationBuilder(add_model((2,)), nd.devices()[:1]).finish()
    execution = nd.Execution(compilation)
    with nd.Burst(compilation) as burst:
        for each in (
            nd.CompilationBuilder(add_model((2,))),
            compilation,
            execution,
            burst,
            nd.Memory.allocate(8),
            nd.MemoryDesc(),
            nd.Event(),
            nd.compile(two_signatures().build()).signatures,
        ):
            for refused in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match=rf"of {type(each).__name__} can be neither copied nor "):
                    refused(each)


def test_a_refused_copy_of_memory_closes_no_descriptor() -> None:
    memory = nd.Memory.allocate(8)
    with pytest.raises(TypeError, match=r"Memory\.copy copies its bytes"):
        copy.copy(memory)
    assert os.fstat(memory.fd).st_size == 8
    content = pickle.loads(pickle.dumps(bytes(memory.view())))
    assert np.frombuffer(content, np.uint8).tolist() == [0] * 8
