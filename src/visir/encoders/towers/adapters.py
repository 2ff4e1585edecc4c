"""Adapters of `peft` in a network: put in, read, written, and merged into the weights they stand beside."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from visir.encoders.checkpoints import read_weights, save_weights
from visir.encoders.families import ADAPTER_FILE
from visir.encoders.models.hub import check_configurations
from visir.errors import ConfigurationError, EncoderError, nearest, require
from visir.records import EncoderCard

ADAPTER = "default"
"""The name under which peft holds the one adapter of a network."""
_PREFIX = "base_model.model."
"""Before every name in a file of peft's."""
_OURS = ("target_modules", "modules_to_save", "task_type", "inference_mode", "base_model_name_or_path", "revision")
_NO_PATTERN = "this adapter was not made by peft's own tools, or was changed: fetch it again"
_SECONDS = 5
"""For one pattern over all names of modules: those of published adapters take milliseconds."""
_CHANGES_BASE = ("bias", "modules_to_save", "layer_replication", "trainable_token_indices", "exclude_modules")


@dataclass(frozen=True)
class AdapterKind:
    """One kind of adapter."""

    config: str  # its class of settings in peft
    rank: str = ""  # what these are called there; empty where it has none
    alpha: str = ""
    dropout: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict)  # what the kind sets
    # Whether it can stand beside torch's own attention (open_clip's models have it), not only matrices.
    attention: bool = False


ADAPTER_KINDS: Mapping[str, AdapterKind] = {
    # Hu et al. 2022; Liu et al. 2024 (DoRA); Hyeon-Woo et al. 2022 (LoHa); Yeh et al. 2024 (LoKr); Liu et al. 2022.
    "lora": AdapterKind("LoraConfig", "r", "lora_alpha", "lora_dropout", attention=True),
    "dora": AdapterKind("LoraConfig", "r", "lora_alpha", "lora_dropout", {"use_dora": True}),
    "loha": AdapterKind("LoHaConfig", "r", "alpha", "module_dropout"),
    "lokr": AdapterKind("LoKrConfig", "r", "alpha", "module_dropout"),
    "ia3": AdapterKind("IA3Config", fixed={"feedforward_modules": []}),
}


@dataclass(frozen=True)
class AdapterSpec:
    """An adapter as it is asked for."""

    kind: str = "lora"  # a key of `ADAPTER_KINDS`
    rank: int | None = None  # of the kind; None where peft's own value is to stand
    alpha: float | None = None
    dropout: float | None = None
    modules: tuple[str, ...] = ()  # last parts of the names of modules, as peft's `target_modules`; empty, all matrices
    options: Mapping[str, Any] = field(default_factory=dict)  # further settings of peft's class

    def faults(self) -> list[str]:
        """What cannot be: settings that the kind does not have, options that peft does not know."""
        kind = ADAPTER_KINDS[self.kind]
        faults = [
            f"adapter.{name}: {self.kind!r} has none"
            for name in ("rank", "alpha", "dropout")
            if getattr(self, name) is not None and not getattr(kind, name)
        ]
        if not self.options:
            return faults
        known = {setting.name for setting in fields(_peft_class(kind))} - set(_OURS) - set(_CHANGES_BASE)
        taken = {kind.rank, kind.alpha, kind.dropout, *kind.fixed}
        for name, value in self.options.items():
            if name in taken:
                faults.append(f"adapter.options.{name}: set by the adapter's own keys (kind, rank, alpha, dropout)")
            elif name not in known:
                faults.append(f"adapter.options.{name}: unknown to peft's {kind.config} here; {nearest(name, known)}")
            elif name == "init_lora_weights" and value not in (True, False, "gaussian", "orthogonal"):
                faults.append(f"adapter.options.{name} = {value!r} changes the base model's own weights")
        return faults

    def config(self, target_modules: str) -> Any:
        """The settings of peft over the modules that a regular expression names."""
        kind = ADAPTER_KINDS[self.kind]
        own = {getattr(kind, name): getattr(self, name) for name in ("rank", "alpha", "dropout")}
        values = {name: value for name, value in own.items() if name and value is not None}
        try:
            return _peft_class(kind)(target_modules=target_modules, **values, **kind.fixed, **self.options)
        except (TypeError, ValueError) as fault:
            raise ConfigurationError(f"adapter: {fault}", hint="docs/reference/recipe-settings.md") from fault

    def chosen(self, root: nn.Module) -> list[str]:
        """The names of the modules of `root` that get an adapter."""
        possible = _possible(root, ADAPTER_KINDS[self.kind])
        if not self.modules:
            return possible
        ends = {end: [name for name in possible if name == end or name.endswith(f".{end}")] for end in self.modules}
        missing = [end for end, names in ends.items() if not names]
        if missing:
            last = sorted({name.rpartition(".")[2] for name in possible})
            raise ConfigurationError(
                f"adapter.modules: no module that {self.kind!r} can adapt is called {', '.join(map(repr, missing))}.",
                hint=f"those of this model end in: {', '.join(last)}",
                code="no-module-adapt-called",
            )
        return [name for name in possible if any(name in names for names in ends.values())]


