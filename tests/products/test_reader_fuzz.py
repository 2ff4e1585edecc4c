"""Whatever a file holds, opening it gives a catalogue in which all is counted, or a `VisirError`; never a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from visir.errors import VisirError
from visir.products import CategoryTree, open_catalogue
from visir.records import Catalogue

COLUMNS = {
    "products": ["id", "category_path", "title", "image", "attributes"],
    "flipkart": ["uniq_id", "product_name", "product_category_tree", "product_specifications", "image"],
    "fashion": ["id", "masterCategory", "subCategory", "articleType", "year", "productDisplayName"],
    "amazon": ["asin", "categories", "title", "details", "features", "imUrl", "tech1"],
}
plain = st.text(alphabet='ab">[]{}:=,|\\\n ', max_size=12)
cells = st.one_of(
    plain,
    plain.map(lambda text: json.dumps([text])),
    plain.map(lambda text: '{"product_specification"=>[{"key"=>"k", "value"=>' + json.dumps(text) + "}]}"),
    st.sampled_from(["A >> B", '["A >> B >> C..."]', '{"k": "v"}', "https://x.test/a.jpg", "nil", "[[]]", "[null]"]),
)
values = st.recursive(
    st.one_of(cells, st.none(), st.booleans(), st.integers(-9, 9), st.floats(allow_nan=False, allow_infinity=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(plain, inner, max_size=3)),
    max_leaves=6,
)


def opened(name: str, suffix: str, text: str) -> Catalogue | None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"file{suffix}"
        path.write_bytes(text.encode())
        try:
            catalogue = open_catalogue(path, format=name)
        except VisirError:
            return None
        assert catalogue.fingerprint == open_catalogue(path, format=name).fingerprint
    tree = CategoryTree.of(catalogue)
    assert len(tree.rows(catalogue.products["category_id"])) == catalogue.products.num_rows > 0
    assert all(isinstance(line, str) for line in catalogue.remarks())
    return catalogue


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(COLUMNS)), st.data())
def test_any_json_lines(name: str, data: st.DataObject) -> None:
    columns = COLUMNS[name]
    rows = data.draw(st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(columns, values)), max_size=4))
    good: dict[str, Any] = dict.fromkeys(columns, "x") | {"categories": ["A"], "asin": "good"}
    lines = [json.dumps(row) for row in [good, *rows]]
    catalogue = opened(name, ".jsonl", "\n".join(lines))
    if name == "amazon":  # its good row can always be read
        assert catalogue is not None and "good" in catalogue.products["id"].to_pylist()


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["products", "flipkart", "fashion"]), st.data())
def test_any_csv(name: str, data: st.DataObject) -> None:
    columns = COLUMNS[name]
    rows = data.draw(st.lists(st.lists(cells, min_size=len(columns) - 1, max_size=len(columns) + 1), max_size=4))
    quote = data.draw(st.booleans())
    lines = [",".join('"' + one.replace('"', '""') + '"' if quote else one for one in row) for row in [columns, *rows]]
    catalogue = opened(name, ".csv", "\n".join(lines))
    if catalogue is not None and quote and name == "products":
        set_aside = sum(int(note.split()[2].replace(",", "")) for note in catalogue.notes if " attributes" not in note)
        assert catalogue.products.num_rows <= len(rows) <= catalogue.products.num_rows + set_aside


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(COLUMNS)), st.sampled_from([".csv", ".jsonl", ".tsv", ".json"]), st.text(max_size=60))
def test_any_text(name: str, suffix: str, text: str) -> None:
    opened(name, suffix, text.encode("utf-8", "ignore").decode())
