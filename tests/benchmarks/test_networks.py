"""Networks of sequences: their `.tflite` files compute what the building blocks say."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import neurald as nd
from neurald.drivers.reference.device import ReferenceDevice


@pytest.fixture
def networks(import_benchmark: Callable[..., Any]) -> Any:
    """The package `benchmarks/networks`."""
    return import_benchmark("networks")


def run(networks: Any, network: Any, *inputs: Any) -> Any:
    """Returns the first output of a network on references."""
    model = nd.load_tflite(networks.sequence_tflite_file(network))
    return nd.CompilationBuilder(model, [ReferenceDevice()]).finish().run(*inputs)[0]


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def gru(x: Any, inner: Any, outer: Any, bias: Any) -> Any:
    """Returns the states of one direction, step by step."""
    units = outer.shape[1]
    state, states = np.zeros(units), []
    for now in x:
        a, b = inner @ now + bias[: 3 * units], outer @ state + bias[3 * units :]
        update, reset = (sigmoid((a + b)[n * units : (n + 1) * units]) for n in range(2))
        new = np.tanh(a[2 * units :] + reset * b[2 * units :])
        state = (1 - update) * new + update * state
        states.append(state)
    return np.array(states)


def test_a_gru_runs_in_both_directions(networks: Any) -> None:
    network = networks.SequenceNetwork()
    result = network.gru(network.input(1, 5, 3), 4, is_bidirectional=True)
    network.outputs.append(result)
    x = np.random.default_rng(0).standard_normal((1, 5, 3)).astype(np.float32)
    weights = [source.data for source in network.steps[0].sources[1:]]
    forwards, backwards = ([each[direction] for each in weights] for direction in range(2))
    expected = np.concatenate([gru(x[0], *forwards), gru(x[0, ::-1], *backwards)[::-1]], 1)
    np.testing.assert_allclose(run(networks, network, x)[0], expected, rtol=1e-5, atol=1e-6)


def test_layer_normalisation_has_a_scale_and_an_offset(networks: Any) -> None:
    network = networks.SequenceNetwork()
    network.outputs.append(network.layer_norm(network.input(1, 2, 6)))
    _, scale, offset = (source.data for source in network.steps[0].sources)
    x = np.random.default_rng(0).standard_normal((1, 2, 6)).astype(np.float32)
    deviation = np.sqrt(x.var(2, keepdims=True) + 1e-5)
    expected = (x - x.mean(2, keepdims=True)) / deviation * scale + offset
    np.testing.assert_allclose(run(networks, network, x), expected, rtol=1e-4, atol=1e-5)


def test_a_convolution_has_strides_and_an_activation(networks: Any) -> None:
    network = networks.SequenceNetwork()
    image = network.convolution(network.input(1, 1, 7, 2), 3, (1, 3), stride=(1, 2), has_relu=True)
    network.outputs.append(network.as_sequence(image))
    x = np.random.default_rng(0).standard_normal((1, 1, 7, 2)).astype(np.float32)
    _, weights, bias = (source.data for source in network.steps[0].sources)
    padded = np.pad(x[0, 0], ((1, 1), (0, 0)))
    sums = [np.einsum("oki,ki->o", weights[:, 0], padded[2 * n : 2 * n + 3]) + bias for n in range(4)]
    np.testing.assert_allclose(run(networks, network, x)[0], np.maximum(sums, 0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["vit_tiny", "whisper_tiny_encoder", "gpt_step", "gru", "crnn"])
def test_the_files_have_the_inputs_and_outputs_of_the_network(networks: Any, name: str) -> None:
    network = networks.SEQUENCE_NETWORKS[name]()
    model = nd.load_tflite(networks.sequence_tflite_file(network))
    for values, positions in ((network.inputs, model.inputs), (network.outputs, model.outputs)):
        assert [model.main.operands[n].dimensions for n in positions] == [value.shape for value in values]
    content = networks.sequence_onnx_file(network)
    assert len(content) > sum(value.data.nbytes for value in constants(network))


def constants(network: Any) -> list[Any]:
    """Returns the weights of a network."""
    return [source for step in network.steps for source in step.sources if source.data is not None]
