import numpy as np
from support.models.whole_model import run_references
from support.tflite.operator import Load, random, shaped


def test_local_response_normalization(load: Load) -> None:
    image = shaped(1, 1, 1, 3)
    response = load(
        "LOCAL_RESPONSE_NORMALIZATION",
        (image,),
        image,
        "LocalResponseNormalizationOptions",
        Radius=1,
        Bias=1.0,
        Alpha=2.0,
        Beta=0.5,
    )
    result = run_references(response, [[[[0, 2, 0]]]])[0]
    np.testing.assert_allclose(result.reshape(-1), [0, 2 / 3, 0], rtol=1e-6)


def test_l2_normalization(load: Load) -> None:
    x = random(2, 3)
    norm = load("L2_NORMALIZATION", (shaped(2, 3),), shaped(2, 3), "L2NormOptions")
    np.testing.assert_allclose(
        run_references(norm, x)[0], x / np.linalg.norm(x, axis=1, keepdims=True), rtol=1e-5
    )
