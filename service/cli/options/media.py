"""Options for photos and sounds as inputs, and for what is shown of the results."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

ImageOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Use this photo as input, and show the best classes, boxes, keypoints or masks.",
    ),
]
AudioOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Use this sound, a WAV file, as input, and show the best classes, or the transcript "
        "if --labels are characters.",
    ),
]
RateOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        metavar="HZ",
        min=1000,
        max=192_000,
        help="Samples per second that the model expects. [default: 16000]",
    ),
]
LabelsOption: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Names of the classes, one per line.")
]
TopOption: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Number of classes to show. [default: 5]")
]
MeanOption: TypeAlias = Annotated[
    float | None,
    typer.Option(
        metavar="VALUE",
        help="Image inputs are (pixel - mean) / std. The default is that of the model's metadata for "
        "float models, and 127.5 for both without any. By default uint8 models get the pixels unchanged, "
        "and int8 models get pixels - 128.",
    ),
]
StdOption: TypeAlias = Annotated[float | None, typer.Option(metavar="VALUE", help="See --mean.")]
