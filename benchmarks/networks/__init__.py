"""Benchmark networks with random weights, in several formats.

Networks of layers (MobileNet v1 and v2, ResNet-50) are also quantised. Networks of sequences are
transformers and recurrent ones.
"""

from .architectures import NETWORKS
from .network import Activation, Layer, Network
from .onnx_file import onnx_file
from .sequence import SequenceNetwork
from .sequence_architectures import SEQUENCE_NETWORKS
from .sequence_onnx import sequence_onnx_file
from .sequence_tflite import sequence_tflite_file
from .tflite_file import tflite_file

__all__ = [
    "NETWORKS",
    "SEQUENCE_NETWORKS",
    "Activation",
    "Layer",
    "Network",
    "SequenceNetwork",
    "onnx_file",
    "sequence_onnx_file",
    "sequence_tflite_file",
    "tflite_file",
]
