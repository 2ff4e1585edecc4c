"""A model of sentence-transformers from its files: options of the name, prompts, remote code, and its card."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors.torch import save
from torch import Tensor, nn

from visir.encoders.devices import NotCompiledError, dtype_on_card, of_torch
from visir.encoders.intake import Pixels, TextLimit
from visir.encoders.models.hub import (
    CODE_OPTIONS,
    SAFETENSORS,
    SMALL_FILES,
    TORCH_BIN,
    ModelFiles,
    complete_weights,
    loading,
    no_progress_bar,
    positive_number,
    read_configuration,
    read_modules,
    read_small_files,
    refuse_code,
    template_of,
)
from visir.encoders.models.image_processors import check_sliver, processor_values
from visir.encoders.models.late_interaction import check_no_marks
from visir.encoders.models.own_code import other_repositories
from visir.encoders.models.text_inputs import (
    TextInputs,
    TokenRules,
    check_saved_tokenizer,
    check_vocabulary,
    inputs_of_tokenizer,
    pad,
    token_counts,
    vocabulary_hash,
)
from visir.encoders.models.transformers_models import (
    CROSS_ENCODER,
    MODULES_FILE,
    MULTI_VECTOR,
    ROWS,
    positions,
)
from visir.encoders.towers.base import Inputs, TowerReader
from visir.encoders.towers.pretrained_backbone import (
    PretrainedBackbone,
    part,
    random_weights,
    recompute_activations,
)
from visir.errors import EncoderError, ImageError, nearest
from visir.files import read_json
from visir.options import with_option
from visir.records import EncoderCard, Modality, Role
from visir.storage import Scratch

if TYPE_CHECKING:
    from PIL.Image import Image


UNLIMITED = 10**9
"""From here on a number of tokens is no limit: transformers writes 10**30 for a tokenizer without one."""


_TOKENS = ("input_ids", "attention_mask")


class SentenceTower(PretrainedBackbone):
    """What a `SentenceTransformer` makes of texts, or of pictures: tuned, compiled and exported."""

    # In training, dropout is on. A model that ends in a normalisation gives unit vectors here too.

    network: SentenceNetwork

    def __init__(
        self,
        model: Any,
        folder: Path,
        *,
        outputs: int,
        template: str = "{}",
        max_length: int | None = None,
        prompt: str | None = None,
        pictures: SentencePictures | None = None,
    ) -> None:
        # prompt: What stands before each text; None for the one that the library puts there unless told otherwise.
        # pictures: Of the tower of pictures.
        from PIL import Image as images

        # A BERT here has a pooler that the library's own pooling takes no notice of.
        super().__init__(
            SentenceNetwork(part(model, without=("0.*.pooler",)), outputs),
            outputs=outputs,
            options={"outputs": outputs, "template": template, "max_length": max_length},
            files=self._own_files,
            checkpoint=lambda network: recompute_activations(network.model[0].auto_model, "this sentence encoder"),
        )
        self.folder, self._template, self._lock = folder, template, threading.Lock()
        self._prompt, self._pictures = default_prompt(model) if prompt is None else prompt, pictures
        sample = self._features(["a"] if pictures is None else [pictures.prepare(images.new("RGB", (64, 64)))])
        names = {name for name, value in sample.items() if isinstance(value, Tensor)}
        self.network.constant = {name: value for name, value in sample.items() if name not in names}
        # Of most texts the ids of tokens are prepared, and padded in a batch.
        segments = bool(np.any(np.asarray(sample.get("token_type_ids", 0))))
        self._has_tokens = {*_TOKENS} <= names <= {*_TOKENS, "token_type_ids"} and not segments
        self._names = _TOKENS if self._has_tokens else tuple(name for name in sample if name in names)

    @property
    def reader(self) -> TowerReader:
        """Looked up: the tokenizer is the model's, and a copy of this tower has a model of its own."""
        model = self.network.model
        return TowerReader(
            "sentence-transformers",
            "text" if self._pictures is None else "image",
            self._prepared,
            self._collated,
            values=lambda: sentence_values(model, self._template, self._prompt),
            # How many tokens are read, those of prompt and template counted.
            limit=lambda: sentence_limit(model, self._prompt, self._template, self._lock),
            # As the tokenizer, under the prompt of every text.
            text_inputs=lambda: (
                sentence_inputs_of(model, self._prompt, self._template, _TOKENS) if self._has_tokens else None
            ),
        )

    def _prepared(self, items: Sequence[Any]) -> list[Any]:
        """int32 token ids of each text: prompt and template included, cut, not padded; pictures one by one."""
        if not self._has_tokens:
            return list(items) if self._pictures is None else [self._pictures.prepare(item) for item in items]
        encoded = self._features(items)
        masks = encoded["attention_mask"].numpy().astype(bool)
        return [ids[mask].astype(np.int32) for ids, mask in zip(encoded["input_ids"].numpy(), masks, strict=True)]

    def _collated(self, prepared: Sequence[Any]) -> Inputs:
        """ "input_ids" and "attention_mask", padded to the longest; or whatever the model takes."""
        if not self._has_tokens:
            return self.tensors(self._features(prepared))
        tokenizer = self.network.model.tokenizer
        return pad(prepared, token=int(tokenizer.pad_token_id), side=tokenizer.padding_side)

    def tensors(self, features: Features) -> dict[str, Tensor]:
        """What the network takes of a batch's features."""
        own = {**self.network.constant, "prompt_length": None}  # where it counts, it is that of all
        beside = {name: value for name, value in features.items() if not isinstance(value, Tensor)}
        if own != {**beside, "prompt_length": None}:
            raise cannot_compile(str(self.folder), self.modality, "it takes more than tensors")
        return {name: features[name] for name in self._names}

    def _own_files(self) -> dict[str, bytes]:
        """All of the model's folder but the weights of the transformer; modules after it need theirs to be built."""
        if not self._has_tokens:
            raise EncoderError(
                f"{self.folder}: this sentence encoder begins with a {type(self.network.model[0]).__name__} and cannot "
                "be tuned; those that begin with a transformer can.",
                hint='tower = "frozen" trains a head over it',
                code="sentence-encoder-begins-cannot",
            )
        first = Path(read_json(self.folder / MODULES_FILE)[0].get("path", ""))
        contents = read_small_files(self.folder, [*SMALL_FILES, *(f"*/{name}" for name in SMALL_FILES)])
        weights = read_small_files(self.folder, [f"*/{SAFETENSORS}", f"*/{TORCH_BIN}"])
        return contents | {name: content for name, content in weights.items() if Path(name).parent != first}

    def base_module(self) -> nn.Module:
        """The transformer, on which the library itself puts adapters."""
        transformer: nn.Module = self.network.model[0].auto_model
        return transformer

    def _features(self, items: Sequence[Any]) -> Features:
        if self._pictures is not None:
            return self._pictures.features(items)
        model = self.network.model
        with self._lock:  # a fast tokenizer changes its padding state in place
            filled = as_texts([self._template.replace("{}", text) for text in items], model)
            features: Features = model.preprocess(filled, prompt=self._prompt or None)
        return features


