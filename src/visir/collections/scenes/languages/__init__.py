"""Languages of captions: one file each."""

from visir.collections.scenes.languages.chinese import Chinese
from visir.collections.scenes.languages.english import English
from visir.collections.scenes.languages.french import French
from visir.collections.scenes.languages.german import German
from visir.collections.scenes.languages.grammar import Grammar
from visir.collections.scenes.languages.spanish import Spanish

GRAMMARS: dict[str, Grammar] = {
    grammar.code: grammar for grammar in (English(), German(), French(), Spanish(), Chinese())
}
"""By language code."""

__all__ = ["GRAMMARS", "Grammar"]
