"""Which numbers of queries can give printed digits: beside every share by Python's own decimals, and on real tables."""

from __future__ import annotations

import csv
from collections import Counter
from decimal import ROUND_DOWN, ROUND_HALF_DOWN, ROUND_HALF_UP, Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import visir
from visir.errors import ConfigurationError, VisirError
from visir.evaluation.published import load
from visir.records import Collection

CHAPTER_2 = "t2i R@1=37.82,R@5=82.36,R@10=82.48"


def printed(queries: int, decimals: int) -> dict[str, set[str]]:
    """Every share of so many queries as it is printed: rounded both ways at a tie, or cut."""
    unit = Decimal(1).scaleb(-decimals)
    shown: dict[str, set[str]] = {"rounded": set(), "cut": set()}
    for k in range(queries + 1):
        exact = Fraction(100 * k, queries)
        value = Decimal(exact.numerator) / Decimal(exact.denominator)
        shown["rounded"] |= {str(value.quantize(unit, way)) for way in (ROUND_HALF_UP, ROUND_HALF_DOWN)}
        shown["cut"].add(str(value.quantize(unit, ROUND_DOWN)))
    return shown


# Of 16 queries 1 is 6.25 %, printed as 6.2 or as 6.3: a binary fraction of a hair less or more goes either way.
@pytest.mark.parametrize(("queries", "decimals"), [(7, 1), (16, 1), (40, 1), (301, 2), (1000, 2), (1014, 2), (5070, 2)])
def test_every_printed_value_beside_all_shares(queries: int, decimals: int) -> None:
    given = printed(queries, decimals)
    step = 10 ** (decimals - 1) if queries < 1000 else 37
    for units in range(0, 100 * 10**decimals + 1, max(1, step)):
        text = str(Decimal(units).scaleb(-decimals))
        row = visir.denominators(f"R@1={text}%", decimals=decimals)[""]
        expected = next((rule for rule in ("rounded", "cut") if text in given[rule]), None)
        assert row.can(queries) == expected, text


def test_chapter_2_searched_with_all_captions() -> None:
    row = visir.denominators(CHAPTER_2, collection="Flickr30k", queries=1_000)["t2i"]
    assert row.likely == (5_000,) and {1_000, 5_070} <= {*row.impossible}
    assert row.chance[5_000] == pytest.approx(0.5001**3)
    assert row.smaller[5_000] == sum(row.can(n) is not None for n in range(1, 5_000))


def test_systems_of_one_collection_share_a_size_and_the_rule() -> None:
    table = visir.denominators("thesis-table-2-1", collection="Flickr30k", system="CLIP (reproduced)")
    assert all(row.likely[0] == 1_014 for row in table.rows)
    assert table["t2i"].possible[1_014] == "cut" and 5_000 in table["t2i"].impossible
    several = visir.denominators("brittleness-table-2", collection="MS-COCO")
    assert several.together["MS-COCO", "i2t"][5_000] < 0.01
    assert 5_000 not in several.together["MS-COCO", "t2i"] and 25_010 in several.together["MS-COCO", "t2i"]


def test_few_decimals_tell_nothing_and_say_so() -> None:
    digits = visir.denominators({"t2i R@1": "58.4", "t2i R@5": "81.5"})
    assert not digits["t2i"].likely or max(digits["t2i"].likely) < 1_000
    assert "cannot tell" in visir.denominators("t2i R@1=58", collection="MS-COCO").sentence


def test_zeros_at_the_end_are_digits_and_fractions_of_1_are_read() -> None:
    assert visir.denominators("R@1=50.00")[""].can(2) == "rounded"
    assert visir.denominators("R@1=50.10")[""].can(3) is None
    row = visir.denominators("R@1=0.3782,R@5=0.8236")[""]
    assert row.of_one and row.can(5_000) == "rounded" and row.can(1_000) is None


