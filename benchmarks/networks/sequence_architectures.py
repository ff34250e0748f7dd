"""Transformers and recurrent networks, by name."""

from collections.abc import Callable, Mapping

import numpy as np

from .sequence import SequenceNetwork, Value


def vit_tiny() -> SequenceNetwork:
    """Builds ViT-Ti/16 (Touvron et al., 2021), 224 × 224: 12 layers of width 192."""
    return _vit(1, 192, heads=3)


def vit_base(batch: int = 1) -> SequenceNetwork:
    """Builds ViT-B/16 (Dosovitskiy et al., 2021), 224 × 224: 12 layers of width 768."""
    return _vit(batch, 768, heads=12)


def _vit(batch: int, width: int, *, heads: int) -> SequenceNetwork:
    network = SequenceNetwork()
    patches = network.convolution(
        network.input(batch, 224, 224, 3), width, (16, 16), stride=(16, 16), padding="VALID"
    )
    first = network.weights(batch, 1, width, inputs=4)
    tokens = network.concatenate([first, network.as_sequence(patches)], 1)
    x = network.add(tokens, network.weights(1, tokens.shape[1], width, inputs=4))
    for _ in range(12):
        x = _block(network, x, heads=heads)
    network.outputs.append(network.dense(network.layer_norm(x), 1000))
    return network


def bert_base(batch: int = 1, tokens: int = 128) -> SequenceNetwork:
    """Builds the encoder of BERT base (Devlin et al., 2019): 12 layers of width 768.

    Inputs are the embeddings of tokens, and what is added to the scores of padding.
    """
    network, width, heads = SequenceNetwork(), 768, 12
    x, mask = network.input(batch, tokens, width), network.input(batch, 1, 1, tokens)
    x = network.layer_norm(network.add(x, network.weights(1, tokens, width, inputs=4)))
    for _ in range(12):
        mixed = _attention(network, x, heads=heads, mask=mask)
        x = network.layer_norm(network.add(x, mixed))
        wide = network.gelu(network.dense(x, 4 * width))
        x = network.layer_norm(network.add(x, network.dense(wide, width)))
    network.outputs.append(x)
    return network


def whisper_tiny_encoder() -> SequenceNetwork:
    """Builds the encoder of Whisper tiny (Radford et al., 2022) for 30 s of audio."""
    return whisper_encoder(384, layers=4)


def whisper_encoder(width: int, *, layers: int) -> SequenceNetwork:
    """Builds Whisper's encoder, with heads of 64 features: Whisper small has 12 layers of 768."""
    network = SequenceNetwork()
    # Time is the width of an image of height 1.
    x = network.input(1, 1, 3000, 80)
    for stride in (1, 2):
        x = network.gelu(network.convolution(x, width, (1, 3), stride=(1, stride)))
    x = network.add(network.as_sequence(x), network.weights(1, 1500, width, inputs=4))
    for _ in range(layers):
        x = _block(network, x, heads=width // 64)
    network.outputs.append(network.layer_norm(x))
    return network


def gpt_step(width: int = 384, *, layers: int = 6) -> SequenceNetwork:
    """Builds a GPT step (Radford et al., 2019) with heads of 64 features and 127 cached tokens.

    Inputs are the token, its position, and each layer's keys and values; outputs are the logits,
    and keys and values with those of the token.
    """
    network, heads = SequenceNetwork(), width // 64
    token, position = (network.input(1, 1, dtype=np.int32) for _ in range(2))
    words = network.gather(network.weights(8192, width, inputs=4), token)
    x = network.add(words, network.gather(network.weights(1024, width, inputs=4), position))
    kept = []
    for _ in range(layers):
        cache = [network.input(1, heads, 127, width // heads) for _ in range(2)]
        x = _block(network, x, heads=heads, cache=cache, kept=kept)
    network.outputs = [network.dense(network.layer_norm(x), 8192), *kept]
    return network


def gru() -> SequenceNetwork:
    """Builds two layers of 256 gated recurrent units for 100 steps of 64 features."""
    network = SequenceNetwork()
    x = network.input(1, 100, 64)
    for _ in range(2):
        x = network.gru(x, 256)
    network.outputs.append(network.dense(x, 32))
    return network


def crnn() -> SequenceNetwork:
    """Builds a CRNN (Shi et al., 2015) with GRUs for lines of text of 32 × 256 pixels."""
    network = SequenceNetwork()
    x = network.input(1, 32, 256, 1)
    layers = ((64, (2, 2)), (128, (2, 2)), (256, None), (256, (2, 1)), (512, (2, 1)))
    for channels, window in layers:
        x = network.convolution(x, channels, (3, 3), has_relu=True)
        x = network.maximum_pool(x, *window) if window else x
    x = network.as_sequence(network.convolution(x, 512, (2, 1), padding="VALID", has_relu=True))
    for _ in range(2):
        x = network.gru(x, 128, is_bidirectional=True)
    network.outputs.append(network.softmax(network.dense(x, 80)))
    return network


def _block(
    network: SequenceNetwork,
    x: Value,
    *,
    heads: int,
    cache: list[Value] | None = None,
    kept: list[Value] | None = None,
) -> Value:
    """Adds a layer of a transformer, with normalisation first.

    Args:
        network: the network to extend.
        x: the values of tokens.
        heads: the number of heads.
        cache: keys and values of earlier tokens, (1, heads, tokens, depth).
        kept: gets all keys and values.
    """
    mixed = _attention(network, network.layer_norm(x), heads=heads, cache=cache, kept=kept)
    x = network.add(x, mixed)
    wide = network.gelu(network.dense(network.layer_norm(x), 4 * x.shape[2]))
    return network.add(x, network.dense(wide, x.shape[2]))


def _attention(
    network: SequenceNetwork,
    x: Value,
    *,
    heads: int,
    cache: list[Value] | None = None,
    kept: list[Value] | None = None,
    mask: Value | None = None,
) -> Value:
    """Adds an attention with its projections; see `_block`.

    Args:
        network, x, heads, cache, kept: see `_block`.
        mask: is added to the scores, if there is one.
    """
    width = x.shape[2]
    query, key, value = (_heads(network, network.dense(x, width), heads) for _ in range(3))
    if cache is not None and kept is not None:
        key, value = (network.concatenate(pair, 2) for pair in zip(cache, (key, value), strict=True))
        kept += [key, value]
    query = network.scale(query, (width // heads) ** -0.5)
    scores = network.matmul(query, key, transposes=True)
    weights = network.softmax(scores if mask is None else network.add(scores, mask))
    mixed = network.transpose(network.matmul(weights, value), (0, 2, 1, 3))
    return network.dense(network.reshape(mixed, *x.shape), width)


def _heads(network: SequenceNetwork, x: Value, heads: int) -> Value:
    """Splits the width of tokens: (batch, heads, tokens, depth)."""
    batch, tokens, width = x.shape
    return network.transpose(network.reshape(x, batch, tokens, heads, width // heads), (0, 2, 1, 3))


SEQUENCE_NETWORKS: Mapping[str, Callable[[], SequenceNetwork]] = {
    "vit_tiny": vit_tiny,
    "whisper_tiny_encoder": whisper_tiny_encoder,
    "gpt_step": gpt_step,
    "gru": gru,
    "crnn": crnn,
}
