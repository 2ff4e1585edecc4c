"""The objectives of `visir.training.objective` as the trainers of sentence-transformers take them."""

from __future__ import annotations

import math
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from pydantic import BaseModel, ValidationError, create_model
from torch import Tensor, distributed, nn
from torch.nn import functional

from visir.errors import ConfigurationError, VisirError, require
from visir.training.losses import Losses
from visir.training.objective import WITH_NEGATIVES, Auxiliary, Contrastive, build_objective
from visir.training.processes import Processes, pairs_of_all
from visir.training.settings import explain_faults
from visir.training.similarities import VectorPairs

if TYPE_CHECKING:
    from transformers import TrainerCallback

STATE_FILE = "visir_loss{}.safetensors"
"""Where a checkpoint of the trainer keeps what a loss has learnt (decoders, temperature, multipliers); with its name,
if it has one."""

_WHOLE = 1 << 24
"""Beyond it float32, in which the trainer gives labels beside targets, has no longer every whole number."""

Similarity = Literal["cosine", "dot"]
Features = Mapping[str, Any]

_CITED = {
    "ltd": "bleeker2022keep",
    "infonce": "oord2018representation",
    "triplet": "faghri2018vse",
    "ifm": "robinson2021can",
    "sigmoid": "zhai2023sigmoid",
    "filip": "yao2022filip",
    "multi-positive": "khosla2020supervised",
    "cosine": "bleeker2022keep",
    "itd": "bleeker2022keep",
}
"""Loss → the key of its paper in `losses.bib`."""


def citation_of(keys: Iterable[str]) -> str:
    """The entries of `losses.bib` under these keys."""
    entries = Path(__file__).with_name("losses.bib").read_text(encoding="utf-8").strip().split("\n\n")
    by_key = {entry.partition("{")[2].partition(",")[0]: entry for entry in entries}
    return "\n\n".join(by_key[key] for key in dict.fromkeys(keys))


def check_finite(labels: Tensor) -> None:
    """Raise `VisirError` for vectors of a teacher that are none: the trainer would log a loss of 0 and go on."""
    if not labels.isfinite().all():
        raise VisirError(
            "the column `label` holds NaN or infinite numbers.",
            hint="look for empty texts, or broken pictures, among what its vectors were made of",
            code="targets-not-finite",
        )