def test_a_table_of_a_spreadsheet(tmp_path: Path) -> None:
    path = tmp_path / "paper.csv"
    path.write_text(
        "system,collection,t2i R@1,t2i R@5,t2i rsum\nA,Flickr30k,37.82,82.36 ± 0.4,120.2\nB,Flickr30k,**40.02**,–,\n"
    )
    digits = visir.denominators(path)
    assert [(row.system, dict(row.values)) for row in digits.rows] == [
        ("A", {"R@1": "37.82", "R@5": "82.36"}),
        ("B", {"R@1": "40.02"}),
    ]
    assert digits.left_out == ("rsum",) and 5_000 in digits.together["Flickr30k", "t2i"]
    assert load(path).row("A").spread == {"t2i": {"R@5": 0.4}}
    assert "5,000" in digits.to_markdown() and "5,000" in digits.to_latex()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("name,t2i R@1\nA,3\n", ["system"]),
        ("system,R@1\nA,3\n", ["R@1"]),
        ("system,t2i R@1,t2i R@5\nA,about 3,x\n", ["line 2", "about 3", "t2i R@5"]),
    ],
)
def test_faults_of_a_table_name_their_place(tmp_path: Path, text: str, names: list[str]) -> None:
    path = tmp_path / "paper.csv"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        visir.denominators(path)
    assert all(name in str(caught.value) for name in names)


def test_what_is_no_share_of_queries_is_refused() -> None:
    with pytest.raises(VisirError) as caught:
        visir.denominators({"t2i rsum": 120.5})
    assert caught.value.code == "no-share-of-queries"
    with pytest.raises(ConfigurationError) as refused:
        visir.denominators(CHAPTER_2, queries=[0])
    assert refused.value.code == "no-number-of-queries"
    with pytest.raises(ConfigurationError):
        visir.denominators("t2i R@1:37.82,R@5=")


def test_values_that_a_result_cannot_give_are_told() -> None:
    pictures = Collection.build(
        "eight",
        images={"id": [str(n) for n in range(8)]},
        captions={"id": [f"c{n}" for n in range(8)], "text": ["a"] * 8, "image_id": [str(n) for n in range(8)]},
    )
    own = {"image": {str(n): [n + 1.0, 1] for n in range(8)}, "text": {f"c{n}": [n + 1.0, 1] for n in range(8)}}
    evaluation = visir.evaluate(pictures, vectors=own)
    explained = visir.explain(evaluation, "t2i R@1=33.33")
    assert any("no share of 8 queries is printed as t2i R@1 33.33" in remark for remark in explained.remarks)
    assert not any("no share" in remark for remark in visir.explain(evaluation, "t2i R@1=37.50").remarks)


