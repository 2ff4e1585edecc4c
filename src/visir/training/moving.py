"""The weights that a training moves: the state and the best epoch hold no copy of a base model under adapters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from visir.encoders.towers.adapted_backbone import AdaptedBackbone


class Moved:
    """The parameters that an optimiser moves, by their number in it; no buffers, such as a batch norm's statistics."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self._parameters = list(parameters)

    def state(self) -> dict[str, Tensor]:
        """The tensors by number, not copied."""
        return {str(number): parameter.detach() for number, parameter in enumerate(self._parameters)}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what `state` gave."""
        with torch.no_grad():
            for number, parameter in enumerate(self._parameters):
                parameter.copy_(tensors[str(number)])


class Moving:
    """The state of a module without the fixed weights of models that adapters were put over."""

    # Those are read again from the base model, of which a state notes the fingerprint.

    def __init__(self, module: nn.Module) -> None:
        fixed = {
            id(weight)
            for backbone in module.modules()
            if isinstance(backbone, AdaptedBackbone)
            for weight in backbone.parameters()
            if not weight.requires_grad
        }
        named = module.named_parameters(remove_duplicate=False)
        self._module, self._fixed = module, {name for name, weight in named if id(weight) in fixed}

    def state(self) -> dict[str, Tensor]:
        """The tensors by name, not copied."""
        return {name: tensor for name, tensor in self._module.state_dict().items() if name not in self._fixed}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what `state` gave."""
        own = self._module.state_dict()
        self._module.load_state_dict({**{name: own[name] for name in self._fixed}, **tensors})
