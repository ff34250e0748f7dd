"""Benchmark networks: MobileNet v1 and v2 and ResNet-50 with random weights, in several formats."""

from .architectures import NETWORKS
from .network import Activation, Layer, Network
from .onnx_file import onnx_file
from .tflite_file import tflite_file

__all__ = ["NETWORKS", "Activation", "Layer", "Network", "onnx_file", "tflite_file"]