class TrainerLoss(nn.Module, ABC):
    """What the losses here share: a model of sentence-transformers, and the place of a step in the training.

    Args:
        model: A `SentenceTransformer`, of texts or of images and texts, a `SparseEncoder` or a `MultiVectorEncoder`.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self._is_followed = False
        self._parts: list[Mapping[str, Tensor]] = []
        self._logged: dict[str, float] = {}

    @abstractmethod
    def losses(self, vectors: Sequence[Tensor], labels: Tensor | None, features: Sequence[Features]) -> Losses:
        """The losses of a batch from the model's vectors of each column."""

    @property
    @abstractmethod
    def is_scheduled(self) -> bool:
        """Whether something moves from step to step beside the weights, so that `callback` is needed."""

    @property
    def learnt(self) -> nn.Module | None:
        """What is trained beside the model, and is no part of it."""
        return None

    def facts(self) -> Mapping[str, float | Tensor]:
        """What moves beside the weights, for the log."""
        return {}

    def begin(self, epochs: int, steps: int) -> None:
        """Take note of the length of the training: epochs, and updates in each."""

    def at_step(self, epoch: int, step: int) -> None:
        """Take note of the place of the update that comes, both from 0; a loop of your own calls it before each."""
        self._is_followed = True

    def after_step(self) -> None:
        """Move what the optimiser does not; a loop of your own calls it after each update of the weights."""
        if self._parts:
            names = list(self._parts[0])
            means = torch.stack([torch.stack([part[name].double() for name in names]) for part in self._parts]).mean(0)
            processes = _processes(means.device)
            values = (processes.sum(means) / processes.count).tolist()
            self._logged = dict(zip(names, values, strict=True))
            self._parts = []
            if not all(map(math.isfinite, values)):
                raise VisirError(
                    f"the loss is not finite: {self._logged}.",
                    hint="go on from the last checkpoint with a lower learning_rate, or more warmup_steps",
                    code="loss-not-finite",
                )
            self._move(self._logged)

    def _move(self, parts: Mapping[str, float]) -> None:
        """Move by the parts of the losses, averaged over the update and the processes."""

    def forward(self, sentence_features: Iterable[Features], labels: Tensor | None = None) -> Tensor:
        """The loss of a batch, as the trainer calls it."""
        # The model writes into the dictionaries that it gets, and losses over losses read there; inputs are kept apart.
        features = list(sentence_features)
        inputs = [dict(column) for column in features]
        return self._total(self._embed(features), labels, inputs)

    def _embed(self, features: list[Features]) -> Sequence[Tensor]:
        from sentence_transformers.base.losses.merged_forward import embed_columns

        vectors: list[Tensor] = embed_columns(self.model, features)
        return vectors

    def compute_loss_from_embeddings(self, embeddings: Sequence[Tensor], labels: Tensor | None = None) -> Tensor:
        """The loss of vectors that are there already: losses over losses (SpladeLoss, MatryoshkaLoss) call it."""
        return self._total(embeddings, labels, ())

    def _total(self, vectors: Sequence[Tensor], labels: Tensor | None, features: Sequence[Features]) -> Tensor:
        if len(vectors) < 2:
            raise ConfigurationError(
                f"{len(vectors)} column of inputs; a loss of pairs takes two or more.",
                hint='columns "anchor", "positive", and negatives of the anchor if there are any; the label last',
            )
        learns = torch.is_grad_enabled()
        if learns and not self._is_followed and (self.is_scheduled or (_count() > 1 and self.learnt is not None)):
            raise ConfigurationError(
                f"{type(self).__name__}: nobody tells this loss where the training stands.",
                hint="give the trainer loss.callback() among its callbacks; in a loop of your own call "
                "loss.at_step(epoch, step) before and loss.after_step() after each update",
                code="loss-without-callback",
            )
        # As in visir's own loop: only the towers compute in half precision.
        with torch.autocast(vectors[0].device.type, enabled=False):
            losses = self.losses([vector.float() for vector in vectors], labels, features)
        if learns and self._is_followed:
            self._parts.append(losses.parts)
        return losses.total

    def callback(self, name: str = "") -> TrainerCallback:
        """What tells the loss of steps: `Trainer(…, loss=loss, callbacks=[loss.callback()])`.

        It moves multipliers after each update, averages the gradients of what the loss learns over the processes (the
        trainer averages the model's), logs the parts of the loss, and saves what was learnt in each checkpoint.

        Args:
            name: Of the loss, where a training has several: it stands before what is logged, and in the file's name.
        """
        require("transformers", extra="transformers", purpose="training with sentence-transformers")
        from transformers import TrainerCallback

        loss, key, file = self, f"visir loss {name}", STATE_FILE.format(name and f"_{name}")

        class Following(TrainerCallback):  # type: ignore[misc]
            def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
                followed = vars(state).setdefault("visir_losses", [])  # of this call of `train` alone
                if key in followed:
                    raise ConfigurationError(
                        f"two callbacks of losses have the name {name!r}: one would replace what the other saves.",
                        hint='one for each loss, with a name: loss.callback("captions")',
                        code="callbacks-of-one-name",
                    )
                followed.append(key)
                epochs = max(1, round(state.num_train_epochs))
                self.steps = max(1, -(-state.max_steps // epochs))
                loss.begin(epochs, self.steps)
                if loss.learnt is None:
                    return
                # Which training a file belongs to stands in the trainer's own state and in the file: a folder may hold
                # the checkpoint of another one, and a training may go on from a folder of another place.
                saved = state.stateful_callbacks.get(key, {}).get("attributes", {})
                self.run = saved.get("run") or uuid.uuid4().hex
                written = {"run": self.run, "folder": str(Path(args.output_dir).absolute())}
                state.stateful_callbacks[key] = {"args": {}, "attributes": written}
                if state.global_step:
                    step = f"checkpoint-{state.global_step}"
                    places = [Path(args.output_dir) / step, Path(saved.get("folder", args.output_dir)) / step]
                    if args.resume_from_checkpoint:
                        places = [Path(args.resume_from_checkpoint)]
                    loss.load_learnt([place / file for place in places], saved.get("run"))

            def on_step_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
                loss.at_step(*divmod(state.global_step, self.steps))

            def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **others: Any) -> None:
                loss.average_gradients()

            def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
                loss.after_step()

            def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
                loss._is_followed = False  # the next training may have no callback

            def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any], **others: Any) -> None:
                if "loss" in logs:
                    now = {**loss._logged, **{fact: float(value) for fact, value in loss.facts().items()}}
                    now = {f"{name} {part}".strip(): value for part, value in now.items()}
                    logs.update(now)
                    state.log_history[-1].update(now)

            def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
                if state.is_world_process_zero and loss.learnt is not None:
                    loss.save_learnt(Path(args.output_dir) / f"checkpoint-{state.global_step}" / file, self.run)

        return Following()

    def check_alone(self) -> None:
        """Raise `ConfigurationError` in one of several processes."""
        if _count() > 1:
            raise ConfigurationError(
                f"{type(self).__name__}: trained in one process.", hint="python, without torchrun or accelerate launch"
            )

    def average_gradients(self) -> None:
        """Replace the gradients of what the loss learns by their means over the processes."""
        count = _count()
        if count == 1 or self.learnt is None:
            return
        for weight in self.learnt.parameters():
            if weight.requires_grad:
                gradient = torch.zeros_like(weight) if weight.grad is None else weight.grad
                distributed.all_reduce(gradient)
                weight.grad = gradient / count

    def save_learnt(self, path: Path, run: str = "") -> None:
        """Write what the loss has learnt, and in which training, into a checkpoint of the trainer."""
        from safetensors.torch import save_file

        assert self.learnt is not None
        state = {name: tensor.detach().cpu().contiguous() for name, tensor in self.learnt.state_dict().items()}
        save_file(state, str(path), {"run": run})

    def load_learnt(self, paths: Sequence[Path], run: str | None = None) -> None:
        """Read what `save_learnt` wrote, from the first of these places that holds a file of this training."""
        from safetensors import safe_open
        from safetensors.torch import load_file

        assert self.learnt is not None
        for path in dict.fromkeys(path for path in paths if path.is_file()):
            with safe_open(str(path), framework="pt") as stored:
                is_ours = run is None or (stored.metadata() or {}).get("run") == run
            if is_ours:
                self.learnt.load_state_dict(load_file(str(path)))
                return
        raise ConfigurationError(
            f"{paths[0]}: missing, or of another training; the model goes on from a checkpoint, and its loss would "
            "begin anew.",
            hint="where the checkpoint lies elsewhere, name it in the trainer's arguments too (resume_from_checkpoint)",
            code="loss-state-missing",
        )


