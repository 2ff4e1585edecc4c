"""Pictures with classes: data sets of torchvision against torchvision's own reading, IDX, tables, hub data sets."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

import visir
from class_toys import colour_model, picture
from refusals import refused
from visir.collections.readers.torchvision_sets import is_class_data_set
from visir.errors import CollectionError
from visir.evaluation.classification.labelling import find_truth

torchvision = pytest.importorskip("torchvision")


def jpg(file: Path, seed: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (9, 12, 3), dtype=np.uint8)).save(file)


def cifar10(root: Path) -> None:
    folder = root / "cifar-10-batches-py"
    folder.mkdir()
    names = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]
    for number, name in enumerate(names):
        data = np.random.default_rng(number).integers(0, 255, (4, 3072), dtype=np.uint8)
        (folder / name).write_bytes(pickle.dumps({"data": data, "labels": [number, 1, 2, 9]}))
    classes = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": classes}))


def mnist(root: Path) -> None:
    idx_files(root / "MNIST" / "raw")


def idx_files(folder: Path, gz: bool = False) -> None:
    folder.mkdir(parents=True)
    for number, (begin, count) in enumerate((("train", 12), ("t10k", 5))):
        pixels = np.random.default_rng(number).integers(0, 255, (count, 28, 28), dtype=np.uint8)
        head = b"\0\0\x08\x03" + np.array([count, 28, 28], ">u4").tobytes()
        labels = b"\0\0\x08\x01" + np.array([count], ">u4").tobytes() + bytes(range(10)) + bytes(count)
        files = {"images-idx3": head + pixels.tobytes(), "labels-idx1": labels[: 8 + count]}
        for name, content in files.items():
            file = folder / f"{begin}-{name}-ubyte{'.gz' if gz else ''}"
            file.write_bytes(gzip.compress(content) if gz else content)


def flowers102(root: Path) -> None:
    from scipy.io import savemat

    folder = root / "flowers-102"
    for number in range(1, 7):
        jpg(folder / "jpg" / f"image_{number:05d}.jpg", number)
    savemat(folder / "imagelabels.mat", {"labels": [1, 2, 1, 2, 3, 1]})
    savemat(folder / "setid.mat", {"trnid": [1, 2], "valid": [3, 5], "tstid": [4, 6]})


def pets(root: Path) -> None:
    folder = root / "oxford-iiit-pet"
    (folder / "annotations").mkdir(parents=True)
    for split, start in (("trainval", 1), ("test", 3)):
        lines = []
        for code, name in enumerate(("Abyssinian", "american_bulldog"), 1):
            for number in (start, start + 1):
                jpg(folder / "images" / f"{name}_{number}.jpg", 10 * code + number)
                lines.append(f"{name}_{number} {code} 1 1")
        (folder / "annotations" / f"{split}.txt").write_text("\n".join(lines))


def food101(root: Path) -> None:
    folder = root / "food-101"
    (folder / "meta").mkdir(parents=True)
    for split, numbers in (("train", (1, 2)), ("test", (3,))):
        named = {name: [f"{name}/{number}" for number in numbers] for name in ("apple_pie", "waffles")}
        (folder / "meta" / f"{split}.json").write_text(json.dumps(named))
        for names in named.values():
            for number, name in enumerate(names):
                jpg(folder / "images" / f"{name}.jpg", number)


def eurosat(root: Path) -> None:
    for code, name in enumerate(("Forest", "River")):
        for number in range(3):
            jpg(root / "eurosat" / "2750" / name / f"{name}_{number}.jpg", 10 * code + number)


def aircraft(root: Path) -> None:
    folder = root / "fgvc-aircraft-2013b" / "data"
    (folder / "images").mkdir(parents=True)
    (folder / "variants.txt").write_text("707-320\nA300B4\n")
    for place, split in enumerate(("train", "val", "test")):
        lines = []
        for code, name in enumerate(("A300B4", "707-320")):
            jpg(folder / "images" / f"00{place}{code}.jpg", 10 * place + code)
            lines.append(f"00{place}{code} {name}")
        (folder / f"images_variant_{split}.txt").write_text("\n".join(lines))


def dtd(root: Path) -> None:
    folder = root / "dtd" / "dtd"
    (folder / "labels").mkdir(parents=True)
    for place, split in enumerate(("train", "val", "test")):
        lines = [f"{name}/{name}_{place}.jpg" for name in ("banded", "zigzagged")]
        for code, line in enumerate(lines):
            jpg(folder / "images" / line, 10 * place + code)
        (folder / "labels" / f"{split}1.txt").write_text("\n".join(lines))


SETS: dict[str, tuple[Callable[[Path], None], dict[str, dict[str, object]]]] = {
    "CIFAR10": (cifar10, {"train": {"train": True}, "test": {"train": False}}),
    "MNIST": (mnist, {"train": {"train": True}, "test": {"train": False}}),
    "Flowers102": (flowers102, {split: {"split": split} for split in ("train", "val", "test")}),
    "OxfordIIITPet": (pets, {"train": {"split": "trainval"}, "test": {"split": "test"}}),
    "Food101": (food101, {split: {"split": split} for split in ("train", "test")}),
    "EuroSAT": (eurosat, {"": {}}),
    "FGVCAircraft": (aircraft, {split: {"split": split} for split in ("train", "val", "test")}),
    "DTD": (dtd, {split: {"split": split} for split in ("train", "val", "test")}),
}


@pytest.fixture(autouse=True)
def _own_files_pass_for_the_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchvision compares the files of some data sets with checksums; ours are small ones in the same layout."""
    for module in ("cifar", "flowers102"):
        monkeypatch.setattr(f"torchvision.datasets.{module}.check_integrity", lambda *_: True)


