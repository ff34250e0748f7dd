"""Operations of the extension `neurald.tflite`: one family a file, named as the family in `neurald.hal.operations.tflite`."""
