"""Vectors for the verbs that search: of collections and of what was asked, dense or sparse, whatever the encoder is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    from visir.encoders.base import Encoder
    from visir.records import Collection, Embeddings, Modality, SparseEmbeddings
    from visir.sparse.encoder import SparseEncoder


def is_sparse(encoder: Encoder) -> TypeGuard[SparseEncoder]:
    """Whether this encoder makes weighted words. Asked without an import: a dense one needs none of the sparse code."""
    return getattr(encoder, "vocabulary", None) is not None


def collection_vectors(
    encoder: Encoder, collection: Collection, modality: Modality, skip_broken: bool = False
) -> Embeddings | SparseEmbeddings:
    """The vectors of all images, or all captions, of a collection."""
    if is_sparse(encoder):
        from visir.sparse.encoder import encode_sparse

        return encode_sparse(encoder, collection, modality, skip_broken=skip_broken)
    from visir.encoders import encode

    return encode(encoder, collection, modality, skip_broken=skip_broken)


def text_vectors(encoder: Encoder, texts: dict[str, str]) -> Embeddings | SparseEmbeddings:
    """The vectors of {id: text}."""
    import numpy as np

    from visir.records import Embeddings

    said, dense = list(texts.values()), encoder.dense if is_sparse(encoder) else encoder
    step = dense.batch_size
    vectors = np.concatenate([dense.encode_texts(said[at : at + step]) for at in range(0, len(said), step)])
    found = Embeddings("text", list(texts), vectors, dense.card)
    if is_sparse(encoder):
        return encoder.sparsify(found, None if encoder.expanded else encoder.tokenizer.terms(said))
    return found


def picture_vector(encoder: Encoder, image: Path) -> Embeddings | SparseEmbeddings:
    """The vector of one picture, under the id "query"."""
    from visir.collections.images import decode
    from visir.files import open_binary
    from visir.records import Embeddings

    with open_binary(image) as stream:
        picture = decode(stream.read(), str(image))
    dense = encoder.dense if is_sparse(encoder) else encoder
    found = Embeddings("image", ["query"], dense.encode_images([picture]), dense.card)
    return encoder.sparsify(found) if is_sparse(encoder) else found


def read_queries(path: Path) -> dict[str, str]:
    """{id: text} from a file of lines "id, tab, text" (plain, .gz, .xz). Faults name their lines, all at once."""
    from visir.errors import ConfigurationError, raise_faults
    from visir.files import read_lines

    texts: dict[str, str] = {}
    faults = []
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        name, tab, text = line.partition("\t")
        if not tab or not name.strip() or not text.strip():
            faults.append(f"line {number}: {line[:60]!r} is not an id, a tab, and a text")
        elif name.strip() in texts:
            faults.append(f"line {number}: the id {name.strip()!r} is there already")
        else:
            texts[name.strip()] = text.strip()
    if not texts and not faults:
        faults.append("there is no query")
    raise_faults(ConfigurationError, str(path), faults, hint="one query a line: q1<TAB>a dog on a beach")
    return texts
