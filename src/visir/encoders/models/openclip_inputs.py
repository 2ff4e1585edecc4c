"""The tokenizers of open_clip, without open_clip: its own of CLIP, and those it takes from transformers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from visir.encoders.models.text_inputs import TextInputs
from visir.encoders.models.text_tokens import FastTokens, TokenRules
from visir.encoders.models.tokens import inputs_of_tokenizer

_CLEANINGS = ("lower", "whitespace", "canonicalize")
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)"
"""What `SimpleTokenizer` takes for a word."""


def openclip_inputs(tokenizer: Any, template: str) -> TextInputs | None:
    """What a tokenizer of open_clip gives, by the library `tokenizers` alone."""
    from open_clip.tokenizer import HFTokenizer, SimpleTokenizer, get_clean_fn

    cleaning = next((name for name in _CLEANINGS if get_clean_fn(name) is getattr(tokenizer, "clean_fn", None)), None)
    if cleaning is None:
        return None
    rules = TokenRules(
        names=("input_ids",),
        limit=int(tokenizer.context_length),
        padded=True,
        side="right",
        padding=0,
        template=template,
        cleaning=f"open_clip {cleaning}",
    )
    if type(tokenizer) is SimpleTokenizer:
        if tokenizer.reduction_fn is not None or len(tokenizer.all_special_ids) > 2 or cleaning == "whitespace":
            return None
        own_marks = replace(rules, cleaning="open_clip lower, CLIP's marks") if cleaning == "lower" else rules
        return FastTokens(_simple_tokenizer(tokenizer), own_marks)
    if type(tokenizer) is not HFTokenizer or tokenizer.tokenizer_mode or tokenizer.strip_sep_token:
        return None
    own = tokenizer.tokenizer
    return inputs_of_tokenizer(own, replace(rules, side=own.padding_side, padding=int(own.pad_token_id)))


def _simple_tokenizer(tokenizer: Any) -> bytes:
    """`SimpleTokenizer` as the JSON of the library `tokenizers`: the same words, the same merges."""
    start, end = ((tokenizer.decoder[number], number) for number in (tokenizer.sot_token_id, tokenizer.eot_token_id))
    split = {"type": "Split", "pattern": {"Regex": _WORDS}, "behavior": "Removed", "invert": True}
    levels = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    marks = [(tokenizer.decoder[number], number) for number in tokenizer.all_special_ids]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    content = {
        "version": "1.0",
        "added_tokens": [{"id": number, "content": mark, **flags} for mark, number in marks],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, levels]},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [_mark(start[0]), {"Sequence": {"id": "A", "type_id": 0}}, _mark(end[0])],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {mark: {"id": mark, "ids": [number], "tokens": [mark]} for mark, number in (start, end)},
        },
        "model": {
            "type": "BPE",
            "end_of_word_suffix": "</w>",
            "vocab": tokenizer.encoder,
            "merges": [list(pair) for pair in tokenizer.bpe_ranks],
        },
    }
    return orjson.dumps(content)


def _mark(content: str) -> dict[str, Any]:
    return {"SpecialToken": {"id": content, "type_id": 0}}
