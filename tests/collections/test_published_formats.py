"""The readers of published annotation files: what they read, and how they name what they cannot."""

from __future__ import annotations

import gzip
import io
import lzma

import numpy as np
import orjson
import pytest
from toys import karpathy

from refusals import refused
from visir.collections import open_collection
from visir.errors import CollectionError, VisirError


def opened(path, **options):
    return open_collection(path, images="none", **options)


def captions(collection) -> list[tuple[str, str, str]]:
    rows = collection.captions.to_pylist()
    return [(row["id"], row["text"], row["image_id"]) for row in rows]


def npy(values: object) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array(values), allow_pickle=True)
    return stream.getvalue()


# Karpathy


def test_karpathy(write) -> None:
    found = opened(write("dataset_toy.json", karpathy()))
    assert found.name == "toy"
    assert found.images["id"].to_pylist() == ["a.jpg", "b.jpg"]
    assert captions(found) == [
        ("0", "a 0", "a.jpg"),
        ("1", "a 1", "a.jpg"),
        ("2", "b 0", "b.jpg"),
        ("3", "b 1", "b.jpg"),
    ]


@pytest.mark.parametrize(("name", "pack"), [("d.json.gz", gzip.compress), ("d.json.xz", lzma.compress)])
def test_compressed_files_are_the_same_collection(write, name: str, pack) -> None:
    plain = opened(write("d.json", karpathy()))
    assert opened(write(name, pack(orjson.dumps(karpathy())))).fingerprint == plain.fingerprint


def test_karpathy_coco_ids_and_restval(write) -> None:
    content = karpathy("restval", cocoid=42, filepath="val2014")
    content["images"][1]["cocoid"] = 43
    path = write("dataset_coco.json", content)
    found = opened(path)
    assert found.images["id"].to_pylist() == ["42", "43"]
    assert found.splits == ("train",)
    assert opened(path, restval="keep").splits == ("restval",)
    with refused(CollectionError, "option restval=", "kep", "train", "COCO's restval", hint=False):
        opened(path, restval="kep")


def test_karpathy_names_every_fault_at_once(write) -> None:
    content = karpathy()
    del content["images"][0]["filename"]
    del content["images"][1]["sentences"][0]["raw"]
    content["images"][1]["sentences"][1]["imgid"] = 7
    with pytest.raises(CollectionError) as caught:
        opened(write("d.json", content))
    assert "(3 faults)" in str(caught.value)
    assert "images[0]: no 'filename'" in str(caught.value)
    assert "images[1], sentences[0]: no 'raw'" in str(caught.value)
    assert "images[1] (b.jpg): sentence 3 says it belongs to 7" in str(caught.value)


def test_duplicate_and_missing_ids_are_named(write) -> None:
    content = karpathy()
    content["images"][1]["filename"] = "a.jpg"
    content["images"][1]["sentences"][0]["sentid"] = 0
    with pytest.raises(CollectionError) as caught:
        opened(write("d.json", content))
    assert "duplicate image id 'a.jpg'" in str(caught.value)
    assert "duplicate caption id '0'" in str(caught.value)
    content["images"][1]["filename"] = ""
    with refused(CollectionError, "images[1]", "no 'filename'"):
        opened(write("d.json", content))


def test_json_that_is_cut_short_or_not_utf8(write) -> None:
    data = orjson.dumps(karpathy())
    with refused(VisirError, "d.json", code="not-valid-json"):
        opened(write("d.json", data[:-20]), format="karpathy")
    latin = data.replace(b"a 0", "caf\u00e9".encode("latin-1"))
    with refused(VisirError, "d.json", "UTF-8", code="not-valid-json"):
        opened(write("d.json", latin))
    with refused(VisirError, code="cannot-decompressed"):
        opened(write("d.json.xz", lzma.compress(data)[:-20]), format="karpathy")


