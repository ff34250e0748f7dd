"""Interpreters of files that a test builds."""

from support.tflite.builder import TfliteModel

from neurald.litert import Interpreter


def opened(file: TfliteModel, **options: object) -> Interpreter:
    return Interpreter(model_content=file.build(), **options)  # type: ignore[arg-type]