@pytest.mark.parametrize("name", SETS)
def test_a_data_set_is_what_torchvision_reads(name: str, tmp_path: Path) -> None:
    make, splits = SETS[name]
    make(tmp_path)
    collection = visir.open(f"torchvision:{name}?root={tmp_path}")
    assert set(collection.splits) == set(splits)
    truth = find_truth(collection)
    assert truth is not None and truth.ordered
    ids, total = collection.images["id"].to_pylist(), 0
    for split, arguments in splits.items():
        own = getattr(torchvision.datasets, name)(tmp_path, **arguments)
        part = truth.part(split or None)
        assert len(part.codes) == len(own)
        total += len(own)
        part_ids = part.collection.images["id"].to_pylist()
        for row in range(len(own)):
            image, code = own[row]
            assert truth.classes[part.codes[row]] == str(own.classes[code])
            shown = np.asarray(collection.image(part_ids[row]))
            assert np.array_equal(shown, np.asarray(image.convert("RGB")))
    assert len(ids) == total


def test_files_stay_where_they_are(tmp_path: Path) -> None:
    food101(tmp_path)
    collection = visir.open(f"torchvision:Food101?root={tmp_path}")
    assert collection.images["archive"].null_count == len(collection)
    assert collection.images["path"][0].as_py() == "food-101/images/apple_pie/1.jpg"


def test_objects_subsets_and_splits(tmp_path: Path) -> None:
    from torch.utils.data import Subset

    food101(tmp_path)
    transform = torchvision.transforms.ToTensor()
    train, test = (
        torchvision.datasets.Food101(tmp_path, split=split, transform=transform) for split in ("train", "test")
    )
    both = visir.open({"train": train, "test": Subset(test, [1])})
    assert both.splits == ("test", "train") and len(both) == 5
    assert both.split("test").facts["class"].to_pylist() == ["waffles"]
    folder = torchvision.datasets.ImageFolder(tmp_path / "food-101" / "images")
    assert visir.open(folder).facts["class"].to_pylist().count("waffles") == 3
    assert not is_class_data_set([(picture("red", 0), "red")]) and not is_class_data_set({"a.jpg": "a dog"})


def test_what_is_not_there_or_has_no_classes(tmp_path: Path) -> None:
    with refused(CollectionError, "CIFAR11", code="torchvision-no-data-set", hint="CIFAR10"):
        visir.open("torchvision:CIFAR11")
    with refused(CollectionError, "Food101", code="no-such-data-set", hint=("download=True", "downloads it once")):
        visir.open(f"torchvision:Food101?root={tmp_path}")
    dtd(tmp_path)
    with refused(CollectionError, "DTD", "parttion", code="torchvision-refused"):
        visir.open(f"torchvision:DTD?root={tmp_path}&arguments=parttion=1")
    with refused(CollectionError, "DTD", code="no-such-data-set"):
        visir.open(f"torchvision:DTD?root={tmp_path}&arguments=partition=2")


@pytest.mark.parametrize("gz", [False, True])
def test_idx_files(tmp_path: Path, gz: bool) -> None:
    idx_files(tmp_path / "digits", gz)
    collection = visir.open(tmp_path / "digits")
    assert {split: len(collection.split(split)) for split in collection.splits} == {"test": 5, "train": 12}
    pixels = np.random.default_rng(1).integers(0, 255, (5, 28, 28), dtype=np.uint8)
    assert np.array_equal(np.asarray(collection.image("test/3"))[:, :, 0], pixels[3])
    truth = find_truth(collection)
    assert truth is not None and truth.classes == tuple(map(str, range(10)))
    assert truth.part("test").codes.tolist() == [0, 1, 2, 3, 4]
    (tmp_path / "digits" / f"t10k-labels-idx1-ubyte{'.gz' if gz else ''}").unlink()
    with refused(CollectionError, "t10k", "labels-idx1-ubyte", code="no-file-of-digits"):
        visir.open(tmp_path / "digits")
    with refused(CollectionError, "images-idx3-ubyte", "images-idx3-ubyte", code="no-train-no-t10k"):
        visir.open(f"idx:{tmp_path}")


