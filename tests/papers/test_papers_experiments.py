"""Acts that train something small: the two-stage model, terms in words, times."""

from __future__ import annotations

from pathlib import Path

import pytest

from visir.encoders import load
from visir.files import read_json
from visir_papers.cells import run_study as run
from visir_papers.experiments.evaluate import SmallXvlm, small_xvlm
from visir_papers.study import read_study
from visir_papers.verdicts import compare_cells

TWO_STAGES = """
title = "Toy"
paper = "Toy, Table 2"
published = "thesis-table-2-1"
claims = "None."

[smoke]
data = "generated"
description = "Forty scenes."
hours = 0.01
cells = [
    { system = "X-VLM", collection = "MS COCO", k_test = 12 },
    { system = "X-VLM (reproduced)", collection = "MS COCO", k_test = 2 },
]

[smoke.defaults]
experiment = "evaluate"
source = "scenes:200?size=64&seed=1"
small_xvlm = { source = "scenes:40?size=64", steps = 3 }
"""


def test_k_test_2_leaves_its_mark_and_the_cause_is_named(tmp_path: Path) -> None:
    """A model that has hardly learnt: R@5 and R@10 are R@2 all the same, and with twelve candidates they are not."""
    (tmp_path / "toy.toml").write_text(TWO_STAGES)
    one, out = read_study(tmp_path / "toy.toml"), tmp_path / "out"
    twelve, two = cells = run(one, "toy", "smoke", out, jobs=1)
    assert [(cell.state, cell.reason) for cell in cells] == [("done", "")] * 2
    for task in ("i2t", "t2i"):
        assert two.measured.values[f"{task} R@5"] == two.measured.values[f"{task} R@10"]
        assert twelve.measured.values[f"{task} R@5"] < twelve.measured.values[f"{task} R@10"]
    assert two.measured.protocol["rerank"] == "top 2; nothing behind them"
    assert two.measured.protocol["matcher"] == "small X-VLM, itm"
    said = dict(compare_cells("toy", one, "smoke", cells).row_annotations)["X-VLM (reproduced), MS COCO"]
    assert "the mark of a second stage that re-ranked 2 to 5 candidates (k_test)" in said
    assert "Here it is so too" in said and said.endswith("re-ranked: top 2; nothing behind them.")
    assert len(list(out.glob("shared/small-xvlm-*"))) == 1, "one model for both cells"
    for path in out.glob("toy/smoke/cells/*.json"):
        assert str(tmp_path) not in path.read_text()


def test_the_small_model_is_its_seed(tmp_path: Path) -> None:
    settings = SmallXvlm(source="scenes:40?size=64", steps=2)
    names = [small_xvlm(settings, tmp_path / str(at), seed=seed) for at, seed in enumerate((0, 0, 1))]
    weights = [load(name).card.weights for name in names]
    assert weights[0] == weights[1] != weights[2]
    before = (tmp_path / "0" / "checkpoint.pth").stat().st_mtime_ns
    assert small_xvlm(settings, tmp_path / "0") == names[0]
    assert (tmp_path / "0" / "checkpoint.pth").stat().st_mtime_ns == before


HEADS = """
title = "Toy"
paper = "Toy, Table 3"
published = "{table}"
claims = "None."
systems_in = "{systems}"
pairs = "none"

[smoke]
data = "generated"
description = "Sixty scenes."
hours = 0.01
cells = [
{cells}
]

[smoke.defaults]
experiment = "{kind}"
recipe = "sparse-scenes"
training = {{ recipe = "scenes-heads", set = ["data.collection=scenes:60?size=64", "optimiser.epochs=1"] }}
set = ["data.collection=scenes:60?size=64", "optimiser.epochs=1", "expansion.variant=caption"]
"""


@pytest.mark.nightly
def test_terms_and_times_of_one_head(tmp_path: Path) -> None:
    cells = '    { system = "D2S (η=1e-3, exp=c)", count = 2 },'
    (tmp_path / "words.toml").write_text(
        HEADS.format(table="thesis-table-3-4", systems="columns", cells=cells, kind="terms")
    )
    (found,) = run(read_study(tmp_path / "words.toml"), "words", "smoke", tmp_path / "out", jobs=1)
    assert found.reason == ""
    assert set(found.measured.values) == {"caption exact@10", "image exact@10"}
    assert [label.partition(":")[0] for label in found.measured.words] == ["caption", "image"] * 2
    assert all(1 <= len(words.split()) <= 10 for words in found.measured.words.values())
    rows = {
        "Dense (BLIP, HNSW, Faiss)": "dense",
        "D2S (BLIP, η=1e-3, exp=c, PISA)": "expanded",
        "D2S (BLIP, η=1e-3, exp=0, PISA)": "plain",
        "No Expansion >> Expansion (η=1e-3)": "two stages",
        "D2S (BLIP, HNSW, Faiss)": "graph",
    }
    cells = "\n".join(f'    {{ system = "{system}", index = "{index}" }},' for system, index in rows.items())
    (tmp_path / "times.toml").write_text(
        HEADS.format(table="thesis-table-3-6", systems="rows", cells=cells, kind="latency")
    )
    timed = run(read_study(tmp_path / "times.toml"), "times", "smoke", tmp_path / "out", jobs=1)
    assert [(cell.state, cell.reason) for cell in timed] == [("done", "")] * 5
    for cell in timed:
        values = cell.measured.values
        assert {"latency @10", "throughput @10"} <= set(values)
        assert "latency @100" not in values, "sixty images"
        assert values["latency @10"] == pytest.approx(1000 / values["throughput @10"])
        assert set(cell.measured.not_judged) == {"latency @10", "throughput @10"}
    flops = {cell.system: cell.measured.values.get("FLOPs") for cell in timed}
    expanded, plain = flops["D2S (BLIP, η=1e-3, exp=c, PISA)"], flops["D2S (BLIP, η=1e-3, exp=0, PISA)"]
    assert expanded is not None and plain is not None and expanded > plain > 0
    assert "of the exact best" in timed[0].measured.protocol["graph"]
    assert len(list((tmp_path / "out/shared/heads").glob("*/*/seed0"))) == 1, "one head for both studies"
    (path,) = (path for path in (tmp_path / "out/words/smoke/cells").glob("*.json") if path.name != "visir.json")
    kept = read_json(path)
    assert kept["measured"]["words"] == dict(found.measured.words)
