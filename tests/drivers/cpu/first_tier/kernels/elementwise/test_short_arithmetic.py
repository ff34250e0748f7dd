"""Arithmetic on 16-bit integers in the first tier gives the results of references."""

import pytest
from support.cpu.first_tier import TARGETS_HERE
from support.cpu.layers import SHORT, LayerBuilder, check

import neurald as nd


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("operation", ["TFLITE_ADD", "TFLITE_SUB", "TFLITE_MUL", "MAXIMUM", "MINIMUM"])
def test_operations_on_two_values_of_16_bits(target: str, operation: str) -> None:
    for activation, output_scale in ((0, 0.03), (1, 0.09), (3, 0.0004), (0, 2.0)):
        for shape in ((1,), (3, 67), (2, 4099), (2, 1, 2, 5)):
            build = LayerBuilder(activation)
            is_extreme = operation in ("MAXIMUM", "MINIMUM")
            scales = (0.05, 0.05, 0.05) if is_extreme else (0.05, 0.013, output_scale)
            first, second, output = (build.operand(SHORT, shape, scale=scale) for scale in scales)
            prefix = "TFLITE_" if is_extreme else ""
            more = [] if is_extreme else [build.scalar(activation)]
            if operation in ("TFLITE_ADD", "TFLITE_SUB"):
                more.append(build.scalar(False, nd.OperandType.BOOL))
            kind = nd.OperationType[prefix + operation]
            model = build.model(kind, [first, second, *more], output, [first, second])
            check(model, target, threads=2)
