"""Models that turn images and texts into vectors, and the store that keeps what they made.

    encoder = load("openai/clip-vit-base-patch32")
    images = encode(encoder, collection, "image")

Names are imported when first used, so that `import visir.encoders` needs neither torch nor any model library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.encoders.base import Encoder
    from visir.encoders.cross_encoder import CrossEncoder
    from visir.encoders.encoding import Encoding, encode, encode_dense, encode_detailed, encode_items
    from visir.encoders.families import FAMILIES, Family, KnownModel, ModelList, recommended
    from visir.encoders.loading import compose, load, load_cross_encoder
    from visir.encoders.parts import encode_parts
    from visir.encoders.parts_folder import Parts
    from visir.encoders.store import Store

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Encoder": "visir.encoders.base",
        "compose": "visir.encoders.loading",
        "load": "visir.encoders.loading",
        "load_cross_encoder": "visir.encoders.loading",
        "CrossEncoder": "visir.encoders.cross_encoder",
        "encode": "visir.encoders.encoding",
        "encode_dense": "visir.encoders.encoding",
        "encode_detailed": "visir.encoders.encoding",
        "encode_items": "visir.encoders.encoding",
        "Encoding": "visir.encoders.encoding",
        "encode_parts": "visir.encoders.parts",
        "Parts": "visir.encoders.parts_folder",
        "Store": "visir.encoders.store",
        "FAMILIES": "visir.encoders.families",
        "Family": "visir.encoders.families",
        "KnownModel": "visir.encoders.families",
        "ModelList": "visir.encoders.families",
        "recommended": "visir.encoders.families",
    },
)

__all__ = [
    "FAMILIES",
    "CrossEncoder",
    "Encoder",
    "Encoding",
    "Family",
    "KnownModel",
    "ModelList",
    "Parts",
    "Store",
    "compose",
    "encode",
    "encode_dense",
    "encode_detailed",
    "encode_items",
    "encode_parts",
    "load",
    "load_cross_encoder",
    "recommended",
]