def test_a_table_with_a_column_of_classes(tmp_path: Path) -> None:
    for number in range(4):
        picture("red", number).save(tmp_path / f"{number}.png")
    (tmp_path / "labels.csv").write_text(
        "file_name,label,split\n0.png,1,train\n1.png,10,test\n2.png,2,test\n3.png,,test\n"
    )
    collection = visir.open(tmp_path / "labels.csv")
    truth = find_truth(collection)
    assert truth is not None and truth.classes == ("1", "2", "10") and truth.where == "column label"
    assert truth.codes.tolist() == [0, 2, 1, -1]
    assert len(truth.part("test").codes) == 2


def test_classes_of_hub_data_sets(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(names=["zebra", "ant"])})
    rows = {"img": [picture("red", number) for number in range(3)], "label": [1, 0, 1]}
    made = datasets.DatasetDict({"train": datasets.Dataset.from_dict(rows, features=features)})
    for source in (made, tmp_path / "saved"):
        if isinstance(source, Path):
            made.save_to_disk(str(source))
        truth = find_truth(visir.open(source))
        assert truth is not None and truth.classes == ("zebra", "ant") and truth.ordered
        assert truth.codes.tolist() == [1, 0, 1]


def test_two_columns_of_classes_are_no_guess() -> None:
    facts = pa.table({"image_id": ["a", "b"], "label": ["x", "y"], "category": ["u", "v"]})
    collection = visir.open("scenes:2?size=64")
    named = type(collection).build("toy", images={"id": ["a", "b"]}, facts=facts)
    with refused(CollectionError, "label", "category", code="several-columns-of-classes", hint="label"):
        find_truth(named)
    assert find_truth(named, "category").classes == ("u", "v")  # type: ignore[union-attr]
    with refused(CollectionError, "labl", code="no-column-classes", hint="label"):
        find_truth(named, "labl")
    assert find_truth(collection, "subject") is not None  # a fact of generated scenes
    assert find_truth(collection) is None


def test_folders_that_are_classes_and_folders_that_are_not() -> None:
    def of(*ids: str) -> visir.collections.Collection:  # type: ignore[name-defined]
        return type(visir.open("scenes:1?size=64")).build("photos", images={"id": ids})

    truth = find_truth(of("train/cat/1.jpg", "train/dog/2.jpg", "test/cat/deep/3.jpg"))
    assert truth is not None and truth.classes == ("cat", "dog") and truth.codes.tolist() == [0, 1, 0]
    assert find_truth(of("1.jpg", "cat/2.jpg")) is None
    years = of("2021/1.jpg", "2022/2.jpg")
    assert find_truth(years, None, ["cat", "dog"]) is None
    assert find_truth(years) is not None
    with refused(CollectionError, "cat", "2021", code="folders-called-like-classes"):
        find_truth(of("2021/1.jpg", "cat/2.jpg"), None, ["cat", "dog"])
    assert find_truth(of("2021/1.jpg", "cat/2.jpg"), "none", ["cat", "dog"]) is None


def test_shards_of_clip_benchmark(tmp_path: Path) -> None:
    """`test/0.tar` with `s0.cls` and `s0.png`, and the names of the classes and the templates beside."""
    for split in ("train", "test"):
        (tmp_path / "wds" / split).mkdir(parents=True)
        with tarfile.open(tmp_path / "wds" / split / "0.tar", "w") as shard:
            for number, colour in enumerate(("red", "blue", "red")):
                stream = io.BytesIO()
                picture(colour, number, 10).save(stream, "PNG")
                code = str(("blue", "red").index(colour)).encode()
                for name, content in ((f"s{number}.png", stream.getvalue()), (f"s{number}.cls", code)):
                    member = tarfile.TarInfo(name)
                    member.size = len(content)
                    shard.addfile(member, io.BytesIO(content))
    (tmp_path / "wds" / "classnames.txt").write_text("blue\nred\n")
    (tmp_path / "wds" / "zeroshot_classification_templates.txt").write_text("a {c} thing.\nthe {c} one\n")
    collection = visir.open(tmp_path / "wds")
    assert collection.splits == ("test", "train") and collection.images["id"][0].as_py() == "test/s0"
    truth = find_truth(collection)
    assert truth is not None and truth.classes == ("blue", "red") and truth.codes.tolist() == [1, 0, 1] * 2
    result = visir.classify(tmp_path / "wds", colour_model())
    assert result.accuracy("zero-shot").top1.mean == 1.0  # type: ignore[union-attr]
    assert "2 templates of" in dict(result.protocol)["prompts"]  # type: ignore[union-attr]
    (tmp_path / "wds" / "classnames.txt").write_text("blue\n")
    with refused(CollectionError, "1", "1", code="names-too-few"):
        visir.open(tmp_path / "wds")
