"""The networks of a `SentenceTransformer` as OpenVINO compiles them: of texts, and of pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from visir.encoders.devices import NotCompiledError
from visir.encoders.models.sentence_inputs import Features
from visir.records import Modality, Role


class SentencePart:
    """What a model makes of one modality, as `visir.encoders.models.compiled` takes it."""

    def __init__(
        self,
        name: str,
        modality: Modality,
        model: Any,
        *,
        outputs: int,
        prepare: Callable[[Sequence[Any]], list[Any]],
        features: Callable[[Sequence[Any]], Features],
        sample: Features,
    ) -> None:
        self.modality, self.prepare, self._name, self._features = modality, prepare, name, features
        self._ignored = () if leaves_out_prompts(model) else ("prompt_length",)
        self.network = _Modules(model, self._constant(sample), outputs)

    def collate(self, prepared: Sequence[Any]) -> dict[str, Tensor]:
        """The tensors of a batch."""
        return self.tensors(self._features(prepared))

    def tensors(self, features: Features) -> dict[str, Tensor]:
        """What the network takes of a batch's features."""
        if self._constant(features) != self.network.constant:
            raise cannot_compile(self._name, self.modality, "it takes more than tensors")
        return {name: value for name, value in features.items() if isinstance(value, Tensor)}

    def _constant(self, features: Features) -> dict[str, Any]:
        return {
            name: value
            for name, value in features.items()
            if not isinstance(value, Tensor) and name not in self._ignored
        }


class _Modules(nn.Module):
    """All modules of a model, one after the other; `constant` is what its `preprocess` gives beside tensors."""

    def __init__(self, model: Any, constant: Mapping[str, Any], outputs: int) -> None:
        super().__init__()
        # Not the model itself: tracing asks for all of its attributes, also those that warn of being old.
        self.parts = nn.ModuleList(model.children())
        self.constant, self._outputs = constant, outputs

    def forward(self, inputs: Mapping[str, Tensor]) -> Tensor:
        features: Any = {**inputs, **self.constant}
        for part in self.parts:
            features = part(features)
        vectors: Tensor = features["sentence_embedding"][:, : self._outputs]
        return vectors


def leaves_out_prompts(model: Any) -> bool:
    """Whether the tokens of a prompt do not enter the mean over tokens, so that the network has to know how many."""
    return not all(getattr(module, "include_prompt", True) for module in model)


def check_compilable(name: str, model: Any, prompts: Mapping[Role, str], *, routes: bool, mixed: bool) -> None:
    """Raise `NotCompiledError` for a model of which no single network makes all vectors of a modality."""
    if mixed:
        raise cannot_compile(name, None, "it takes messages, texts with pictures, or pictures of any size")
    if routes or (leaves_out_prompts(model) and prompts["query"] != prompts["document"]):
        raise cannot_compile(name, None, "it computes queries in another way than documents")


def cannot_compile(name: str, modality: Modality | None, reason: str) -> NotCompiledError:
    """The error for a model that OpenVINO cannot compile."""
    what = "it" if modality is None else f"its {modality} tower"
    return NotCompiledError(
        f"{name}: OpenVINO cannot compile {what}: {reason}.",
        hint="--device cpu computes it with PyTorch; models with one network for texts, or for pictures of one size, "
        "can be compiled",
    )