def test_any_text_survives_byte_for_byte(write) -> None:
    texts = [
        "\u202eright to left שלום",
        "🐕‍🦺 emoji 👩‍🚀",
        "e\u0301 and é",
        " spaces  ",
        "line\nbreak\u2028",
        "“”\x92\ufffd",
        "",
    ]
    content = karpathy()
    sentences = [{"raw": text, "sentid": n, "imgid": 0} for n, text in enumerate(texts)]
    content["images"] = [{"filename": "a.jpg", "imgid": 0, "split": "x", "sentids": [], "sentences": sentences}]
    found = opened(write("d.json", content))
    assert [text for _, text, _ in captions(found)] == texts


# COCO captions


def coco(*, images=(1, 2), captions_of=(1, 1, 2)) -> dict[str, object]:
    return {
        "info": {},
        "images": [{"id": n, "file_name": f"{n:012d}.jpg", "license": 1} for n in images],
        "annotations": [{"id": 10 + k, "image_id": n, "caption": f"c{k}"} for k, n in enumerate(captions_of)],
    }


def test_coco_captions(write) -> None:
    found = opened(write("captions_val2017.json", coco()))
    assert found.splits == ("val",)
    assert captions(found) == [("10", "c0", "1"), ("11", "c1", "1"), ("12", "c2", "2")]
    assert opened(write("captions_val2017.json", coco()), split_name="dev").splits == ("dev",)


def test_coco_captions_folder_merges_one_year(write, tmp_path) -> None:
    write("annotations/captions_train2014.json", coco())
    second = coco(images=(3,), captions_of=(3,))
    second["annotations"][0]["id"] = 99
    write("annotations/captions_val2014.json", second)
    write("annotations/instances_val2014.json", {})
    found = opened(tmp_path / "annotations")
    assert found.describe()["splits"] == {"train": 2, "val": 1}
    write("annotations/captions_val2017.json", coco())
    with refused(CollectionError, "2014 and 2017", code="captions-hold-same-pictures"):
        opened(tmp_path / "annotations")


def test_a_caption_without_image(write) -> None:
    with pytest.raises(CollectionError, match="caption '12' belongs to image '7', which is not in the collection"):
        opened(write("captions_val2017.json", coco(captions_of=(1, 2, 7))))


def test_coco_faults_have_places(write) -> None:
    content = coco()
    del content["annotations"][1]["caption"]
    content["annotations"][2]["caption"] = 5
    with pytest.raises(CollectionError) as caught:
        opened(write("captions_val2017.json", content))
    assert "captions_val2017.json, annotations[1]: no 'caption'" in str(caught.value)
    assert "annotations[2], caption[0]: must be text, found '5'" in str(caught.value)
    with refused(CollectionError, "annotations", code="not-layout"):
        opened(write("captions_val2017.json", {"images": []}), format="coco_captions")


# Flickr tokens

TOKENS = "a.jpg#0\tA dog .\na.jpg#1\tTwo dogs .\nb.jpg#0\tA\tcat\r\nc.jpg#0\t\n"


def test_flickr_tokens_without_lists(write) -> None:
    found = opened(write("Flickr8k.token.txt", TOKENS))
    assert captions(found) == [
        ("a.jpg#0", "A dog .", "a.jpg"),
        ("a.jpg#1", "Two dogs .", "a.jpg"),
        ("b.jpg#0", "A\tcat", "b.jpg"),
        ("c.jpg#0", "", "c.jpg"),
    ]
    assert found.splits == ("",)


@pytest.mark.parametrize(
    ("lists", "text"),
    [
        (("Flickr_8k.trainImages.txt", "Flickr_8k.devImages.txt"), "{}.jpg\n"),
        (("split_train.txt", "split_val.txt"), "{}.jpg\n"),
        (("train.txt", "val.txt"), "{}\n"),
    ],
)
def test_flickr_splits_beside(write, lists: tuple[str, str], text: str) -> None:
    path = write("results.token", TOKENS)
    for name, image in zip(lists, "ab", strict=True):
        write(name, text.format(image))
    found = opened(path)
    assert found.images["split"].to_pylist() == ["train", "val", "unlisted"]
    dropped = opened(path, unlisted="drop")
    assert dropped.images["id"].to_pylist() == ["a.jpg", "b.jpg"]
    assert "1 image in no split list left out" in dropped.source
    assert opened(path, splits="none").splits == ("",)


