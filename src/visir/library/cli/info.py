"""`visir library info`: what a library holds."""

from __future__ import annotations

import shlex

from visir.cli import output
from visir.cli.index_parts import place_in_words
from visir.cli.verbs import examples
from visir.library.cli.parts import LibraryFolder


@examples(
    "visir library info photos.visir",
)
def info(library: LibraryFolder) -> None:
    """Say what a library holds.

    Say what a library holds: pictures, captions, models, indexes.
    """
    from rich.table import Table

    from visir.library.layout import check_first_update_done
    from visir.library.models import NO_MODEL
    from visir.library.snapshot import LibrarySnapshot

    check_first_update_done(library)
    with LibrarySnapshot.open(library) as opened:
        card = opened.card
        count = opened.database.value
        table = Table("library", opened.name, show_edge=False)
        rows = {
            "source": card.source + (f", split {card.split}" if card.split else ""),
            card.unit: f"{len(opened):,}",
            "files": f"{count('SELECT count(*) FROM files'):,}",
            "captions": f"{count('SELECT count(*) FROM captions'):,}",
            "broken": f"{count('SELECT count(*) FROM broken'):,}",
            "taken out": f"{count('SELECT count(*) FROM removed'):,}",
            "model": opened.model or NO_MODEL,
            "sparse head": opened.head or "none",
            "generation": str(opened.generation),
        }
        captions = {} if opened.captions is None else {"captions": opened.captions}
        for system, index in {**opened.indexes, **captions}.items():
            about = index.info()
            shown = f"{about.kind}, {about.documents:,} × {about.dimension:,}, {place_in_words(about)}"
            rows[f"{opened.label(system)} index"] = shown + (
                "" if about.place else f", {about.details.get('parts', 1)} parts, {about.deleted:,} deleted rows"
            )
        if opened.words is not None:
            words = opened.words.index
            rows["words"] = f"{len(words.terms):,} in {', '.join(words.fields)}; language {words.language.name}"
            rows["synonyms"] = f"{len(card.words.get('synonyms', ())):,} rules"
        elif card.unit == "products":
            rows["words"] = f"none; visir library update {shlex.quote(str(library))} adds them"
        output.answer({"library": opened.name, **rows})
        for title, value in rows.items():
            table.add_row(title, value)
        output.rich_table(table)
