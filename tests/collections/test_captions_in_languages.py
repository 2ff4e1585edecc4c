"""Flickr8k-CN, Multi30K, XTD10, Crossmodal-3600: real files where they are, and the layouts of their makers."""

from __future__ import annotations

import gzip

import orjson
import PIL.Image
import pytest

from refusals import refused
from visir.collections import open_collection
from visir.errors import CollectionError


@pytest.fixture
def languages_dir(data_dir):
    folder = data_dir / "multilingual"
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}")
    return folder


def test_real_flickr8k_cn(languages_dir, data_dir) -> None:
    flickr8k = data_dir / "flickr8k"
    chinese = open_collection(languages_dir / "flickr8k-cn", splits=flickr8k, images=flickr8k, unlisted="drop")
    about = chinese.describe()
    assert (about["images"], about["captions"], about["languages"]) == (8000, 40000, ["zh"])
    assert about["splits"] == {"test": 1000, "train": 6000, "val": 1000}
    assert chinese.images["path"].null_count == 0
    first = chinese.captions.slice(0, 1).to_pylist()[0]
    assert first == {
        "id": "667626_18933d713e.jpg#zhc#0",
        "text": "一个穿着泳装的女人躺在海水里。",
        "image_id": "667626_18933d713e.jpg",
        "language": "zh",
    }
    machine = open_collection(languages_dir / "flickr8k-cn", captions="zhb", images="none")
    assert machine.captions.num_rows == 40460
    assert "no split lists beside it" in machine.source


def test_real_multi30k(languages_dir, data_dir) -> None:
    translated = open_collection(languages_dir / "multi30k", images=data_dir / "flickr8k")
    about = translated.describe()
    assert about["languages"] == ["cs", "de", "en", "fr"]
    assert about["splits"] == {
        "train": 29000, "val": 1014, "test": 1000,
        "test_2017_flickr": 1000, "test_2017_mscoco": 461, "test_2018_flickr": 1071,
    }  # fmt: skip
    at_hand = translated.images["path"].is_valid().to_pylist()
    assert sum(at_hand) == 7391, "the photos that are Flickr8k's, by their numbers"
    assert translated.split("test_2017_flickr").languages == ("de", "en", "fr")
    czech = translated.split("val").keep_languages("cs")
    assert czech.captions["text"][0].as_py() == "Skupina mužů nakládá bavlnu na náklaďák."
    assert czech.captions["id"][0].as_py() == "1018148011.jpg#cs"
    independent = open_collection(languages_dir / "multi30k", task="2", images="none", split="val", language="de")
    assert independent.captions.num_rows == 5 * 1014
    assert independent.captions["text"][0].as_py() == "Baumwolllager mit LKW"


def test_real_xtd(languages_dir) -> None:
    xtd = open_collection(languages_dir / "xtd10", images="none")
    assert xtd.languages == ("de", "en", "es", "fr", "it", "ja", "ko", "pl", "ru", "tr", "zh")
    assert (len(xtd), xtd.captions.num_rows, xtd.splits) == (1000, 11000, ("test",))
    japanese = xtd.keep_languages("ja").captions.slice(0, 1).to_pylist()[0]
    assert (japanese["id"], japanese["image_id"], japanese["language"]) == ("61844#ja", "61844", "ja")
    assert japanese["text"] == "黒いユニフォームのランナーがホームに帰ってきた"


def _multi30k(write, folder: str = "repository/data") -> None:
    texts = {"en": "a dog\na cat\n", "de": "ein Hund\neine Katze\n"}
    for language, lines in texts.items():
        write(f"{folder}/task1/raw/val.{language}.gz", gzip.compress(lines.encode()))
        for number in (1, 2):
            write(f"{folder}/task2/raw/val.{number}.{language}.gz", gzip.compress(lines.encode()))
    write(f"{folder}/task1/raw/test_2017_mscoco.en.gz", gzip.compress(b"one\ntwo\n"))
    write(f"{folder}/task1/image_splits/val.txt", "1.jpg\n22.jpg\n")
    mscoco = "COCO_val2014_000000398076.jpg"
    write(f"{folder}/task1/image_splits/test_2017_mscoco.txt", f"{mscoco}#1\n{mscoco}#2\n")
    write(f"{folder}/task2/image_splits/val_images.txt", "1.jpg\n22.jpg\n")


@pytest.mark.parametrize("place", ["repository", "repository/data", "repository/data/task1"])
def test_multi30k_as_its_repository_lies(write, tmp_path, place: str) -> None:
    _multi30k(write)
    write("photos/22_0123456789.jpg", b"-")
    opened = open_collection(tmp_path / place, images=tmp_path / "photos")
    assert opened.splits == ("test_2017_mscoco", "val")
    val = opened.split("val")
    assert val.captions["id"].to_pylist() == ["1.jpg#de", "22.jpg#de", "1.jpg#en", "22.jpg#en"]
    assert val.images["path"].is_valid().to_pylist() == [False, True], "Flickr30k's number is Flickr8k's name"
    assert str(val.images["path"][1]).endswith("photos/22_0123456789.jpg")
    coco = opened.split("test_2017_mscoco").captions["id"].to_pylist()
    assert coco == ["COCO_val2014_000000398076.jpg#en", "COCO_val2014_000000398076.jpg#en#1"]


