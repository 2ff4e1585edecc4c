"""Image base encoders in ONNX files, their declared input, and MobileNetV2."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from mobilenet_npz import MobileNetNpz, _same
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from torchvision import transforms

from refusals import refused
from visir.collections import open_collection
from visir.collections.images import ImageReader
from visir.encoders import encode, load
from visir.encoders.models.image_processors import ImageInput
from visir.errors import EncoderError

RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(5, 3, 3, 3)).astype(np.float32)
CLASSIFIER = RNG.normal(size=(5, 7)).astype(np.float32)


def graph(file: Path, shape: list[int | str], *, nhwc: bool = False) -> Path:
    """Conv 3×3 → ReLU → mean over places → "features" (n, 5) → classifier (n, 7)."""
    nodes = [helper.make_node("Transpose", ["image"], ["nchw"], perm=[0, 3, 1, 2])] if nhwc else []
    nodes += [
        helper.make_node("Conv", ["nchw" if nhwc else "image", "weight"], ["map"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["map"], ["active"]),
        helper.make_node("GlobalAveragePool", ["active"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["features"]),
        helper.make_node("MatMul", ["features", "classifier"], ["logits"]),
    ]
    made = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [shape[0], 7])],
        [numpy_helper.from_array(WEIGHT, "weight"), numpy_helper.from_array(CLASSIFIER, "classifier")],
    )
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(file))
    return file


def pictures(count: int, size: tuple[int, int] = (40, 30)) -> list[Image.Image]:
    width, height = size
    smooth = RNG.integers(0, 256, (count, 6, 8, 3), dtype=np.uint8)
    return [Image.fromarray(one).resize((width, height), Image.Resampling.BICUBIC) for one in smooth]


def expected(images: list[Image.Image], size: int) -> NDArray[np.float32]:
    """The same in torch and torchvision."""
    prepare = transforms.Compose(
        [
            transforms.Resize(size, transforms.InterpolationMode.BICUBIC),
            transforms.CenterCrop(size),
            transforms.ToTensor(),
            transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ]
    )
    batch = torch.stack([prepare(one) for one in images])
    active = torch.conv2d(batch, torch.from_numpy(WEIGHT), padding=1).relu()
    return active.mean(dim=(2, 3)).numpy()


@pytest.mark.parametrize("nhwc", [False, True])
@pytest.mark.parametrize("batch", ["n", 1, 4])
def test_a_tensor_inside_the_graph_equals_torch(tmp_path: Path, nhwc: bool, batch: int | str) -> None:
    file = graph(tmp_path / "m.onnx", [batch, 24, 24, 3] if nhwc else [batch, 3, 24, 24], nhwc=nhwc)
    encoder = load(f"onnx:{file}?normalise=imagenet#features", device="cpu")
    images = pictures(11)
    assert encoder.dimension == 5
    assert encoder.card.image_preprocessing["layout"] == ("NHWC" if nhwc else "NCHW")
    assert np.abs(encoder.encode_images(images) - expected(images, 24)).max() < 1e-5
    one_by_one = np.concatenate([encoder.encode_images([one]) for one in images])
    assert np.abs(encoder.encode_images(images) - one_by_one).max() < 1e-5


def test_without_a_tensor_the_output_is_the_vector(tmp_path: Path) -> None:
    file = graph(tmp_path / "m.onnx", ["n", 3, 24, 24])
    images = pictures(3)
    logits = load(f"onnx:{file}?normalise=imagenet").encode_images(images)
    assert np.abs(logits - expected(images, 24) @ CLASSIFIER).max() < 1e-4


def test_the_declaration_may_lie_beside_the_file_and_the_name_wins(tmp_path: Path) -> None:
    file = graph(tmp_path / "m.onnx", ["n", 3, "h", "w"])
    (tmp_path / "m.onnx.json").write_text(
        json.dumps({"size": 24, "normalise": "imagenet", "tensor": "features", "layout": "NCHW"})
    )
    images = pictures(3)
    assert np.abs(load(f"onnx:{file}").encode_images(images) - expected(images, 24)).max() < 1e-5
    assert np.abs(load(f"onnx:{file}?size=16").encode_images(images) - expected(images, 16)).max() < 1e-5


def test_what_is_not_declared_is_asked_for_all_at_once(tmp_path: Path) -> None:
    file = graph(tmp_path / "m.onnx", ["n", 3, "h", "w"])
    with pytest.raises(EncoderError) as caught:
        load(f"onnx:{file}?resise=crop&interpolation=cubic")
    text = str(caught.value)
    assert "(4 faults)" in text
    assert "unknown option 'resise': did you mean 'resize'?" in text
    assert "interpolation 'cubic': did you mean 'bicubic'?" in text
    assert "size is missing: the graph leaves it open" in text
    assert "normalise is missing: declare one of imagenet, clip, half, unit, none" in text


def test_wrong_tensors_are_named(tmp_path: Path) -> None:
    file = graph(tmp_path / "m.onnx", ["n", 3, 24, 24])
    with refused(EncoderError, "feature", code="no-tensor") as caught:
        load(f"onnx:{file}?normalise=unit#feature")
    assert "did you mean 'features'?" in caught.value.hint
    with refused(EncoderError, "active", "1", "5", "24", "24", code="tensor-one-image"):
        load(f"onnx:{file}?normalise=unit#active")


def test_wrong_files_are_named(tmp_path: Path) -> None:
    with refused(EncoderError, "none.onnx", code="no-such-onnx-file"):
        load(f"onnx:{tmp_path}/none.onnx")
    (tmp_path / "text.onnx").write_text("version https://git-lfs.github.com/spec/v1\n")
    with refused(EncoderError, code="not-onnx-file"):
        load(f"onnx:{tmp_path}/text.onnx")
    file = graph(tmp_path / "m.onnx", ["n", 3, 24, 24])
    with pytest.raises(EncoderError, match="does not run on one 24x24 NHWC image"):
        load(f"onnx:{file}?normalise=unit&layout=NHWC#features")
    with pytest.raises(EncoderError, match="'half' has no value; write half=VALUE"):
        load(f"onnx:{file}?half")


@pytest.mark.parametrize("size", [(40, 30), (30, 40), (24, 24), (25, 90), (301, 200)])
def test_crop_and_normalisation_equal_torchvision(size: tuple[int, int]) -> None:
    image = pictures(1, size)[0]
    declared = ImageInput.declared({"size": "24", "shorter": "28", "normalise": "clip"}, "test")
    theirs = transforms.Compose(
        [
            transforms.Resize(28, transforms.InterpolationMode.BICUBIC),
            transforms.CenterCrop(24),
            transforms.ToTensor(),
            transforms.Normalize(*((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))),
        ]
    )
    ours = declared.batch([declared.prepare(image)])[0]
    assert np.abs(ours - theirs(image).numpy()).max() < 1e-5


def test_pad_squash_layout_and_channels_by_hand() -> None:
    image = Image.new("RGB", (40, 20), (255, 0, 51))
    padded = ImageInput.declared({"size": 20, "normalise": "none", "resize": "pad"}, "t").prepare(image)
    assert padded[0, 0].tolist() == [127, 127, 127]  # scaled to 20 × 10, five grey rows above and below
    assert padded[4, 10].tolist() == [127, 127, 127]
    assert padded[5, 0].tolist() == padded[14, 19].tolist() == [255, 0, 51]
    squashed = ImageInput.declared(
        {"size": [8, 6], "normalise": "half", "resize": "squash", "layout": "NHWC", "channels": "BGR"}, "t"
    )
    batch = squashed.batch([squashed.prepare(image)])
    assert batch.shape == (1, 8, 6, 3)
    assert batch[0, 0, 0] == pytest.approx([51 / 127.5 - 1, -1.0, 1.0], abs=1e-6)
    own = ImageInput.declared({"size": 2, "normalise": "0.1,0.2,0.3/0.5,0.5,0.25"}, "t")
    assert own.batch([own.prepare(image)])[0, :, 0, 0] == pytest.approx([1.8, -0.4, -0.4], abs=1e-6)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"size": "big", "normalise": "unit"}, "size 'big': not a number of pixels"),
        ({"size": 8, "normalise": "unti"}, "did you mean 'unit'?"),
        ({"size": 8, "normalise": "1,2/3,4"}, "neither a name nor m,m,m/s,s,s"),
        ({"size": 8, "normalise": "0,0,0/1,1,0"}, "neither a name nor m,m,m/s,s,s"),
        ({"size": 8, "normalise": "unit", "shorter": 4}, "shorter 4 is smaller than the size"),
        ({"size": 8, "normalise": "unit", "shorter": 9, "resize": "pad"}, "a meaning for resize=crop only"),
    ],
)
def test_impossible_declarations(options: dict[str, object], fault: str) -> None:
    with pytest.raises(EncoderError) as caught:
        ImageInput.declared(options, "t")
    assert fault in str(caught.value)


def real_photos(data_dir: Path, count: int) -> list[Image.Image]:
    flickr = open_collection(data_dir / "flickr8k" / "dataset_flickr8k.karpathy_schema.json.xz", split="test")
    reader = ImageReader(flickr)
    return [reader.open(row) for row in range(count)]


def test_mobilenet_equals_the_runtime_used_by_hand(data_dir: Path) -> None:
    import onnxruntime

    folder = data_dir / "mobilenet_v2"
    model = onnx.load(str(folder / "mobilenetv2_dynrange_float32.onnx"))
    tensor = "mobilenetv2_1.00_224/global_average_pooling2d_3/Mean_Squeeze__632:0"
    model.graph.output.append(helper.make_tensor_value_info(tensor, TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    images = real_photos(data_dir, 6)
    pixels = np.stack([np.asarray(one.resize((224, 224), Image.Resampling.BICUBIC), np.float32) for one in images])
    theirs = session.run([tensor], {"serving_default_input_4:0": pixels / 127.5 - 1})[0]
    encoder = load(f"mobilenet_v2:{folder}", device="cpu")
    assert encoder.dimension == 1280
    assert np.abs(encoder.encode_images(images) - theirs).max() < 1e-5


def test_both_mobilenets_see_the_same_in_real_photos(data_dir: Path) -> None:
    """Two quantisations of one training (63.3 and 64.7 % on ImageNet): alike, not interchangeable."""
    images = real_photos(data_dir, 20)
    folder = data_dir / "mobilenet_v2"
    encoders = load(f"mobilenet_v2:{folder}", device="cpu"), MobileNetNpz(folder)
    first, second = (encoder.encode_images(images) for encoder in encoders)
    unit = [one / np.linalg.norm(one, axis=1, keepdims=True) for one in (first, second)]
    cosines = unit[0] @ unit[1].T
    own = np.diag(cosines)
    assert own.mean() > 0.98
    assert (cosines.argmax(axis=1) == np.arange(20)).all()  # every photo is nearest to itself
    others = cosines[~np.eye(20, dtype=bool)]
    assert own.min() > others.max()


def test_int8_weights_are_read_as_documented(data_dir: Path) -> None:
    """The classifier on top recognises what the ONNX model recognises; a shift of half a pixel would cost agreement."""
    import onnxruntime

    folder = data_dir / "mobilenet_v2"
    encoder = MobileNetNpz(folder)
    images = [encoder.preprocess(one) for one in real_photos(data_dir, 20)]
    with torch.inference_mode():
        ours = encoder.network.classify(torch.from_numpy(encoder.input.batch(images)))[:, 1:].argmax(dim=1).numpy()
    session = onnxruntime.InferenceSession(str(folder / "mobilenetv2_dynrange_float32.onnx"))
    pixels = np.stack(images).astype(np.float32) / 127.5 - 1
    theirs = session.run(None, {"serving_default_input_4:0": pixels})[0].argmax(axis=1)
    assert (ours == theirs).mean() > 0.7


@pytest.mark.parametrize(
    ("size", "stride", "padding"), [(224, 2, (0, 1)), (112, 1, (1, 1)), (7, 2, (1, 1)), (15, 2, (1, 1))]
)
def test_same_padding_as_tensorflow_defines_it(size: int, stride: int, padding: tuple[int, int]) -> None:
    # out = ceil(n/s); total = (out-1)·s + 3 - n. 224, 2: (112-1)·2+3-224 = 1 → (0, 1). 7, 2: (4-1)·2+3-7 = 2 → (1, 1).
    assert _same(size, 3, stride) == padding


def test_batch_size_and_order_do_not_change_mobilenet(data_dir: Path, tmp_path: Path) -> None:
    flickr = open_collection(data_dir / "flickr8k" / "dataset_flickr8k.karpathy_schema.json.xz", split="test")
    few = flickr.keep_images(np.arange(flickr.images.num_rows) < 21)
    from visir.encoders import Store

    encoder = load(f"mobilenet_v2:{data_dir / 'mobilenet_v2'}", device="cpu")
    made = [encode(encoder, few, "image", store=Store(tmp_path / str(size)), batch_size=size) for size in (1, 8, 64)]
    for one in made[1:]:
        assert np.abs(one.vectors - made[0].vectors).max() <= 1e-5
