"""Operations of the extension `neurald.tflite`, which TFLite has beyond Android NN.

Some are new operations, others extend one of Android's with the same arguments to more types, ranks
or scales.
"""