def test_multi30k_task_2(write, tmp_path) -> None:
    _multi30k(write)
    opened = open_collection(tmp_path / "repository", task="2", language="de")
    assert opened.captions["id"].to_pylist() == ["1.jpg#de#1", "22.jpg#de#1", "1.jpg#de#2", "22.jpg#de#2"]


def test_multi30k_names_what_is_missing(write, tmp_path) -> None:
    write("lists/image_splits/val.txt", "1.jpg\n")
    with pytest.raises(CollectionError, match=r"no captions of task 1 \(train.de.gz") as caught:
        open_collection(f"multi30k:{tmp_path / 'lists'}")
    assert "git clone https://github.com/multi30k/dataset" in str(caught.value.hint)
    _multi30k(write)
    write("repository/data/task1/image_splits/val.txt", "1.jpg\n")
    with refused(CollectionError, "val.de.gz", "2 captions for 1 images"):
        open_collection(tmp_path / "repository")


def test_flickr8k_cn_small(write, tmp_path) -> None:
    write("cn/flickr8kzhc.caption.txt", "1_a.jpg#zhc#0 一只狗。\n2_b.jpg#zhc#0 一只猫。\n")
    write("cn/flickr8kenc.caption.txt", "1_a.jpg#enc#0 a dog .\n2_b.jpg#enc#0 a cat .\n")
    write("cn/flickr8ktest.txt", "2_b\n")
    write("cn/flickr8ktrain.txt", "1_a\n")
    both = open_collection(tmp_path / "cn", captions="zhc+enc")
    assert both.languages == ("en", "zh")
    assert both.images["split"].to_pylist() == ["train", "test"]
    assert open_collection(tmp_path / "cn", captions="zhc+enc", language="en").captions["text"].to_pylist() == [
        "a dog .", "a cat ."]  # fmt: skip
    with refused(CollectionError, "zhm", code="collection-no-captions") as caught:
        open_collection(tmp_path / "cn", captions="zhm")
    assert "there are: enc, zhc" in str(caught.value.hint)
    write("none/a.txt", "x")
    with refused(CollectionError, "flickr8kzhc.caption.txt") as caught:
        open_collection(f"flickr8k-cn:{tmp_path / 'none'}")
    assert "github.com/li-xirong/flickr8kcn" in str(caught.value.hint)


def test_xtd_as_its_repository_lies(write, tmp_path) -> None:
    write("XTD/XTD10/test_image_names.txt", "COCO_val2014_000000000042.jpg\n")
    write("XTD/XTD10/test_1kcaptions_ko.txt", "개")
    write("XTD/STAIR/test_1kcaptions_jp.txt", "犬\n")
    write("XTD/MIC/test_1kcaptions_de.txt", "Hund\n")
    for place in ("XTD", "XTD/XTD10"):
        assert open_collection(tmp_path / place).captions["id"].to_pylist() == ["42#de", "42#ja", "42#ko"]
    write("XTD/XTD10/test_1kcaptions_ru.txt", "a\nb\n")
    with refused(CollectionError, "test_1kcaptions_ru.txt", "2 captions for 1 images"):
        open_collection(tmp_path / "XTD")
    with refused(CollectionError, "no test_image_names.txt", "no test_1kcaptions_en.txt") as caught:
        open_collection(f"xtd:{tmp_path}")
    assert "github.com/adobe-research" in str(caught.value.hint)


def test_xm3600(write, tmp_path) -> None:
    row = {
        "image/key": "000411001ff7dd4f",
        "image/locale": "fr",
        "en": {"caption": ["A boat.", "One boat."], "caption/tokenized": ["A boat ."]},
        "quz": {"caption": ["Wamp'u"]},
    }
    write("xm/captions.jsonl", orjson.dumps(row) + b"\n")
    write("xm/images/000411001ff7dd4f.jpg", b"-")
    opened = open_collection(tmp_path / "xm")
    assert opened.languages == ("en", "quz")
    assert opened.captions["id"].to_pylist() == [f"000411001ff7dd4f#{end}" for end in ("en#0", "en#1", "quz#0")]
    assert opened.images["path"].to_pylist() == ["images/000411001ff7dd4f.jpg"]
    assert opened.facts is not None
    assert opened.facts["locale"].to_pylist() == ["fr"]
    assert "1 image (published: 3,600), 2 languages (published: 36)" in opened.source
    write("bad/captions.jsonl", orjson.dumps({"image/key": "a", "en": "A boat."}) + b"\n")
    with refused(CollectionError, "captions.jsonl") as caught:
        open_collection(f"xm3600:{tmp_path / 'bad'}")
    assert "crossmodal-3600/web-data/captions.zip" in str(caught.value.hint)


def test_language_is_an_option_of_every_collection(write, tmp_path) -> None:
    _multi30k(write)
    spec = f"multi30k:{tmp_path / 'repository'}?language=de&split=val"
    assert open_collection(spec).captions["text"].to_pylist() == ["ein Hund", "eine Katze"]
    with refused(CollectionError, "it", code="no-captions"):
        open_collection(tmp_path / "repository", language="it")
    with refused(CollectionError, code="language-captions-not-known"):
        open_collection([(PIL.Image.new("RGB", (8, 8)), "a boat")], language="de")
