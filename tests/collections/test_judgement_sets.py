"""Judgements beside the links: CxC, ECCV Caption, Flickr8k's experts and crowd."""

from __future__ import annotations

import pytest

from refusals import refused
from visir.collections import attach_judgements, open_collection
from visir.errors import CollectionError, VisirError
from visir.records import Collection


@pytest.fixture
def toy() -> Collection:
    """Images 1, 2 and 3; captions 11 and 12 of image 1, 21 of 2, 31 of 3."""
    return Collection.build(
        "toy",
        images={"id": ["1", "2", "3"]},
        captions={"id": ["11", "12", "21", "31"], "text": list("abcd"), "image_id": ["1", "1", "2", "3"]},
    )


def row(caption: int, image: int, score: float) -> str:
    kind = "c2i_original" if caption // 10 == image else "c2i_intrasim"
    return f"COCO_val2014:sentid:{caption},COCO_val2014_{image:012d}.jpg,{score},{kind}\n"


HEADER = "caption,image,agg_score,sampling_method\n"
# Judged: the links of 11 (5.0), 21 (2.5: below the threshold); and 11 with image 2 (3.0), 21 with image 1 (2.99).
SITS = HEADER + row(11, 1, 5.0) + row(21, 2, 2.5) + row(11, 2, 3.0) + row(21, 1, 2.99) + row(99, 1, 4.0)


def grades(collection: Collection, task: str, relevance: str) -> dict[str, dict[str, float]]:
    return collection.qrels(task, relevance).to_dict()


def test_cxc_adds_to_the_links(write, toy) -> None:
    write("cxc/sits_test.csv", SITS)
    write("cxc/sis_test.csv", "image1,image2,agg_score,sampling_method\n")
    found = attach_judgements(toy, write("cxc/x", "").parent)
    # 12 was not judged, but belongs to a judged image; image 3 was not judged at all
    assert grades(found, "t2i", "cxc") == {"11": {"1": 1, "2": 1}, "12": {"1": 1}, "21": {"1": 0, "2": 1}}
    assert grades(found, "i2t", "cxc") == {"1": {"11": 1, "12": 1, "21": 0}, "2": {"11": 1, "21": 1}}
    assert "judgements of CxC (sits_test.csv): 5, 1 about other images or captions left out" in found.source


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        ("judged", {"11": {"1": 1, "2": 1}, "21": {"1": 0, "2": 1}}),
        ("scored", {"11": {"1": 1, "2": 1}, "21": {"1": 0, "2": 0}}),
    ],
)
def test_cxc_other_readings_of_the_links(write, toy, links: str, expected: object) -> None:
    path = write("sits_test.csv", SITS)
    assert grades(attach_judgements(toy, f"cxc:{path}?links={links}"), "t2i", "cxc") == expected


def test_cxc_threshold(write, toy) -> None:
    path = write("sits_test.csv", SITS)
    found = attach_judgements(toy, path, threshold=2.9)
    assert grades(found, "t2i", "cxc")["21"] == {"1": 1, "2": 1}


def test_cxc_faults(write, toy) -> None:
    with refused(CollectionError, "caption", "image", code="expected-columns-found"):
        attach_judgements(toy, f"cxc:{write('sits_val.csv', 'caption1,caption2,agg_score,sampling_method')}")
    bad = HEADER + row(11, 1, 5) + "x,y,z,w\n" + row(11, 2, 9) + "a\n"
    with pytest.raises(CollectionError) as caught:
        attach_judgements(toy, write("sits_val.csv", bad))
    assert "(3 faults)" in str(caught.value)
    assert "line 3: expected COCO_val2014:sentid:N" in str(caught.value)
    assert "line 4: " in str(caught.value)
    other = Collection.build("other", images={"id": ["x"]}, captions={"id": ["x#0"], "text": ["t"], "image_id": ["x"]})
    with refused(CollectionError, "5", "other", code="none-judgements-about-pair", hint="it needs"):
        attach_judgements(other, write("sits_val.csv", SITS))


def eccv(write, *, i2t: object = None, t2i: object = None, name: str = "eccv") -> object:
    write(f"eccv/{name}_image_to_caption.json", {"1": [11, 21], "2": [21]} if i2t is None else i2t)
    return write(f"eccv/{name}_caption_to_image.json", {"11": [1, 3]} if t2i is None else t2i).parent


def test_eccv_directions_are_apart(write, toy) -> None:
    found = attach_judgements(toy, eccv(write))
    assert grades(found, "t2i", "eccv") == {"11": {"1": 1, "3": 1}}
    assert grades(found, "i2t", "eccv") == {"1": {"11": 1, "21": 1}, "2": {"21": 1}}
    assert found.relevances == ("links", "eccv")


def test_eccv_variants(write, toy) -> None:
    eccv(write)
    eccv(write, name="cxc")
    folder = eccv(write, name="original")
    assert attach_judgements(toy, folder).relevances == ("links", "eccv", "eccv-cxc", "eccv-original")
    assert attach_judgements(toy, f"eccv:{folder}?sets=cxc").relevances == ("links", "eccv-cxc")
    with refused(CollectionError, "ecv", code="unknown-set", meant="eccv"):
        attach_judgements(toy, folder, sets="ecv")