class ObjectiveLoss(TrainerLoss):
    """Any contrastive loss of visir, with or without LTD and ITD, for `SentenceTransformerTrainer`.

    The sections of a recipe say which: `objective` and `auxiliary` (docs/reference/recipe-settings.md). The mathematics
    is that of `visir.train`: the same `Objective` is called.

    A data set has the columns anchor, positive, and negatives of the anchor if there are any. Its label is left out, or

    - (n,) integers: the anchor that each pair belongs to, so that captions of one image are no negatives of each other
      (`false_negatives`), or positives ("multi-positive");
    - (n, t) numbers: the latent targets that LTD decodes (vectors of a sentence encoder);
    - (n, 1 + t) numbers: both, the anchor first.

    ITD decodes the model's own tokens of the positives, where `visir.train` has words of its own. A
    `MultiVectorEncoder` takes "filip", and no other.

    With several processes (`torchrun`, `accelerate launch`) everybody's pairs are everybody's negatives; `local_loss`
    works, and the gradient is that of one process with the union of the batches.

    Args:
        model: The model that is trained.
        objective: Of `InfoNCESettings`, `IFMSettings`, … or as a dictionary: {"name": "ifm", "epsilon": 0.1}.
        auxiliary: `Auxiliary`, or as a dictionary: {"ltd": {"join": "constraint", "bound": 0.2}}.
        similarity: "cosine", or "dot" of vectors as they come; left out, a model that compares by "dot" keeps it.
        target_width: t, the width of LTD's targets.
        dimension: Of the model's vectors, where it does not say it itself.
        seed: Of the decoders' first weights.

    Raises:
        ConfigurationError: The settings have faults; or something is missing that they need.

    Example:
        >>> from sentence_transformers import SentenceTransformer
        >>> from visir.encoders.models.sentence import packaged_model
        >>> model = SentenceTransformer(str(packaged_model()))
        >>> loss = ObjectiveLoss(model, {"name": "ifm", "epsilon": 0.1})
        >>> loss.get_config_dict()["objective"]["epsilon"]
        0.1
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Contrastive | Mapping[str, Any] | str = "infonce",
        auxiliary: Auxiliary | Mapping[str, Any] | None = None,
        *,
        similarity: Similarity | None = None,
        target_width: int | None = None,
        dimension: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model)
        objective = {"name": objective} if isinstance(objective, str) else objective
        self.settings: Contrastive = checked(Contrastive, objective, "objective")
        self.auxiliary: Auxiliary = checked(Auxiliary, auxiliary or {}, "auxiliary")
        known: Any = model
        self._check_vectors(model)
        if dimension is None and hasattr(model, "get_embedding_dimension"):
            dimension = known.get_embedding_dimension()
        decodes = self.auxiliary.ltd is not None or self.auxiliary.itd is not None
        if decodes and dimension is None:
            raise ConfigurationError(
                "auxiliary: the model does not say how wide its vectors are.", hint="give dimension=512, say"
            )
        self.dimension = dimension
        vocabulary = 1 + len(known.tokenizer) if self.auxiliary.itd is not None else None
        self.target_width = target_width
        if similarity is None:
            similarity = "dot" if getattr(model, "similarity_fn_name", None) == "dot" else "cosine"
        self.similarity: Similarity = similarity
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            self.objective = build_objective(
                self.settings,
                self.auxiliary,
                dimension=dimension or 0,
                target_width=target_width,
                vocabulary=vocabulary,
                own_temperature=None,
            )

    @property
    def is_scheduled(self) -> bool:
        """See `TrainerLoss.is_scheduled`: a multiplier."""
        return any(name.endswith("multiplier") for name in self.objective.facts())

    @property
    def learnt(self) -> nn.Module | None:
        """See `TrainerLoss.learnt`: decoders, a learnt temperature, multipliers."""
        moves = any(weight.requires_grad for weight in self.objective.parameters())
        return self.objective if moves or self.is_scheduled else None

    def facts(self) -> Mapping[str, float | Tensor]:
        """See `TrainerLoss.facts`: the temperature, the bias, multipliers."""
        return self.objective.facts()

    def _check_vectors(self, model: nn.Module) -> None:
        """Raise `ConfigurationError` where the model gives one vector for a text and the loss wants several, or so."""
        from sentence_transformers import MultiVectorEncoder

        several = isinstance(model, MultiVectorEncoder)
        if several != (self.settings.name == "filip"):
            raise ConfigurationError(
                f"objective.name = {self.settings.name!r}: {type(model).__name__} gives "
                f"{'several vectors' if several else 'one vector'} for each input.",
                hint='objective="filip"' if several else '"filip" is for MultiVectorEncoder; "infonce" is its kin here',
                code="loss-of-other-vectors",
            )
        if several and (self.auxiliary.ltd or self.auxiliary.itd):
            raise ConfigurationError(
                "auxiliary: LTD and ITD decode one vector for each caption.", hint='leave it out with "filip"'
            )

    def _embed(self, features: list[Features]) -> Sequence[Tensor]:
        if self.settings.name != "filip":
            return super()._embed(features)
        from sentence_transformers.base.losses.merged_forward import chunked_padded_forward, embed_columns_padded

        first, *rest = map(dict, features)
        vectors, mask = chunked_padded_forward(self.model, first, first.get("task", "query"), None)
        others, masks = embed_columns_padded(self.model, rest, task_default="document")
        sets = zip([vectors, *others], [mask.bool(), *masks], strict=True)
        return [part.masked_fill(~is_there[..., None], 0.0) for part, is_there in sets]  # zeros are padding

    def losses(self, vectors: Sequence[Tensor], labels: Tensor | None, features: Sequence[Features]) -> Losses:
        """See `TrainerLoss.losses`."""
        if self.settings.name == "filip":
            self.check_alone()
        tokens = _tokens(features[1]) if self.auxiliary.itd is not None and features else None
        if self.auxiliary.itd is not None and tokens is None:
            raise ConfigurationError(
                "ITD decodes the tokens of the second column; there are none.",
                hint='texts in the second column (dataset.select_columns(["image", "caption"])), and no loss around it',
                code="positives-without-tokens",
            )
        if (self.auxiliary.ltd or self.auxiliary.itd) and vectors[1].shape[-1] != self.dimension:
            raise ConfigurationError(
                f"vectors of {vectors[1].shape[-1]} numbers; the decoder takes {self.dimension}.",
                hint="LTD and ITD do not go inside MatryoshkaLoss; otherwise give dimension=",
                code="decoder-of-another-width",
            )
        if self.similarity == "cosine":
            vectors = [functional.normalize(part, dim=-1) for part in vectors]
        anchors, positives, *negatives = vectors
        if negatives and self.settings.name not in WITH_NEGATIVES:
            raise ConfigurationError(
                f"objective.name = {self.settings.name!r} takes no columns of negatives.",
                hint=f"{', '.join(WITH_NEGATIVES)} do",
                code="loss-without-negatives",
            )
        processes = _processes(anchors.device) if torch.is_grad_enabled() else Processes(0, 1, anchors.device)
        counts = torch.zeros(processes.count, dtype=torch.int64, device=anchors.device)
        counts[processes.rank] = len(anchors)
        sizes = processes.sum(counts).tolist()
        rows, targets = self._read(labels, sum(sizes[: processes.rank]), anchors)
        pairs = VectorPairs(
            anchors,
            torch.cat([positives, *negatives], dim=1),
            rows,
            targets,
            tokens,
            negative_rows=rows.new_full((len(rows), len(negatives)), -1) if negatives else None,
        )
        if processes.count == 1:
            own: Losses = self.objective(pairs.split())
            return own
        everyone = pairs_of_all(pairs, processes, sizes, local=self.objective.local_loss)
        weight = len(anchors) * processes.count / sum(sizes)
        losses: Losses = self.objective(pairs.split(), everyone.split(), weight)
        return losses

    def _move(self, parts: Mapping[str, float]) -> None:
        self.objective.ascend(parts)

    def _read(self, labels: Tensor | None, first: int, like: Tensor) -> tuple[Tensor, Tensor | None]:
        """(n,) the anchors of the pairs, and (n, t) the latent targets."""
        apart = torch.arange(first, first + len(like), device=like.device)
        if labels is None:
            return apart, None
        if labels.ndim == 1:
            return _numbers(labels), None
        width = self.target_width
        if width is None or labels.ndim != 2 or labels.shape[1] not in (width, width + 1):
            raise ConfigurationError(
                f"labels of shape {tuple(labels.shape)}; wanted: (n,) anchors, (n, t) latent targets, or (n, 1 + t) "
                f"both, with t = target_width = {width}.",
                hint="target_width=384, and auxiliary={'ltd': {}}, for targets of 384 numbers",
                code="labels-of-another-shape",
            )
        check_finite(labels)
        if labels.shape[1] == width:
            return apart, labels
        return _numbers(labels[:, 0]), labels[:, 1:]

    def get_config_dict(self) -> dict[str, Any]:
        """The settings, for the model card."""
        return {
            "objective": self.settings.model_dump(mode="json"),
            "auxiliary": self.auxiliary.model_dump(mode="json", exclude_none=True),
            "similarity": self.similarity,
        }

    @property
    def citation(self) -> str:
        """BibTeX of the papers, for the model card."""
        used = [self.settings.name, *(name for name, settings in self.auxiliary if settings is not None)]
        return citation_of(_CITED[name] for name in used if name in _CITED)


def _numbers(labels: Tensor) -> Tensor:
    """The anchors of pairs, as whole numbers."""
    if labels.is_floating_point() and bool(((labels != labels.round()) | (labels.abs() > _WHOLE)).any()):
        raise ConfigurationError(
            f"the label says which anchor a pair belongs to; {labels[labels != labels.round()][:1].tolist() or 'it'} "
            f"is no whole number up to {_WHOLE:,}.",
            hint="leave out columns of scores; number the anchors 0, 1, 2, …",
            code="labels-no-whole-numbers",
        )
    return labels.to(torch.int64)


def _tokens(features: Features) -> Tensor | None:
    """(n, L) the tokens of texts, from 1, with 0 behind their end."""
    ids, mask = features.get("input_ids"), features.get("attention_mask")
    if ids is None or mask is None:
        return None
    order = mask.argsort(dim=1, descending=True, stable=True)  # some tokenizers pad on the left
    tokens: Tensor = ((ids + 1) * mask).gather(1, order)
    return tokens


def checked(kind: Any, given: Any, title: str) -> Any:
    """A section of a recipe, checked."""
    recipe: type[BaseModel] = create_model("Recipe", **{title: (kind, ...)})  # type: ignore[call-overload]
    try:
        return getattr(recipe.model_validate({title: given}), title)
    except ValidationError as fault:
        faults = explain_faults(recipe, fault, {})
        raise ConfigurationError(
            f"{'; '.join(faults)}.", hint="docs/reference/recipe-settings.md", code="loss-settings"
        ) from fault


def _count() -> int:
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def _processes(device: torch.device) -> Processes:
    """The processes that the trainer has joined."""
    return Processes(distributed.get_rank() if _count() > 1 else 0, _count(), device)
