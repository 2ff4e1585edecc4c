"""A model and a source in each other's place: `visir.encode` takes the model first, `visir.search` the source."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from visir.display import quoted
from visir.encoders.base import Encoder
from visir.encoders.families import cached_folder, family_of, named_like
from visir.errors import EncoderError
from visir.files import is_there
from visir.options import split_mark
from visir.remote import is_url


@contextmanager
def order_named(order: str, model: object, source: object, *, is_model: bool = False) -> Iterator[None]:
    """A context in which a model is loaded. Where the source is one instead, the error says which comes first."""
    # order: The hint: "the model comes first: visir.encode(model, source)".
    try:
        yield
    except EncoderError as fault:
        if (is_model or _is_model(source)) and not names_model(model):
            raise EncoderError(
                f"{_called(model)} is no model, and {_called(source)} is one.", hint=order, code="no-model-one"
            ) from fault
        raise


def names_model(thing: object) -> bool:
    """Whether this is an encoder, or a name in the form of one; nothing is loaded or fetched."""
    if isinstance(thing, str | os.PathLike):
        name = os.path.expanduser(os.fspath(thing))  # noqa: PTH111 (Path raises where there is no such user)
        try:
            return not is_url(name) and bool(family_of(name))
        except EncoderError:
            return False
    return isinstance(thing, Encoder)


def _is_model(thing: object) -> bool:
    """Whether this is a model for certain: "a/b" may be a folder as well, unless that model is known or here."""
    if not names_model(thing) or isinstance(thing, Encoder):
        return isinstance(thing, Encoder)
    name = os.fspath(cast("str | os.PathLike[str]", thing))
    bare, _ = split_mark(name)
    if not family_of(name).pattern or ":" in bare or is_there(bare):
        return True
    return bare in named_like(bare) or cached_folder(bare) is not None


def _called(thing: object) -> str:
    if isinstance(thing, str | os.PathLike):
        return quoted(os.fspath(thing), 60)
    if isinstance(thing, Encoder):
        return f"the encoder {thing.card.name}"
    name = type(thing).__name__
    return f"{'an' if name[:1] in 'AEIOUaeiou' else 'a'} {name}"