def test_eccv_faults(write, toy) -> None:
    with refused(CollectionError, "11", code="id-listed-twice", hint=False):
        attach_judgements(toy, eccv(write, t2i={"11": [1, 1]}))
    with refused(CollectionError, "11", "1", code="expected-list-ids-found", hint=False):
        attach_judgements(toy, eccv(write, t2i={"11": 1}))
    folder = eccv(write)
    (folder / "eccv_image_to_caption.json").unlink()
    with pytest.raises(CollectionError, match=r"eccv_image_to_caption\.json is missing; both tasks"):
        attach_judgements(toy, folder)


EXPERTS = "a.jpg\tb.jpg#1\t1\t2\t3\nb.jpg\tb.jpg#0\t3\t4\t4\nb.jpg\ta.jpg#0\t1\t1\t1\n"
CROWD = "a.jpg\tb.jpg#1\t0.25\t1\t3\nb.jpg\tb.jpg#0\t1\t3\t0\na.jpg\ta.jpg#1\t0.5\t1\t1\n"
TOKENS = "a.jpg#0\tA  dog\na.jpg#1\tA dog\nb.jpg#0\tcat\nb.jpg#1\tcats\n"


def flickr(write) -> object:
    write("f8k/ExpertAnnotations.txt", EXPERTS)
    write("f8k/CrowdFlowerAnnotations.txt", CROWD)
    return write("f8k/Flickr8k.token.txt", TOKENS)


def test_flickr8k_experts_and_crowd(write) -> None:
    path = flickr(write)
    found = open_collection(path, judgements=path.parent)
    # means (1+2+3)/3 = 2 and (3+4+4)/3 = 11/3 and 1; the scale's lowest, 1, is subtracted
    assert grades(found, "t2i", "experts") == {
        "a.jpg#0": {"b.jpg": 0},
        "b.jpg#0": {"b.jpg": pytest.approx(8 / 3)},
        "b.jpg#1": {"a.jpg": 1},
    }
    assert grades(found, "t2i", "experts-relevant") == {
        "a.jpg#0": {"b.jpg": 0},
        "b.jpg#0": {"b.jpg": 1},
        "b.jpg#1": {"a.jpg": 0},
    }
    assert grades(found, "i2t", "crowd") == {"a.jpg": {"a.jpg#1": 0.5, "b.jpg#1": 0.25}, "b.jpg": {"b.jpg#0": 1}}
    assert grades(found, "i2t", "crowd-relevant") == {"a.jpg": {"a.jpg#1": 0, "b.jpg#1": 0}, "b.jpg": {"b.jpg#0": 1}}
    lower = attach_judgements(open_collection(path), path.parent / "ExpertAnnotations.txt", expert_threshold=2)
    assert grades(lower, "t2i", "experts-relevant")["b.jpg#1"] == {"a.jpg": 1}


def karpathy_with(texts: dict[str, list[str]]) -> dict[str, object]:
    images = [
        {
            "filename": name,
            "imgid": number,
            "split": "test",
            "sentences": [{"raw": text, "sentid": 10 * number + k, "imgid": number} for k, text in enumerate(listed)],
        }
        for number, (name, listed) in enumerate(texts.items())
    ]
    return {"images": images}


def test_flickr8k_judgements_fit_karpathys_ids_by_text(write) -> None:
    path = flickr(write)
    # b's sentences stand in the other order, a's two are equal up to white space: used in order
    other = write("k/d.json", karpathy_with({"a.jpg": ["A dog", "A dog"], "b.jpg": ["cats", "cat"]}))
    found = open_collection(other, judgements=path.parent)
    assert set(grades(found, "t2i", "experts")) == {"0", "11", "10"}
    assert grades(found, "t2i", "experts")["11"] == {"b.jpg": pytest.approx(8 / 3)}
    assert "matched by the texts in Flickr8k.token.txt" in found.source
    (path).unlink()
    by_position = open_collection(other, judgements=path.parent)
    assert grades(by_position, "t2i", "experts")["10"] == {"b.jpg": pytest.approx(8 / 3)}
    assert "captions matched by position" in by_position.source


def test_flickr8k_faults(write) -> None:
    path = flickr(write)
    write("f8k/ExpertAnnotations.txt", EXPERTS + "a.jpg\ta.jpg#0\t5\t1\t1\nshort\n")
    with pytest.raises(CollectionError) as caught:
        open_collection(path, judgements=path.parent)
    assert "ExpertAnnotations.txt (2 faults)" in str(caught.value)
    assert "line 4: expected image, caption and three numbers" in str(caught.value)


def test_unknown_judgements(write, toy) -> None:
    with refused(CollectionError, "judgements", code="no-known-format"):
        attach_judgements(toy, write("x.bin", "nothing"))
    with refused(CollectionError, "x.json", code="no-judgements"):
        attach_judgements(toy, write("x.json", {}))
    with refused(CollectionError, "judgement", "format", "cxcc", code="unknown-name", meant="cxc"):
        attach_judgements(toy, "cxcc:nowhere")
    with refused(VisirError, code="no-such-file-folder"):
        attach_judgements(toy, "nowhere")
