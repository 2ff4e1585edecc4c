"""The weights of a model of `transformers`, all of them from its checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch

from visir.encoders.models.hub import ModelFiles, no_progress_bar, only_errors
from visir.errors import EncoderError


def load_model(
    name: str, model_class: type[Any], files: ModelFiles, dtype: str, *, unused: Sequence[str] = (), code: bool = False
) -> Any:
    """`from_pretrained` of one class, in the dtype asked for, refusing a checkpoint that lacks a weight that is used.

    transformers fills missing weights with random numbers and warns: a captioning checkpoint loaded as a retrieval
    model would give vectors, and they would mean nothing. Also, since version 5 the checkpoint's own dtype is taken
    unless one is named.

    Args:
        name: What the model is called in errors.
        model_class: The class.
        files: Where its files are.
        dtype: "float32", "bfloat16" or "float16".
        unused: Dotted names of modules that are never computed; their weights may be missing.
        code: Whether the class is code that came with the model.
    """
    _ = files.weights  # a folder without weights is told apart from one whose weights are damaged
    trusted = {"trust_remote_code": True} if code else {}
    with no_progress_bar(), only_errors():  # it lists the weights of heads that are not asked for
        model, report = model_class.from_pretrained(
            files.folder, dtype=getattr(torch, dtype), output_loading_info=True, **trusted
        )
    missing = sorted(
        key for key in report["missing_keys"] if not any(fnmatchcase(key, f"{pattern}.*") for pattern in unused)
    )
    if missing:
        raise EncoderError(
            f"{name}: {len(missing)} weights of {model_class.__name__} are not in this checkpoint: "
            f"{', '.join(missing[:4])}" + (", …" if len(missing) > 4 else "."),
            hint="it was made for another task, or is another kind of model",
            code="weights-not-checkpoint",
        )
    return model.eval()