def test_flickr_faults(write, tmp_path) -> None:
    path = write("x/a.token.txt", TOKENS + "no tab here\n")
    with refused(CollectionError, "line 5", "expected image#number<TAB>caption", "found", "no tab here"):
        opened(path)
    path = write("x/a.token.txt", TOKENS)
    write("x/train.txt", "a.jpg\nz.jpg\n")
    write("x/test.txt", "a.jpg\n")
    with pytest.raises(CollectionError) as caught:
        opened(path)
    assert "image 'a.jpg' is in the lists of test and of train" in str(caught.value)
    assert "the list of train names image 'z.jpg', which has no captions" in str(caught.value)
    (tmp_path / "empty").mkdir()
    with refused(CollectionError, code="no-split-lists-files", hint=False):
        opened(path, splits=tmp_path / "empty")


def test_flickr_not_utf8_names_the_line(write) -> None:
    path = write("a.token.txt", TOKENS.encode() + "d.jpg#0\tcaf\u00e9\n".encode("cp1252"))
    with refused(VisirError, "a.token.txt", "5", "0xe9", code="text-not-utf-8"):
        opened(path)


# VSE++


def caps(images: int, per: int = 5) -> str:
    return "".join(f"image {n} caption {k}\n" for n in range(images) for k in range(per))


def test_vsepp_folder(write, tmp_path) -> None:
    write("f30k_precomp/train_caps.txt", caps(3))
    write("f30k_precomp/dev_caps.txt", caps(2))
    write("f30k_precomp/test_caps.txt", caps(1))
    found = opened(tmp_path / "f30k_precomp")
    assert found.name == "f30k_precomp"
    assert found.describe()["splits"] == {"test": 1, "train": 3, "val": 2}
    assert captions(found)[5] == ("train/1#0", "image 1 caption 0", "train/1")
    assert opened(tmp_path / "f30k_precomp", splits="dev").describe()["splits"] == {"val": 2}
    with refused(CollectionError, "tst_caps", code="no-caps-txt", meant="test"):
        opened(tmp_path / "f30k_precomp", splits="tst")


def test_vsepp_testall_stands_for_test(write, tmp_path) -> None:
    write("p/test_caps.txt", caps(1))
    write("p/testall_caps.txt", caps(3))
    assert opened(tmp_path / "p").describe()["splits"] == {"test": 3}
    assert opened(tmp_path / "p", splits="test").describe()["splits"] == {"test": 1}  # what is named is read


@pytest.mark.parametrize("repeat", [1, 5])
def test_vsepp_ids_once_or_repeated(write, tmp_path, repeat: int) -> None:
    path = write("test_caps.txt", caps(2))
    write("test_ids.txt", "".join(f"{one}\n" * repeat for one in (391895, 60623)))
    assert opened(path).images["id"].to_pylist() == ["391895", "60623"]
    write("id_mapping.json", {"391895": "val2014/COCO_val2014_000000391895.jpg", "60623": "val2014/x.jpg"})
    assert opened(path).images["id"].to_pylist() == ["391895", "x.jpg"]
    write("id_mapping.json", {"391895": "val2014/COCO_val2014_000000391895.jpg"})
    with refused(CollectionError, "test_ids.txt", "60623", "id_mapping.json"):
        opened(path)


def test_vsepp_empty_lines_keep_their_place(write) -> None:
    found = opened(write("test_caps.txt", "a\n\nc\nd\ne\nf\ng\nh\ni\n \n"))
    assert [text for _, text, _ in captions(found)] == ["a", "", "c", "d", "e", "f", "g", "h", "i", " "]


def test_vsepp_faults(write) -> None:
    path = write("test_caps.txt", caps(2) + "one more\n")
    with refused(CollectionError, "test_caps.txt", "11", "5", code="lines-no-multiple"):
        opened(path)
    path = write("test_caps.txt", caps(2))
    write("test_ids.txt", "1\n2\n3\n")
    with refused(CollectionError, "3", "2", code="ids-images-captions-each", hint=("2", "10")):
        opened(path)
    write("test_ids.txt", "1\n" * 4 + "2\n" * 6)
    with refused(CollectionError, "test_ids.txt", "1", "5", code="captions-one-image-different", hint=False):
        opened(path)
    write("test_ids.txt", "1\n1\n")
    with refused(CollectionError, "duplicate image id", "1"):
        opened(path)