def pattern_of(names: Sequence[str]) -> str:
    """A regular expression that matches these names of modules in full, with the numbers of layers left open."""
    forms = dict.fromkeys(re.sub(r"(?<=\\\.)\d+(?=\\\.|$)", r"\\d+", re.escape(name)) for name in sorted(names))
    return "|".join(forms)


def inject(root: nn.Module, config: Any, where: str = "adapter") -> None:
    """Put adapters beside the modules of `root` that a configuration of peft names, in place; all else is fixed."""
    peft = _peft()
    root.requires_grad_(False)
    with _unexcited():
        peft.inject_adapter_in_model(_without_patterns(root, config, where), root, adapter_name=ADAPTER)


def _without_patterns(root: nn.Module, config: Any, where: str) -> Any:
    """The configuration with the names of modules of `root` in place of regular expressions."""
    # An adapter of somebody else brings them, and one of twenty signs can keep `re` busy for years; `regex` can be told
    # when to stop.
    config, names = copy(config), [name for name, _ in root.named_modules() if name]
    layers = config.layers_pattern if isinstance(getattr(config, "layers_pattern", None), str) else None
    for key in ("target_modules", "exclude_modules"):
        pattern = getattr(config, key, None)
        if isinstance(pattern, str) and pattern != "all-linear":
            matching = _matching(f"{where}: {key}", pattern, names)
            # Of no names a pattern that matches nothing, so that peft says it.
            setattr(config, key, "|".join(map(re.escape, matching)) or r"(?!)")
    for key in ("rank_pattern", "alpha_pattern"):
        values = getattr(config, key, None) or {}
        by_name: dict[str, Any] = {}
        for pattern, value in values.items():
            for name in _matching(f"{where}: {key}", rf"(?:.*\.)?(?:{pattern})", names):
                by_name.setdefault(name, value)  # the first that matches counts, as in peft
        if values:  # peft takes the first name that another one ends in
            setattr(config, key, {re.escape(name): by_name[name] for name in sorted(by_name, key=len, reverse=True)})
    if layers is not None and not re.fullmatch(r"[\w.]*", layers):
        raise EncoderError(f"{where}: layers_pattern={layers!r} is no name of a list of layers.", hint=_NO_PATTERN)
    return config


def _matching(key: str, pattern: str, names: Sequence[str]) -> list[str]:
    """The names that a regular expression matches in full."""
    import regex

    end = time.monotonic() + _SECONDS
    try:
        compiled = regex.compile(pattern)
        return [name for name in names if compiled.fullmatch(name, timeout=max(end - time.monotonic(), 0.001))]
    except TimeoutError as fault:
        raise EncoderError(f"{key}={pattern[:80]!r} takes too long to match.", hint=_NO_PATTERN) from fault
    except regex.error as fault:
        raise EncoderError(f"{key}={pattern[:80]!r} is no regular expression: {fault}.", hint=_NO_PATTERN) from fault


def adapter_state(root: nn.Module) -> dict[str, Tensor]:
    """The weights of the adapters, under the names that peft writes."""
    # "auto" would ask the hub for the base's vocabulary.
    state: dict[str, Tensor] = _peft().get_peft_model_state_dict(
        root, adapter_name=ADAPTER, save_embedding_layers=False
    )
    return {_PREFIX + name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}


def fill_adapters(roots: Sequence[nn.Module], tensors: Mapping[str, Tensor], where: str, base: str) -> None:
    """Put the weights of a file of peft's into the adapted modules of the towers of one model."""
    stored = {name.removeprefix(_PREFIX): tensor for name, tensor in tensors.items()}
    adapters = [{name.removeprefix(_PREFIX): each for name, each in adapter_state(root).items()} for root in roots]
    expected = {name: tensor.shape for adapter in adapters for name, tensor in adapter.items()}
    faults = [f"{name}: unknown to the model" for name in stored if name not in expected]
    faults += [f"{name}: missing in the file" for name in expected if name not in stored]
    faults += [
        f"{name}: {tuple(tensor.shape)}, and {tuple(expected[name])} in the model"
        for name, tensor in stored.items()
        if name in expected and tensor.shape != expected[name]
    ]
    if faults:
        raise other_model(where, base, faults)
    for root, adapter in zip(roots, adapters, strict=True):
        with _unexcited():
            _peft().set_peft_model_state_dict(root, {name: stored[name] for name in adapter}, adapter_name=ADAPTER)


