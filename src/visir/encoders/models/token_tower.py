"""What text towers with a tokenizer of `transformers` have in common, whatever the model behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from visir.encoders.models.text_inputs import TextInputs
from visir.encoders.models.tokens import Tokens
from visir.encoders.towers.base import Inputs
from visir.encoders.towers.pretrained_tower import PretrainedTower
from visir.encoders.truncation import TextLimit
from visir.records import Modality


class TokenTower(PretrainedTower):
    """A text tower that reads what `tokens` makes of a text."""

    modality: Modality = "text"
    tokens: Tokens

    def prepare(self, items: Sequence[Any]) -> list[Any]:
        """int32 token ids of each text."""
        return list(self.tokens.ids(items))

    def text_limit(self) -> TextLimit | None:
        """As the tokenizer cuts."""
        return self.tokens.text_limit()

    def truncate(self, texts: Sequence[str], ending: str) -> list[str]:
        """The texts, cut where f"{text} {ending}" would lose a token (or a word, where words are counted)."""
        return self.tokens.truncate(texts, ending)

    def text_inputs(self) -> TextInputs | None:
        """As the tokenizer, where another library can do what it does."""
        return self.tokens.text_inputs()

    def collate(self, prepared: Sequence[Any]) -> Inputs:
        """The tokenizer's outputs that the model takes, (n, L): "input_ids" and, of most, "attention_mask"."""
        return self.tokens.collate(prepared)

    def values(self) -> dict[str, Any]:
        """The tokenizer's settings, and what is done to texts before."""
        return self.tokens.values()