def test_vsepp_caption_ids(write) -> None:
    path, ids = write("coco_test_caps.txt", caps(2)), write("coco_test_ids.npy", npy(range(100, 110)))
    found = opened(path, caption_ids=ids)
    assert found.captions["id"].to_pylist() == [str(n) for n in range(100, 110)]
    with refused(CollectionError, "10", "3", code="captions-caption-ids", hint=False):
        opened(path, caption_ids=write("short.npy", npy([1, 2, 3])))
    with refused(CollectionError, code="ids-not-plain"):
        opened(path, caption_ids=write("pickled.npy", npy([{}, None])))


# Annotation lists


def test_annotation_list(write) -> None:
    content = [
        {"image": "val2014/COCO_val2014_000000391895.jpg", "caption": ["one", "two", "three"]},
        {"image": "flickr30k-images/1007.jpg", "captions": ["four"]},
        {"image": "flickr30k-images/1007.jpg", "caption": "five"},
    ]
    path = write("coco_karpathy_test.json", content)
    found = opened(path)
    assert found.splits == ("test",)
    assert captions(found) == [
        ("391895#0", "one", "391895"),
        ("391895#1", "two", "391895"),
        ("391895#2", "three", "391895"),
        ("1007.jpg#0", "four", "1007.jpg"),
        ("1007.jpg#1", "five", "1007.jpg"),
    ]
    ids = write("ids.txt", "11\n12\n13\n14\n")
    cut = open_collection(f"{path}?captions_per_image=2&caption_ids={ids}&images=none")
    assert [(one, text) for one, text, _ in captions(cut)] == [
        ("11", "one"),
        ("12", "two"),
        ("13", "four"),
        ("14", "five"),
    ]
    with pytest.raises(CollectionError, match=r"ids\.txt has 4 ids, and there are 5 captions"):
        opened(path, caption_ids=ids)


def test_annotation_list_faults(write) -> None:
    content = [
        {"image": "a.jpg"},
        {"image": "a.jpg", "caption": [1]},
        {"image": "x/b.jpg", "caption": "b"},
        {"image": "y/b.jpg", "caption": "b"},
    ]
    with pytest.raises(CollectionError) as caught:
        opened(write("list.json", content), format="annotation_list")
    assert "item 0: no 'captions'" in str(caught.value)
    assert "item 1, captions[0]: must be text, found '1'" in str(caught.value)
    assert "item 3: 'y/b.jpg' and 'x/b.jpg' are both image 'b.jpg'" in str(caught.value)


# Fine-grained

ANNOTATIONS = {"COCO_val2014_000000000042": ["a", "b"], "COCO_val2014_000000000007": ["c"]}
POOL = ["COCO_val2014_000000000042.jpg", "000000000099.jpg", "COCO_val2014_000000000007.jpg"]


@pytest.mark.parametrize("folders", [("", ""), ("Annotations/", "Images/")])
def test_fine_grained(write, folders: tuple[str, str]) -> None:
    path = write(f"{folders[0]}MSCOCO_FG_ann.json", ANNOTATIONS)
    write(f"{folders[1]}MSCOCO_FG_img_filenames.npy", npy(POOL))
    found = opened(path)
    assert found.name == "MSCOCO_FG"
    assert dict(zip(found.images["id"].to_pylist(), found.images["split"].to_pylist(), strict=True)) == {
        "42": "test",
        "7": "test",
        "99": "pool",
    }
    assert found.split("test+pool").image_gallery().size == 3
    assert captions(found)[0] == ("42#0", "a", "42")


def test_fine_grained_needs_its_pool(write) -> None:
    path = write("MSCOCO_FG_ann.json", ANNOTATIONS)
    with refused(CollectionError, "MSCOCO_FG_img_filenames", code="image-pool-img-filenames"):
        opened(path)
    assert opened(path, pool="none").images.num_rows == 2
    pool = write("elsewhere.npy", npy(POOL[:2]))
    with pytest.raises(CollectionError, match="image 'COCO_val2014_000000000007' has captions, but is not in"):
        opened(path, pool=pool)