def other_model(where: str, base: str, faults: Sequence[str]) -> EncoderError:
    """The error for an adapter that belongs to another model."""
    shown = "; ".join(faults[:3]) + (f"; … ({len(faults)} in all)" if len(faults) > 3 else "")
    return EncoderError(
        f"{where}: this adapter is for another model than {base}: {shown}.",
        hint=f"name the model that it was trained over: {where}?base=NAME",
        code="adapter-another-model",
    )


def adapted_names(root: nn.Module) -> list[str]:
    """The names of the modules of `root` that have an adapter; torch's attention, which holds a second one, once."""
    layers = _peft().tuners.tuners_utils.BaseTunerLayer
    return [name for name, module in root.named_modules() if isinstance(module, layers) and ".base_layer" not in name]


def merge(root: nn.Module) -> None:
    """Add the adapters to the weights they stand beside, in place, and take them out."""
    for name in adapted_names(root):
        module: Any = root.get_submodule(name)
        if hasattr(module, "unload_and_optionally_merge_module"):
            plain = module.unload_and_optionally_merge_module(merge=True, safe_merge=True, adapter_names=None)
        else:
            module.merge(safe_merge=True)
            plain = module.get_base_layer()
        parent, _, last = name.rpartition(".")
        setattr(root.get_submodule(parent), last, plain)
    if hasattr(root, "peft_config"):
        del root.peft_config


def _possible(root: nn.Module, kind: AdapterKind) -> list[str]:
    """Names of the modules that a kind can adapt: matrices, and torch's attention as a whole."""
    names, inside = [], []
    for name, module in root.named_modules():
        if isinstance(module, nn.MultiheadAttention):
            inside.append(f"{name}.")
            if kind.attention and module._qkv_same_embed_dim:
                names.append(name)
        elif isinstance(module, nn.Linear) and not name.startswith(tuple(inside)):
            names.append(name)
    return names


def _peft_class(kind: AdapterKind) -> Any:
    return getattr(_peft(), kind.config)


def _peft() -> Any:
    require("peft", extra="train", purpose="adapters (LoRA and its kin)")
    import peft

    return peft


@contextmanager
def _unexcited() -> Iterator[None]:
    """peft warns of everything that is not a language model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# Folders of adapters in peft's own format.

ADAPTER_WEIGHTS = "adapter_model.safetensors"
_BASE = "visir_base"
"""Metadata of the file of weights: the hash over the weights of the base."""


def write_adapter(folder: Path, roots: Sequence[nn.Module], config: Any, card: EncoderCard) -> None:
    """Write the adapters of one or both towers of the model with this card as one folder of peft's."""
    # `PeftModel.from_pretrained(MODEL, folder)` reads it over the whole model.
    names, config = [name for root in roots for name in adapted_names(root)], copy(config)
    config.base_model_name_or_path, config.revision = card.name, card.revision
    config.target_modules, config.inference_mode = pattern_of(names), True
    config.save_pretrained(str(folder))
    tensors: dict[str, Tensor] = {}
    for root in roots:
        tensors |= adapter_state(root)
    save_weights(tensors, folder / ADAPTER_WEIGHTS, metadata={_BASE: card.weights or ""})


def read_config(folder: Path) -> Any:
    """The configuration of an adapter folder, as peft's own object."""
    peft = _peft()
    check_configurations([folder], base_elsewhere=True)
    try:
        return peft.PeftConfig.from_pretrained(str(folder))
    except Exception as fault:  # peft raises what comes: KeyError, TypeError, ValueError
        raise EncoderError(f"{folder / ADAPTER_FILE}: cannot be read by peft: {fault!r}") from fault


def read_adapter(folder: Path) -> tuple[dict[str, Tensor], str]:
    """The weights under peft's names, and the hash over the weights of the base where it was noted."""
    pickled = (folder / "adapter_model.bin").is_file()
    hint = "it was saved as a pickle, which can run code: load it in peft and save it again" if pickled else ""
    tensors, facts = read_weights(folder / ADAPTER_WEIGHTS, "folder", hint)
    return tensors, facts.get(_BASE, "")
