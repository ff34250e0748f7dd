"""Operations of the extension `neurald.tflite`: what TFLite has and Android NN has not.

Some are operations of their own, others widen one of Android's: the same arguments, with more types, ranks or scales.
"""