def test_the_mean_of_recalls_over_right_captions_may_have_their_number() -> None:
    """Of 8 images none gives 6.25 %, but one of their 16 captions does: R@1 may be their share that is found."""
    pictures = Collection.build(
        "eight",
        images={"id": [str(n) for n in range(8)]},
        captions={"id": [f"c{n}" for n in range(16)], "text": ["a"] * 16, "image_id": [str(n // 2) for n in range(16)]},
    )
    own = {"image": {str(n): [n + 1.0, 1] for n in range(8)}, "text": {f"c{n}": [n + 1.0, 1] for n in range(16)}}
    evaluation = visir.evaluate(pictures, vectors=own)
    assert not any("no share" in remark for remark in visir.explain(evaluation, "i2t R@1=6.25").remarks)
    remarks = visir.explain(evaluation, "i2t R@1=33.33").remarks
    assert any("no share of 8 queries is printed as i2t R@1 33.33" in remark for remark in remarks)


def test_a_value_that_nobody_rounded_is_read_as_it_would_be_printed() -> None:
    row = visir.denominators({"t2i R@1": 100 / 3})["t2i"]
    assert row.values == {"R@1": "33.333333"} and row.can(3) == "rounded" and row.can(220) is None


def test_what_every_number_can_give_tells_nothing() -> None:
    row = visir.denominators({"t2i R@1": "0.00", "t2i R@10": "100.00"})["t2i"]
    assert row.likely == () and not row.impossible


def test_visirs_own_recall_is_no_share_of_queries() -> None:
    digits = visir.denominators({"i2t recall@5": "37.82", "i2t R@5": "40.00"})
    assert digits.left_out == ("recall@5",) and list(digits["i2t"].values) == ["R@5"]


@pytest.mark.parametrize("options", [{"queries": 10**20}, {"decimals": -1}, {"decimals": 15}])
def test_numbers_beyond_all_reason_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError):
        visir.denominators(CHAPTER_2, **options)


def test_thousands_in_a_table_are_no_decimals(tmp_path: Path) -> None:
    path = tmp_path / "paper.csv"
    path.write_text('system,t2i R@1,t2i MedR\nA,"37,82","1,234"\n')
    with pytest.raises(ConfigurationError) as caught:
        load(path)
    assert "1,234" in str(caught.value) and "37,82" not in str(caught.value)


PRINTED = Path(__file__).parents[2] / "benchmarks" / "printed_digits.csv"
NO_SHARES = {
    "irra-cuhk": 1,  # a row that was taken over; its own paper does not say over what
    "rasa-rstp": 1,
    "pyserini-natural": 1,  # 3,108 of 3,610 is 0.8609, 3,109 is 0.8612; printed is 0.8610
    "audiocaps": 1,  # a mean of three runs
    "mteb-coco": 1,  # means of recalls: equal captions are one query with several right images
    "keds-cirr": 1,  # 4,150 queries, not the 4,148 that are published
    "runc-cirr": 12,
    "runc-fiq": 12,
    "survey-fiq": 14,
}
"""By table of other papers: the rows that the stated number of queries cannot give."""


def test_tables_of_other_papers_are_given_by_their_queries() -> None:
    """372 rows whose number of queries is known: where it is called impossible, the reason was looked for."""
    with PRINTED.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    cannot: Counter[str] = Counter()
    for line in lines:
        digits = visir.denominators(f"{line['task']} {line['values']}".strip(), collection=line["collection"]).rows[0]
        cannot[line["table"]] += not any(digits.can(int(number)) for number in line["queries"].split(";"))
    assert len(lines) == 372 and dict(+cannot) == NO_SHARES


def test_the_server_of_cirr_counts_4150() -> None:
    """Five values with three decimals, as the server printed them: no number below 4,150 gives them."""
    row = visir.denominators("t2i R@1=23.422,R@2=34.434,R@5=50.916,R@10=63.952,R@50=87.687", collection="CIRR")["t2i"]
    assert row.likely == (4_150,) and row.smaller[4_150] == 0 and 4_148 in row.impossible


def test_fractions_with_two_decimals_are_no_small_percentages() -> None:
    row = visir.denominators("t2i R@1=0.15,R@5=0.45,R@10=0.58", collection="CIRR")["t2i"]
    assert row.of_one and not row.impossible and not row.likely
    assert not visir.denominators("t2i R@1=0.15%,R@5=0.45%", collection="CIRR")["t2i"].of_one
    both = visir.denominators("t2i R@1=0.15,R@5=0.45; i2t R@1=1.20", collection="CIRR")
    assert not any(row.of_one for row in both.rows)


def test_zeros_at_the_end_are_seen_in_the_other_direction(tmp_path: Path) -> None:
    path = tmp_path / "paper.csv"
    path.write_text("system,t2i R@1,i2t R@1\nA,33.33,12.50\n")
    assert visir.denominators(path)["i2t"].values == {"R@1": "12.50"}


@pytest.mark.parametrize("label", ["Rank-1", "rank@1", "top20", "Success@5", "R_subset@1", "Rs@1"])
def test_further_names_of_shares(label: str) -> None:
    assert list(visir.denominators({f"t2i {label}": "73.38"}, collection="CUHK-PEDES")["t2i"].values) == [label]


def test_further_sizes_are_looked_at_by_name_only() -> None:
    given = "t2i R@1=73.38,R@5=89.93,R@10=93.71"
    assert visir.denominators(given, collection="CUHK-PEDES")["t2i"].can(6_156) == "rounded"
    assert 6_156 not in visir.denominators(given)["t2i"].named


@pytest.mark.parametrize("queries", [701, 1_507, 3_011])
def test_a_size_fits_by_accident_as_often_as_it_says(queries: int) -> None:
    """Two printed values of any origin, 2,000 times; a size that fits only cut has had two tries."""
    rng = np.random.default_rng(queries)
    seen, said = Counter[str](), {}
    for one, two in rng.integers(1, 10_000, (2_000, 2)):
        row = visir.denominators(f"R@1={one / 100:.2f}%,R@5={two / 100:.2f}%", queries=queries, collection="none")[""]
        if rule := row.possible.get(queries):
            seen[rule] += 1
            said[rule] = row.chance[queries]
    share = seen["rounded"] / 2_000
    assert share == pytest.approx(said["rounded"], abs=4 * (share / 2_000) ** 0.5)
    both = sum(seen.values()) / 2_000
    assert both <= said.get("cut", 1) + 4 * (both / 2_000) ** 0.5 and said.get("cut", 1) >= 2 * said["rounded"] - 1e-9
