"""An uploaded picture as the values of one input: its bytes, or its pixels in the shape the input wants."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image, UnidentifiedImageError

from control.tensors import FLOAT_TYPES, AnyArray, fitting_array, show_shape
from telemetry.errors import InvalidRequest
from telemetry.facts import TensorSpec

_CHANNELS = {1: "L", 3: "RGB", 4: "RGBA"}
_MAX_PIXELS = 64_000_000


def image_array(spec: TensorSpec, data: bytes) -> AnyArray:
    """One row from a picture file, without the batch dimension.

    BYTES gets the file as it is, shape [1]. Other inputs get the pixels, scaled to the height and width of
    the dims (the picture's own for -1): layout [C,H,W], [H,W,C] or [H,W] with 1, 3 or 4 channels; floats as
    0..1, integers as 0..255. A model that wants other normalisation must be given a .npy file.
    """
    if spec.datatype == "BYTES":
        row = np.empty(1, dtype=object)
        row[0] = data
        return row
    channels_first, channels, height, width = _layout(spec)
    picture = _picture(spec, data).convert(_CHANNELS[channels])
    size = (picture.width if width == -1 else width, picture.height if height == -1 else height)
    pixels = np.asarray(picture.resize(size))
    if pixels.ndim == 2 and len(spec.dims) == 3:
        pixels = pixels[:, :, np.newaxis]
    if channels_first:
        pixels = np.moveaxis(pixels, -1, 0)
    if spec.datatype in FLOAT_TYPES:
        return fitting_array(spec.name, spec.datatype, pixels.astype(np.float32) / 255.0)
    return fitting_array(spec.name, spec.datatype, pixels)


def takes_images(spec: TensorSpec) -> bool:
    """True if a picture can be made to fit this input."""
    try:
        _layout(spec)
    except InvalidRequest:
        return spec.datatype == "BYTES" and spec.dims in ((1,), (-1,))
    return spec.datatype not in ("BOOL", "BYTES")


def _layout(spec: TensorSpec) -> tuple[bool, int, int, int]:
    """(channels first, channels, height, width) of the dims."""
    dims = spec.dims
    if len(dims) == 3 and dims[0] in _CHANNELS:
        return True, dims[0], dims[1], dims[2]
    if len(dims) == 3 and dims[2] in _CHANNELS:
        return False, dims[2], dims[0], dims[1]
    if len(dims) == 2:
        return False, 1, dims[0], dims[1]
    raise InvalidRequest(f"{spec.name} has the dims {show_shape(dims)}: a picture does not fit")


def _picture(spec: TensorSpec, data: bytes) -> Image.Image:
    try:
        picture = Image.open(io.BytesIO(data))
        if picture.width * picture.height > _MAX_PIXELS:
            raise InvalidRequest(
                f"{spec.name}: the picture has more than {_MAX_PIXELS // 1_000_000} million pixels"
            )
        picture.load()
    except (UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError) as error:
        raise InvalidRequest(f"{spec.name}: the file is not a readable picture", detail=str(error)) from error
    return picture
