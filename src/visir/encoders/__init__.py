"""Models that turn images and texts into vectors, and the store that keeps what they made.

    encoder = load("openai/clip-vit-base-patch32")
    images = encode(encoder, collection, "image")

Names are imported when first used, so that `import visir.encoders` needs neither torch nor any model library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visir.lazy import lazy

if TYPE_CHECKING:
    from visir.encoders.base import Encoder as Encoder
    from visir.encoders.cross_encoder import CrossEncoder as CrossEncoder
    from visir.encoders.encoding import Encoding as Encoding
    from visir.encoders.encoding import encode as encode
    from visir.encoders.encoding import encode_dense as encode_dense
    from visir.encoders.encoding import encode_detailed as encode_detailed
    from visir.encoders.encoding import encode_items as encode_items
    from visir.encoders.families import FAMILIES as FAMILIES
    from visir.encoders.families import Family as Family
    from visir.encoders.families import KnownModel as KnownModel
    from visir.encoders.families import ModelList as ModelList
    from visir.encoders.families import recommended as recommended
    from visir.encoders.intake import InputBatch as InputBatch
    from visir.encoders.loading import compose as compose
    from visir.encoders.loading import load as load
    from visir.encoders.loading import load_cross_encoder as load_cross_encoder
    from visir.encoders.parts import encode_parts as encode_parts
    from visir.encoders.parts_folder import Parts as Parts
    from visir.encoders.store import Store as Store

__getattr__, __dir__, __all__ = lazy(__name__)
