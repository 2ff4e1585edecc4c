"""Small pictures and annotation files for the readers' tests."""

from __future__ import annotations

import io

from PIL import Image


def jpeg(colour: str = "red", size: tuple[int, int] = (12, 8), form: str = "JPEG", **options: object) -> bytes:
    """The bytes of a one-coloured picture."""
    stream = io.BytesIO()
    Image.new("RGB", size, colour).save(stream, form, **options)
    return stream.getvalue()


def karpathy(split: str = "test", **more: object) -> dict[str, object]:
    """Two images with two captions each, in Karpathy's layout."""
    images = [
        {
            "filename": f"{name}.jpg",
            "imgid": number,
            "split": split,
            "sentids": [2 * number, 2 * number + 1],
            "sentences": [
                {"raw": f"{name} {k}", "sentid": 2 * number + k, "imgid": number, "tokens": [name]} for k in (0, 1)
            ],
            **more,
        }
        for number, name in enumerate(("a", "b"))
    ]
    return {"dataset": "toy", "images": images}
