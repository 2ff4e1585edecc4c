"""The projection head: from a dense vector to a weight for every word."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from visir.sparse.language_model import WordEmbeddings

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
