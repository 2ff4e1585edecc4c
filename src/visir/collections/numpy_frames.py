"""Pictures that are kept as NumPy files: an array of bytes (height, width, 3) as OpenCV holds it, blue first."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from visir.errors import ImageError


def encoded_frame(data: bytes, where: str) -> bytes:
    """The picture in a NumPy file, as the bytes of a BMP."""
    # data: The bytes of the file.
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_column, dtype = read_header(stream)
    except Exception as fault:  # a damaged header raises nearly anything
        raise ImageError(
            f"{where}: not a NumPy file ({fault}); {len(data):,} bytes.", hint="download it again, or drop it"
        ) from fault
    if dtype != np.uint8 or len(shape) != 3 or shape[2] != 3 or 0 in shape:
        raise ImageError(
            f"{where}: an array of {' × '.join(map(str, shape)) or 'one value'} of type {dtype}; "
            "a frame has height × width × 3 values of type uint8.",
            code="array-type-frame-height",
        )
    values = data[stream.tell() :]
    if len(values) != int(np.prod(shape, dtype=np.int64)):
        raise ImageError(f"{where}: the file is truncated or longer than it says.", hint="download it again")
    frame = np.frombuffer(values, np.uint8).reshape(shape, order="F" if by_column else "C")
    encoded = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(frame[:, :, ::-1])).save(encoded, "BMP")
    return encoded.getvalue()
