"""A model of sentence-transformers from its files: options of the name, prompts, remote code, and its card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from visir.encoders.devices import dtype_on_card, of_torch
from visir.encoders.models.hub import (
    CODE_OPTIONS,
    ModelFiles,
    loading,
    no_progress_bar,
    other_repositories,
    positive_number,
    read_configuration,
    read_modules,
    refuse_code,
    template_of,
)
from visir.encoders.models.sentence_inputs import message_values, takes_messages
from visir.encoders.models.sentence_tower import limit_of, role_prompts, sentence_values
from visir.encoders.models.tokens import check_saved_tokenizer, check_vocabulary
from visir.encoders.models.transformers_kinds import positions
from visir.errors import EncoderError, nearest
from visir.options import with_option
from visir.records import EncoderCard, Role

MODULES_FILE, CONFIG_FILE = "modules.json", "config_sentence_transformers.json"
OPTIONS = ("template", "max_length", "prompt", "query_prompt", "document_prompt", *CODE_OPTIONS)
"""What may follow the name of every model of the library."""
NO_PROMPT = "none"


@dataclass(frozen=True)
class SentenceRequest:
    """What was asked for: a name with its options, and the files that it leads to."""

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

    def model(self, kind: Any, **more: Any) -> Any:
        """The model, as an object of a class of the library."""
        import torch

        template, max_length = self.template, self.max_length  # checked before anything is read
        del template
        check_code(self)
        _ = self.files.weights  # fetched now that the model is known to be of this library
        device, dtype = of_torch(self.device, self.dtype)
        precision = getattr(torch, dtype)
        with loading(self.name, code=self.trusted), no_progress_bar(), self.files.code_held():
            model = kind(
                str(self.files.folder),
                device=device,
                local_files_only=True,
                trust_remote_code=self.trusted,
                model_kwargs={"dtype": precision},
                **more,
            )
            model = model.to(precision).eval()  # modules after the transformer are not told the dtype
            check_saved_tokenizer(model, self.files.folders)
            self.files.check_code(model)
            if max_length is not None:
                self._shorten(model, max_length)
            _check_texts(self.name, model)
        return model

    def prompts(self, model: Any) -> dict[Role, str]:
        """What stands before queries, and before documents."""
        prompts = role_prompts(model)
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
        family: str = "sentence-transformers",
        more: Mapping[str, Any] | None = None,
    ) -> EncoderCard:
        """The model's card."""
        both = {str(role): prompt for role, prompt in prompts.items()}
        prompt = both["query"] if both["query"] == both["document"] else both
        spoken = {**message_values(model), **(more or {})}
        before_pictures = {"prompt": prompt} if prompt and takes_messages(model) else {}
        return EncoderCard(
            name=self.name,
            family=family,
            revision=self.files.revision,
            weights=self.files.fingerprint,
            image_preprocessing={} if images is None else {**images, **spoken, **before_pictures},
            text_preprocessing={**sentence_values(model, self.template, prompt), **spoken}
            if model.supports("text")
            else {},
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


def model_type(files: ModelFiles) -> str:
    """Which class of the library the model is saved from: "SentenceTransformer", "CrossEncoder", …; "" for none."""
    folder = files.folder
    if (folder / MODULES_FILE).is_file():
        config = read_configuration(folder / CONFIG_FILE)
        return str(config.get("model_type") or "SentenceTransformer")
    config = read_configuration(folder / "config.json")
    architectures = config.get("architectures") or []
    # Before version 6 the library saved a cross-encoder as transformers does.
    return "CrossEncoder" if any(str(name).endswith("ForSequenceClassification") for name in architectures) else ""


def refuse_cross_encoder(bare: str) -> EncoderError:
    """The error for a cross-encoder where an encoder is wanted."""
    return EncoderError(
        f"{bare}: this is a cross-encoder. It scores pairs, and makes no vectors.",
        hint=f"visir.load_cross_encoder({bare!r}), or as second stage: --rerank {bare}",
        code="is-cross-encoder",
    )


def check_code(request: SentenceRequest) -> None:
    """Raise `EncoderError` for a model that needs code of its own, when nobody has said that it may run."""
    folder = request.files.folder
    parts = read_modules(folder)
    own = [part for part in parts if not str(part.get("type", "")).startswith("sentence_transformers.")]
    if not request.trusted and (own or _needs_own_class(request)):
        raise refuse_code(request.name, other_repositories(request.files.folders))


def _needs_own_class(request: SentenceRequest) -> bool:
    """Whether a configuration names classes in files beside it, for a kind of model that transformers does not have."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    folder = request.files.folder
    configs = [
        read_configuration(path) for path in sorted([*folder.glob("config.json"), *folder.glob("*/config.json")])
    ]
    return any("auto_map" in config and config.get("model_type") not in CONFIG_MAPPING_NAMES for config in configs)
