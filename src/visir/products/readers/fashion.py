"""The fashion product images of Myntra, as on Kaggle: `styles.csv`, three levels of categories, pictures by id."""

from __future__ import annotations

from pathlib import Path

from visir.collections.readers.names import plain_stem
from visir.collections.readers.rows import read_csv_rows, sniffed_columns
from visir.collections.sources import Format
from visir.errors import CollectionError
from visir.products.draft import ProductDraft, text_of

LEVELS = ("masterCategory", "subCategory", "articleType")
ATTRIBUTES = ("gender", "baseColour", "season", "year", "usage")
TITLE = "productDisplayName"


def read(path: Path) -> ProductDraft:
    """Read `styles.csv`; the picture of product 15970 is 15970.jpg."""
    # A few titles of the published file hold unquoted commas, so their rows have too many values and are rejected.
    draft = ProductDraft(plain_stem(path), path.parent, f"fashion product images {path.name}")
    for place, row in read_csv_rows(path, draft.reject_row):
        missing = [name for name in ("id", *LEVELS) if name not in row]
        if missing:
            raise CollectionError(
                f"{path}: no column {missing[0]!r}.", hint=f"there are: {', '.join(row)}", code="no-such-column"
            )
        draft.add(
            place,
            row["id"],
            [row[level] for level in LEVELS],
            title=row.get(TITLE),
            attributes=[(name, row[name]) for name in ATTRIBUTES if text_of(row.get(name)) is not None],
            picture=f"{row['id']}.jpg",
        )
    return draft


FORMAT = Format(
    name="fashion",
    title="fashion product images (Myntra, Kaggle)",
    layout="styles.csv (.gz, .xz) beside images/15970.jpg …",
    reference="https://www.kaggle.com/datasets/paramaggarwal/fashion-product-images-dataset",
    sniff=lambda path: path.is_file() and {"id", *LEVELS} <= set(sniffed_columns(path)),
    read=read,
    one_file=True,
)
