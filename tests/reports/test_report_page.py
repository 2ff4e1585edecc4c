"""Pages of sections: every kind of block, escaped, with headings in order; the same bytes twice; the seal."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import jinja2
import pytest
from report_toys import HOSTILE
from test_html import Page as Parsed

from visir.reports import page as blocks
from visir.reports import page as gallery
from visir.reports.formats import to_html
from visir.reports.page import (
    Block,
    Branch,
    Bullets,
    Card,
    Cards,
    CloudWord,
    Code,
    Definitions,
    Figure,
    Figures,
    Files,
    Fold,
    GalleryEntry,
    Group,
    Notice,
    Page,
    Paragraph,
    QueryGallery,
    Section,
    Strip,
    Thumbnail,
    Tile,
    Tree,
    WordCloud,
    inline,
    is_unchanged_page,
    page_bytes,
    production,
    write_page,
)
from visir.reports.plots import drawing, themed
from visir.reports.table import Column, Number, Table
from visir.storage import FolderError

PIXEL = "data:image/png;base64,iVBORw0KGgo="


def figure(prefix: str) -> Figure:
    with drawing(2, 1) as (drawn, axes):
        axes.set_title(HOSTILE)
        return Figure(themed(drawn, prefix, HOSTILE), HOSTILE, HOSTILE)


def everything() -> list[Block]:
    """Every kind of block, with hostile texts wherever a text can stand."""
    picture, missing = Thumbnail(PIXEL, 1, 1), Thumbnail("", reason=HOSTILE)
    tile = Tile(HOSTILE, picture, HOSTILE, HOSTILE, True, HOSTILE, [HOSTILE], "answer-1")
    table = Table.of([Column(HOSTILE), Column("n", 1)], [[HOSTILE, 1.0]], caption=HOSTILE, notes=[HOSTILE])
    texts = [Tile(HOSTILE, note=HOSTILE, right=False), Tile("plain", right=True)]
    entries = [
        GalleryEntry(HOSTILE, HOSTILE, [Strip([tile], HOSTILE, is_ranked=False), Strip(texts, HOSTILE, 3)]),
        GalleryEntry("", HOSTILE, [Strip([Tile("", missing, HOSTILE)])], [tile], HOSTILE, HOSTILE, HOSTILE),
    ]
    branch = Branch(HOSTILE, [HOSTILE], [Branch("leaf", ["1"])], HOSTILE, HOSTILE, 0.5, True)
    return [
        Paragraph(inline("a <b>{}</b>", HOSTILE), "lead"),
        Notice([HOSTILE, HOSTILE], HOSTILE),
        Definitions([(HOSTILE, HOSTILE)]),
        Code(HOSTILE),
        Bullets([HOSTILE]),
        Files([("javascript:alert(1)", HOSTILE)]),
        table,
        figure("single"),
        Figures([figure("first"), figure("second")]),
        Cards([Card(HOSTILE, [(HOSTILE, HOSTILE)], [table, Group(HOSTILE, [Code("x")])], picture, HOSTILE)]),
        WordCloud([CloudWord(HOSTILE, 1.2, HOSTILE, "other", True)]),
        WordCloud([]),
        Tree([branch], (HOSTILE, "", HOSTILE)),
        Fold(HOSTILE, [QueryGallery(entries)], HOSTILE, is_open=True),
        Fold(HOSTILE, [Code("x")]),
        Group(HOSTILE, [Group(HOSTILE, [QueryGallery(entries[1:])], "inner")], "outer"),
        Strip([Tile("", picture, "one", anchor="answer-2")], is_large=True),
        *production(HOSTILE, {HOSTILE: HOSTILE}),
    ]


@pytest.fixture
def page() -> Page:
    # The second section holds nothing with an id, for ids stand once.
    sections = [Section("all", HOSTILE, everything(), HOSTILE), Section("rest", "Rest", [Paragraph("nothing")])]
    return Page(HOSTILE, HOSTILE, sections, [HOSTILE, inline("<b>{}</b>", HOSTILE)])


def without_repeated_ids(text: str) -> str:
    """The gallery entry that stands in the page twice has an id for links; a report gives it once."""
    return re.sub(r' id="answer-1"', "", text)


def test_every_block_is_laid_out_and_escaped(page: Page) -> None:
    parsed = Parsed(without_repeated_ids(page_bytes(page).decode()))
    assert parsed.all("script") == []
    assert all(not name.startswith("on") for _, attributes in parsed.tags for name in attributes)
    assert {"href": "javascript%3Aalert%281%29"} in parsed.all("a")
    assert {image["src"] for image in parsed.all("img")} == {PIXEL}
    text = "".join(parsed.text)
    assert text.count(HOSTILE) > 50 and "and 3 more" in text and "no words" in text


def test_headings_are_in_order_and_ids_stand_once(page: Page) -> None:
    parsed = Parsed(without_repeated_ids(page_bytes(page).decode()))
    levels = [int(tag[1]) for tag, _ in parsed.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {a["href"][1:] for a in parsed.all("a") if a["href"].startswith("#")} <= set(ids)
    scrolled = [attributes for tag, attributes in parsed.tags if attributes.get("role") == "region"]
    assert scrolled and all(one["aria-label"] and one["tabindex"] == "0" for one in scrolled)
    assert all(image["alt"] for image in parsed.all("img"))


def test_the_same_page_gives_the_same_bytes_and_a_changed_file_is_kept(page: Page, tmp_path: Path) -> None:
    path = write_page(tmp_path / "a.html", page)
    assert path.read_bytes() == page_bytes(page) and is_unchanged_page(path)
    write_page(path, page)  # nobody has changed it
    path.write_text("mine")
    assert not is_unchanged_page(path)
    with pytest.raises(FolderError):
        write_page(path, page)
    assert path.read_text() == "mine"
    write_page(path, page, replace=True)
    assert is_unchanged_page(path)


def test_every_kind_of_block_has_a_macro() -> None:
    environment = jinja2.Environment(loader=jinja2.PackageLoader("visir.reports", "templates"), autoescape=True)
    environment.filters["html_table"] = to_html
    module = environment.get_template("blocks.html.j2").module
    kinds = {value.macro for room in (blocks, gallery) for value in vars(room).values() if hasattr(value, "macro")}
    assert kinds and all(callable(getattr(module, kind)) for kind in kinds | {"table"})
    used = {block.macro for block in everything()} | {"gallery"}
    assert used == kinds | {"table"}, "the page of these tests shows every kind"


def test_a_spread_is_printed_behind_its_mean_and_the_best_mean_is_marked() -> None:
    table = Table.of([Column("of"), Column("P@1", 1, "max")], [["a", Number(41.25, 0.31)], ["b", Number(40.0, None)]])
    html = to_html(table)
    assert '<strong>41.2</strong><span class="sd"> ±0.3</span>' in html
    assert "40.0<" in html and "±None" not in html
