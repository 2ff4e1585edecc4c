"""Scripts that put no spaces between words: there, what stands between spaces is a phrase, and characters are units."""

from __future__ import annotations

import re

UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Thai, Lao, Burmese, Khmer, kana and Chinese characters, as the inside of a class of a regular expression. Korean has
spaces."""
_RUN = re.compile(rf"[{UNSPACED}]+")


def is_unspaced(word: str) -> bool:
    """Whether a word begins in such a script."""
    return _RUN.match(word) is not None


def pieces(word: str) -> list[str]:
    """The single characters of a run of such a script, and its pairs of neighbours; another word as it is."""
    # Pairs are what search engines index in these scripts: most Chinese words have two characters.
    if not _RUN.search(word):
        return [word]
    result: list[str] = []
    start = 0
    for run in _RUN.finditer(word):
        result += [word[start : run.start()]] if run.start() > start else []
        letters = run.group()
        result += [*letters, *(letters[place : place + 2] for place in range(len(letters) - 1))]
        start = run.end()
    return result + ([word[start:]] if start < len(word) else [])