class SentenceNetwork(nn.Module):
    """All modules, one after the other. `constant`: what their inputs are beside tensors."""

    constant: Mapping[str, Any]

    def __init__(self, model: Any, outputs: int) -> None:
        super().__init__()
        self.model: Any = model
        self._outputs = outputs

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """(n, outputs) of a batch."""
        features: Any = {**inputs, **self.constant}
        for module in self.model:
            features = module(features)
        # The width is smaller than the last module's in a model that is saved to be truncated (Matryoshka).
        vectors: Tensor = features["sentence_embedding"][:, : self._outputs]
        return vectors


def cannot_compile(name: str, modality: Modality | None, reason: str) -> NotCompiledError:
    """The error for a model that OpenVINO cannot compile."""
    what = "it" if modality is None else f"its {modality} tower"
    return NotCompiledError(
        f"{name}: OpenVINO cannot compile {what}: {reason}.",
        hint="--device cpu computes it with PyTorch; models with one network for texts, or for pictures of one size, "
        "can be compiled",
    )


def default_prompt(model: Any) -> str:
    """What the library puts before every text unless told otherwise; often nothing."""
    return str(model.prompts.get(model.default_prompt_name) or "") if model.default_prompt_name else ""


_ROLE_NAMES: dict[Role, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage", "corpus")}
"""What models call the prompt of a role, as `encode_query` and `encode_document` of the library look for it."""


def role_prompts(model: Any) -> dict[Role, str]:
    """What stands before a query, and before a document: the model's prompt of this role, or its default prompt."""
    # The library's `encode_query` and `encode_document` take an empty prompt of a role as it is. Here, and in
    # `SentenceTransformer.encode`, a model with a default prompt uses that one, and "passage" is looked for where the
    # prompt named "document" is empty: the library adds that name, empty, to models that were saved without it.
    default = default_prompt(model)
    return {
        role: next((prompt for name in names if (prompt := str(model.prompts.get(name) or ""))), default)
        for role, names in _ROLE_NAMES.items()
    }


def sentence_values(model: Any, template: str, prompt: str | Mapping[str, str]) -> dict[str, Any]:
    """Everything between a text and the first module, as plain values for the card."""
    tokenizer = model.tokenizer
    return {
        "modules": [type(module).__name__ for module in model],
        "tokenizer": type(tokenizer).__name__.removesuffix("Fast"),
        "vocabulary": vocabulary_hash(tokenizer),
        "template": template,
        "prompt": prompt,
        "max_length": limit_of(model),
        "padding": "longest",
    }


def sentence_inputs_of(model: Any, prompt: str, template: str, names: tuple[str, ...]) -> TextInputs | None:
    """What the model's first module takes of texts, without the library; None where that cannot be told."""
    tokenizer = model.tokenizer
    if not hasattr(tokenizer, "pad_token_id") or not {*names} <= {"input_ids", "attention_mask", "token_type_ids"}:
        return None
    if "{}" in prompt or tokenizer.pad_token_id is None:
        return None
    rules = TokenRules(
        names=names,
        limit=limit_of(model),
        padded=False,
        side=tokenizer.padding_side,
        padding=int(tokenizer.pad_token_id),
        template=prompt + template,
    )
    return inputs_of_tokenizer(tokenizer, rules)


def sentence_limit(model: Any, prompt: str, template: str, lock: threading.Lock) -> TextLimit | None:
    """How many tokens the model reads, those of prompt and template counted; None where it reads all."""
    limit, tokenizer = limit_of(model), model.tokenizer
    if limit is None:
        return None

    def count(texts: Sequence[str]) -> list[int]:
        filled = [prompt + template.replace("{}", text) for text in texts]
        with lock:  # a fast tokenizer changes its state in place
            # Word vectors come with a tokenizer of the library's own, which puts no end tokens.
            own = not callable(tokenizer)
            return [len(tokenizer.tokenize(text)) for text in filled] if own else token_counts(tokenizer, filled)

    return TextLimit(limit, count)


def limit_of(model: Any) -> int | None:
    """Tokens a text may have; None where all of it is read: bags of word vectors, tokenizers without a limit."""
    limit = model.max_seq_length
    return None if limit is None or limit >= UNLIMITED else int(limit)


def load_tower(folder: Path, modality: Modality, spec: Mapping[str, Any]) -> PretrainedBackbone:
    """The text tower with random weights, from the `files` of a tower that lie in `folder`."""
    from sentence_transformers import SentenceTransformer

    del modality
    with loading(str(folder), folder), Scratch.temporary("model") as scratch, random_weights(), no_progress_bar():
        # The library builds a transformer only by reading its weights: a file that holds none leaves them random.
        files = read_small_files(folder, ["**/*"])
        first = json.loads(files[MODULES_FILE])[0].get("path", "")
        files[f"{first}/model.safetensors".lstrip("/")] = save({}, metadata={"format": "pt"})
        for name, content in files.items():
            scratch.file(f"files/{name}").write_bytes(content)
        model = SentenceTransformer(str(scratch.path / "files"), device="cpu", local_files_only=True)
    if spec["max_length"] is not None:
        model.max_seq_length = spec["max_length"]
    return SentenceTower(
        model, folder, outputs=int(spec["outputs"]), template=spec["template"], max_length=spec["max_length"]
    )


Features = dict[str, Any]
"""What a model's `preprocess` returns: tensors by name, and the modality."""
_LONGEST = 200
"""How many times as long as its other side a picture may be. The processors of Qwen's models refuse longer ones, and
do not say which picture of a batch it was."""


def modalities_of(model: Any) -> frozenset[Modality]:
    """What a model of the library embeds, as it says itself."""
    parts: dict[Modality, Any] = {"text": "text", "image": "image", "text+image": ("image", "text")}
    return frozenset(modality for modality, theirs in parts.items() if model.supports(theirs))


def takes_messages(model: Any) -> bool:
    """Whether the library writes every input as a message of a chat: prompts then stand before pictures too."""
    return "message" in model.modalities


def check_marks(texts: Sequence[str], model: Any) -> None:
    """Raise `EncoderError` for a text with a mark that stands for a picture or a video in this model."""
    for kind in ("image", "video"):
        mark = getattr(model.processor, f"{kind}_token", None)
        if isinstance(mark, str) and mark:
            check_no_marks(texts, mark, "picture" if kind == "image" else kind)


def has_marks(model: Any) -> bool:
    """Whether there are marks that `check_marks` refuses."""
    marks = (getattr(model.processor, f"{kind}_token", None) for kind in ("image", "video"))
    return any(isinstance(mark, str) and mark for mark in marks)


def as_texts(texts: Sequence[str], model: Any) -> list[Any]:
    """Texts as the library takes them: one that looks like an address, or names a file, stays a text."""
    # The library guesses what a string is: it would fetch addresses of pictures, videos and sounds, and open files.
    if set(model.modalities) == {"text"}:
        return list(texts)
    from sentence_transformers.base.modality import infer_modality

    return [text if infer_modality(text) == "text" else {"text": text} for text in texts]


class SentencePictures:
    """Pictures on their way into a model."""

    # `prepare` runs in threads. Where the library makes the same numbers of one picture as of many, and they are pixels
    # of one size, it does all of the preprocessing; otherwise (models of any resolution, messages of a chat) it gives
    # the picture as (height, width, 3) bytes, or with `sees_batches` as it is, and the library sees the whole batch.

    def __init__(self, model: Any, sees_batches: bool = False) -> None:
        self._model, self._sees_batches, self._processor = model, sees_batches, _image_processor(model)
        settings = {} if self._processor is None else self._processor.to_dict()
        size = dict(settings.get("size") or {}) if settings.get("do_resize", True) else {}
        # With both, Qwen's processors mean the least and the largest number of pixels of a picture.
        edge = None if "longest_edge" in size else size.get("shortest_edge")
        self._shortest_edge = edge if isinstance(edge, int) else None
        # Whether the model sees a picture at its own proportions: Qwen's merge patches, chat or none around them.
        self.any_resolution = takes_messages(model) or hasattr(self._processor, "merge_size")
        self.one_by_one = not sees_batches and not takes_messages(model) and self._same_alone()

    def prepare(self, image: Image) -> Pixels:
        """One RGB picture: its pixels as the model wants them, or as they are."""
        # One that the model would not take is named before it meets others in a batch.
        check_sliver(image, self._shortest_edge)
        if self.any_resolution and max(image.size) > _LONGEST * min(image.size):
            raise ImageError(
                f"an image of {image.width} × {image.height} pixels is too narrow: one side is more than {_LONGEST} "
                "times the other.",
                hint="crop it, or set it aside (--skip-broken)",
            )
        if self._sees_batches:
            return image  # type: ignore[return-value]  # what pixels are is the encoder's affair
        if not self.one_by_one:
            return np.asarray(image)
        pixels: NDArray[Any] = self._model.preprocess([image])["pixel_values"][0].numpy()
        return pixels

    def features(self, batch: Sequence[Pixels]) -> Features:
        """The model's input of n pictures that went one by one, on the CPU."""
        import torch

        return {"pixel_values": torch.from_numpy(np.stack(batch)), "modality": "image"}

    def pictures(self, batch: Sequence[Pixels]) -> list[Image]:
        """Prepared pictures as PIL images again, where `prepare` left them as they were."""
        from PIL import Image as images

        return [images.fromarray(pixels) if isinstance(pixels, np.ndarray) else pixels for pixels in batch]

    def values(self) -> dict[str, Any]:
        """The settings of the model's image processor, for the card."""
        if self._processor is None:
            return {"processor": type(self._model.processor).__name__}
        return processor_values(self._processor)

    def _same_alone(self) -> bool:
        from PIL import Image as images

        random = np.random.default_rng(0)
        trial = [images.fromarray(random.integers(0, 256, (*size, 3), np.uint8)) for size in ((41, 67), (67, 41))]
        try:
            both = self._model.preprocess(trial)
            alone = [self._model.preprocess([image]) for image in trial]
            pixels = both["pixel_values"]
            return (
                {name for name, value in both.items() if hasattr(value, "shape")} == {"pixel_values"}
                and both["modality"] == "image"
                and pixels.ndim == 4
                and all(bool((pixels[row] == single["pixel_values"][0]).all()) for row, single in enumerate(alone))
            )
        except Exception:  # whatever a library's code does not do with one picture, it may do with a batch
            return False


def to_model(features: Features, device: Any) -> Features:
    """The tensors on the model's device."""
    move: Callable[[Any], Any] = lambda value: value.to(device) if hasattr(value, "to") else value  # noqa: E731
    return {name: move(value) for name, value in features.items()}


def _image_processor(model: Any) -> Any:
    from transformers.image_processing_utils import BaseImageProcessor

    processor = model.processor
    return processor if isinstance(processor, BaseImageProcessor) else getattr(processor, "image_processor", None)


_ROLE_PROMPTS = ("query_prompt", "document_prompt")
REDUCING = ("dimension", "quantise")
"""Options that change dense vectors afterwards."""
OPTIONS: Mapping[str, tuple[str, ...]] = {
    MULTI_VECTOR: ("template", "query_length", "document_length", *CODE_OPTIONS),
    CROSS_ENCODER: ("max_length", "prompt", *CODE_OPTIONS),
    "": ("template", "max_length", "prompt", *_ROLE_PROMPTS, *CODE_OPTIONS, *REDUCING, "vectors"),
}
"""What may follow the name of a model, by the class of the library; "" is every other one."""
NO_PROMPT = "none"


@dataclass(frozen=True)
class SentenceRequest:
    """What was asked for: a name with its options, and the files that it leads to."""

    kind: str  # the class of the library
    name: str  # the name as it was given
    files: ModelFiles  # the model's files
    options: Mapping[str, str]  # the options of the name
    device: str  # as of `visir.load`
    dtype: str

    @property
    def trusted(self) -> bool:
        """Whether the code that comes with the model may run."""
        return self.files.code is not None

    @property
    def template(self) -> str:
        """The text around each text."""
        return template_of(self.name, dict(self.options))

    @property
    def max_length(self) -> int | None:
        """The tokens that texts are cut to; None for the model's own limit."""
        return positive_number(self.name, dict(self.options), "max_length")

    def model(self) -> Any:
        """The model, as an object of its class of the library."""
        import sentence_transformers
        import torch

        _, max_length, options = self.template, self.max_length, dict(self.options)  # checked before anything is read
        roles: tuple[Role, ...] = ("query", "document")
        lengths = {role: positive_number(self.name, options, f"{role}_length") for role in roles}
        check_code(self)
        _ = self.files.weights  # fetched now that the model is known to be of this library
        device, dtype = of_torch(self.device, self.dtype)
        precision = getattr(torch, dtype)
        with loading(self.name, code=self.trusted), no_progress_bar(), self.files.code_held():
            with complete_weights(self.name, _unused):
                model = getattr(sentence_transformers, self.kind)(
                    str(self.files.folder),
                    device=device,
                    local_files_only=True,
                    trust_remote_code=self.trusted,
                    model_kwargs={"dtype": precision},
                )
            model = model.to(precision).eval()  # modules after the transformer are not told the dtype
            check_saved_tokenizer(model, self.files.folders)
            self.files.check_code(model)
            for role, length in lengths.items():
                if length is not None:
                    _shorten_role(self.name, model[0], role, length)
            if max_length is not None:
                self._shorten(model, max_length)
            if self.kind != MULTI_VECTOR:
                _check_texts(self.name, model)
        return model

    def prompts(self, model: Any) -> dict[Role, str]:
        """What stands before queries, and before documents."""
        prompts: dict[Role, str] = role_prompts(model)
        if self.kind == MULTI_VECTOR:
            return {role: str(model.prompts.get(role) or "") for role in prompts}
        if self.kind == CROSS_ENCODER:  # the library takes no prompt by the names of roles here
            prompts = dict.fromkeys(prompts, default_prompt(model))
        by_role: dict[Role, str | None] = {
            "query": self.options.get("query_prompt", self.options.get("prompt")),
            "document": self.options.get("document_prompt", self.options.get("prompt")),
        }
        own = {name: prompt for name, prompt in model.prompts.items() if prompt}
        for role, wanted in by_role.items():
            if wanted is not None and wanted not in own and wanted != NO_PROMPT:
                there = ", ".join(f"{name} ({prompt!r})" for name, prompt in own.items()) or "none at all"
                raise EncoderError(
                    f"{self.name}: this model has no prompt {wanted!r}. It has: {there}.",
                    hint=f"{nearest(wanted, [*own, NO_PROMPT])}; words of your own: ?template=query: {{}}",
                    code="model-no-prompt",
                )
            if wanted is not None:
                prompts[role] = own.get(wanted, "")
        return prompts

    def card(
        self,
        model: Any,
        prompts: Mapping[Role, str],
        images: Mapping[str, Any] | None,
        family: str,
        more: Mapping[str, Any] | None = None,
    ) -> EncoderCard:
        """The model's card."""
        both = {str(role): prompt for role, prompt in prompts.items()}
        prompt = both["query"] if both["query"] == both["document"] else both
        spoken, before_pictures = dict(more or {}), {}
        if takes_messages(model):
            template = str(getattr(model.processor, "chat_template", None)).encode()
            spoken = {"chat_template": hashlib.blake2b(template, digest_size=8).hexdigest(), **spoken}
            before_pictures = {"prompt": prompt} if prompt else {}
        return self.plain_card(
            family,
            {} if images is None else {**images, **spoken, **before_pictures},
            {**sentence_values(model, self.template, prompt), **spoken} if model.supports("text") else {},
        )

    def plain_card(self, family: str, images: Mapping[str, Any], texts: Mapping[str, Any]) -> EncoderCard:
        """The card of a model with this preprocessing."""
        return EncoderCard(
            name=self.name,
            family=family,
            revision=self.files.revision,
            weights=self.files.fingerprint,
            image_preprocessing=dict(images),
            text_preprocessing=dict(texts),
            dtype=dtype_on_card(self.device, self.dtype),
            code_revisions=self.files.code_revisions,
        )

    def _shorten(self, model: Any, max_length: int) -> None:
        limit = limit_of(model) if model.supports("text") else None
        if limit is None or max_length > limit:
            has = "no limit of its own to lower" if limit is None else f"{limit} tokens at most"
            raise EncoderError(
                f"{self.name}: max_length={max_length} cannot be had: this model has {has}.",
                hint="leave max_length out" if limit is None else f"a number up to {limit}",
                code="max-length-cannot",
            )
        model.max_seq_length = max_length


def _check_texts(name: str, model: Any) -> None:
    """Raise `EncoderError` where the transformer has not a vector for each token, or not a place for each that is
    read."""
    # Whether a length that its configuration does not know is too long is tried with one text: some models have no
    # table of places.
    import torch

    transformer = getattr(model[0], "auto_model", None)
    config: Any = getattr(transformer, "config", None)
    if not hasattr(config, "get_text_config") or not model.supports("text"):
        return
    text = config.get_text_config()
    check_vocabulary(name, model.tokenizer, getattr(text, "vocab_size", None))
    most, limit = positions(text), limit_of(model)
    if most is None or limit is None or limit <= most or takes_messages(model):
        return
    long = "a " * limit
    try:
        with torch.inference_mode():
            if hasattr(model, "encode"):
                model.encode(long, show_progress_bar=False)
            else:  # a cross-encoder
                model.predict([(long, long)], show_progress_bar=False)
    except Exception as fault:
        raise EncoderError(
            f"{name}: texts are cut to {limit} tokens (max_seq_length), and the model has places for {most}: "
            f"{type(fault).__name__}: {fault}",
            hint=f"ask for fewer: {with_option(name, 'max_length', str(most))}",
            code="texts-cut-tokens-max",
        ) from fault


def _unused(model_class: type[Any]) -> Sequence[str]:
    """The weights of a class that the library never computes: its own modules pool what a text model gives."""
    if model_class.__name__.endswith("ForSequenceClassification"):
        return ()  # a cross-encoder: its classifier reads the pooler
    if family := ROWS.get(model_class.__name__):
        return [f"{module}.*" for module in family.unused]
    return () if hasattr(model_class, "get_image_features") else ("pooler.*", "*.pooler.*")


def check_code(request: SentenceRequest) -> None:
    """Raise `EncoderError` for a model that needs code of its own, when nobody has said that it may run."""
    folder = request.files.folder
    parts = read_modules(folder)
    # The library reads PyLate's modules with its own code.
    libraries = ("sentence_transformers.", "pylate.") if request.kind == MULTI_VECTOR else "sentence_transformers."
    own = [part for part in parts if not str(part.get("type", "")).startswith(libraries)]
    if not request.trusted and (own or _needs_own_class(request)):
        raise refuse_code(request.name, other_repositories(request.files.folders))


def _needs_own_class(request: SentenceRequest) -> bool:
    """Whether a configuration names classes in files beside it, for a kind of model that transformers lacks."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    folder = request.files.folder
    configs = [
        read_configuration(path) for path in sorted([*folder.glob("config.json"), *folder.glob("*/config.json")])
    ]
    native = {} if request.kind == MULTI_VECTOR else CONFIG_MAPPING_NAMES  # late interaction: refused in any case
    return any(config.get("auto_map") and config.get("model_type") not in native for config in configs)


def _shorten_role(name: str, transformer: Any, role: Role, length: int) -> None:
    """Cut the texts of one role to so many tokens."""
    if "message" in transformer.modalities:
        raise EncoderError(
            f"{name}: {role}_length={length} cannot be had: this model writes its inputs into a chat, whose end would "
            "be cut off.",
            hint="leave it out",
            code="length-in-chat",
        )
    expansion, limit = transformer.query_expansion, role_limit(transformer, role)
    if limit is not None and length > limit:
        raise EncoderError(
            f"{name}: {role}_length={length} cannot be had: this model reads {limit} tokens at most.",
            code="length-cannot",
        )
    if role == "query" and expansion is not None:  # queries are filled up to a length with expansion tokens
        transformer.query_expansion = {**expansion, "length": length}
    else:
        setattr(transformer, f"{role}_length", length)


def role_limit(transformer: Any, role: Role) -> int | None:
    """How many tokens of a query or document are read; None where there is no limit."""
    expansion = transformer.query_expansion if role == "query" else None
    if expansion is not None and expansion["strategy"] == "fixed":
        return int(expansion["length"])
    lengths = [getattr(transformer, f"{role}_length", None), getattr(transformer, "max_seq_length", None)]
    given = [int(length) for length in lengths if length and length < UNLIMITED]
    return min(given) if given else None


def multi_vector_values(model: Any) -> dict[str, Any]:
    """Everything that changes the vectors of texts, as plain values."""
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    transformer, tokenizer = model[0], model.tokenizer
    masks = [module for module in model if isinstance(module, MultiVectorMask)]
    values = {
        "tokenizer": type(tokenizer).__name__.removesuffix("Fast"),
        "vocabulary": vocabulary_hash(tokenizer),
        "prompt": {role: str(model.prompts.get(role) or "") for role in ("query", "document")},
        "max_length": {role: role_limit(transformer, role) for role in ("query", "document")},
        "query_expansion": transformer.query_expansion,
        "left_out": [word for mask in masks for word in mask.skiplist_words],
        "left_out_of": [task for mask in masks if mask.skiplist_words for task in mask.skiplist_tasks],
        "kept_tokens": [token for mask in masks for token in mask.keep_only_token_ids or ()],
        "similarity": model.similarity_fn_name,
        "modules": [type(module).__name__ for module in model],
    }
    plain: dict[str, Any] = json.loads(json.dumps(values, default=str))
    return plain
