import numpy as np

from neurald.hal.operations.machinery.layout import from_nhwc, shape_from_nhwc, shape_to_nhwc, to_nhwc


def test_layouts() -> None:
    nchw = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    nhwc = to_nhwc(nchw)
    assert nhwc.shape == shape_to_nhwc(nchw.shape) == (2, 4, 5, 3)
    assert nhwc[1, 2, 3, 0] == nchw[1, 0, 2, 3]
    assert shape_from_nhwc(nhwc.shape) == nchw.shape
    np.testing.assert_array_equal(from_nhwc(nhwc), nchw)
    assert from_nhwc(nhwc.copy()).flags.c_contiguous
