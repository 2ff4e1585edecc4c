"""Dual encoders of `transformers`: CLIP, AltCLIP, ALIGN, GroupViT, SigLIP.

Each has one tower per modality and one projection into the common space. What differs between them is data (below):
how long a text may be, how it is padded, and where the dimension is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from visir.encoders.base import Encoder, Pixels
from visir.encoders.devices import pick_device
from visir.encoders.models.forward import inference, no_vectors, to_tensor, to_vectors
from visir.encoders.models.image_processors import BACKENDS, ImageProcessor
from visir.encoders.models.model_files import ModelFiles, loading, no_progress_bar
from visir.encoders.models.model_names import one_of, positive_number, template_of
from visir.encoders.models.tokens import Padding, Tokens
from visir.errors import EncoderError
from visir.records import EncoderCard, Modality

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image


@dataclass(frozen=True)
class DualFamily:
    """What one family does its own way.

    - `model`: the class in `transformers`
    - `limit`: tokens a text may have, from the model's configuration
    - `padding`, `inputs`: see `Tokens`; as the family's published processor and training did it
    - `dimension`: of the common space, from the model's configuration
    """

    model: str
    limit: Callable[[Any], int] = lambda config: int(config.text_config.max_position_embeddings)
    padding: Padding = "longest"
    inputs: tuple[str, ...] = ("input_ids", "attention_mask")
    dimension: Callable[[Any], int] = lambda config: int(config.projection_dim)


FAMILIES: Mapping[str, DualFamily] = {
    # Radford et al. 2021. OpenAI's own code pads every text to 77. With the causal mask and the vector taken at the
    # end token, padding cannot reach it, so padding to the longest gives the same vector for a sixth of the work.
    "clip": DualFamily("CLIPModel"),
    # Chen et al. 2022: CLIP with XLM-RoBERTa, whose positions begin after the padding id (514 positions, 512 tokens).
    "altclip": DualFamily(
        "AltCLIPModel",
        limit=lambda config: int(config.text_config.max_position_embeddings) - int(config.text_config.pad_token_id) - 1,
    ),
    # Jia et al. 2021, COYO-ALIGN: the text tower is a BERT with 512 positions, but was trained on 64 tokens and its
    # published processor pads to 64. (That processor does not cut; a longer text would be seen at positions that were
    # never trained, so here it is cut at 64.)
    "align": DualFamily(
        "AlignModel",
        limit=lambda config: min(64, int(config.text_config.max_position_embeddings)),
        padding="max_length",
    ),
    # Xu et al. 2022: CLIP's tokenizer and 77 positions.
    "groupvit": DualFamily("GroupViTModel"),
    # Zhai et al. 2023: trained on texts padded to 64 without a mask, the vector taken at the last position, which is
    # mostly padding. Padding to the longest, or handing over the mask, gives another vector.
    "siglip": DualFamily(
        "SiglipModel",
        padding="max_length",
        inputs=("input_ids",),
        dimension=lambda config: int(config.vision_config.hidden_size),
    ),
}


class DualEncoder(Encoder):
    """Images and texts through a dual encoder of `transformers`.

    Vectors are the projections before normalisation: what `get_image_features` and `get_text_features` give. (The
    model's forward pass normalises them before the product; search by cosine does the same.)
    """

    modalities: frozenset[Modality] = frozenset({"image", "text"})

    def __init__(
        self,
        card: EncoderCard,
        model: torch.nn.Module,
        processor: ImageProcessor,
        tokens: Tokens,
        *,
        dimension: int,
        device: str,
    ) -> None:
        self.card, self.dimension = card, dimension
        self._model, self._processor, self._tokens, self._device = model, processor, tokens, device
        self._dtype = next(model.parameters()).dtype

    def preprocess(self, image: Image) -> Pixels:
        """One RGB image, float32 (3, H, W), by the model's own image processor."""
        return self._processor.pixels(image)

    def embed_images(self, batch: Sequence[Pixels]) -> NDArray[np.float32]:
        """(n, dimension) projections of n preprocessed images."""
        if not len(batch):
            return no_vectors(self.dimension)
        with inference():
            pixels = to_tensor(batch, self._device, self._dtype)
            return to_vectors(_features(self._model.get_image_features(pixel_values=pixels)))  # type: ignore[operator]

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, dimension) projections of n texts."""
        if not len(texts):
            return no_vectors(self.dimension)
        with inference():
            return to_vectors(_features(self._model.get_text_features(**self._tokens(texts, self._device))))  # type: ignore[operator]


def _features(output: Any) -> torch.Tensor:
    """The projections: themselves before transformers 5, since then the `pooler_output` of a record."""
    features: torch.Tensor = output.pooler_output if hasattr(output, "pooler_output") else output
    return features


def load(
    name: str, kind: str, files: ModelFiles, options: dict[str, str], *, device: str | None, dtype: str
) -> DualEncoder:
    """Load the model of type `kind` that lies in `files`."""
    family = FAMILIES[kind]
    device = pick_device(device)
    backend = one_of(name, options, "processor", BACKENDS)
    template, max_length = template_of(name, options), positive_number(name, options, "max_length")
    with loading(name):
        model = load_model(name, family.model, files, dtype)
        processor = ImageProcessor(files.folder, backend)
        tokens = Tokens(
            files.folder,
            limit=family.limit(model.config),
            vocabulary=int(model.config.text_config.vocab_size),
            padding=family.padding,
            inputs=family.inputs,
            template=template,
            max_length=max_length,
        )
        dimension = family.dimension(model.config)
        card = EncoderCard(
            name=name,
            family=f"transformers-{kind}",
            revision=files.revision,
            weights=files.fingerprint,
            image_preprocessing=processor.values(),
            text_preprocessing=tokens.values(),
            dtype=dtype,
        )
        return DualEncoder(card, model.to(device), processor, tokens, dimension=dimension, device=device)


def load_model(name: str, class_name: str, files: ModelFiles, dtype: str) -> Any:
    """`from_pretrained` of one class, in the dtype asked for, refusing a checkpoint that lacks any of its weights.

    transformers fills missing weights with random numbers and warns: a captioning checkpoint loaded as a retrieval
    model would give vectors, and they would mean nothing. Also, since version 5 the checkpoint's own dtype is taken
    unless one is named.
    """
    import torch
    import transformers

    _ = files.weights  # a folder without weights is told apart from one whose weights are damaged
    with no_progress_bar():
        model, report = getattr(transformers, class_name).from_pretrained(
            files.folder, dtype=getattr(torch, dtype), output_loading_info=True
        )
    missing = sorted(report["missing_keys"])
    if missing:
        raise EncoderError(
            f"{name}: {len(missing)} weights of {class_name} are not in this checkpoint: {', '.join(missing[:4])}"
            + (", …" if len(missing) > 4 else "."),
            hint="it was made for another task, or is another kind of model",
        )
    return model.eval()
