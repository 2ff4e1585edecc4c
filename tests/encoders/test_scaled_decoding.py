"""`?decode=N`: large JPEGs are decoded at a part of their size, and the card says so."""

import io
import tarfile

import numpy as np
import pytest
from PIL import Image

import visir
from visir.encoders.parts import encode_parts
from visir.errors import EncoderError


@pytest.fixture
def photos(tmp_path):
    """A folder with a large JPEG, the same turned by its metadata, a small one and a PNG; and the picture."""
    rng = np.random.default_rng(0)
    picture = Image.fromarray(rng.integers(0, 255, (30, 40, 3), dtype=np.uint8)).resize((1600, 1200), 3)
    turned = Image.Exif()
    turned[0x0112] = 6
    picture.save(tmp_path / "large.jpg", quality=90)
    picture.save(tmp_path / "turned.jpg", quality=90, exif=turned)
    picture.resize((200, 150)).save(tmp_path / "small.jpg")
    picture.save(tmp_path / "picture.png")
    return tmp_path


def vectors_of(model, photos):
    encoded = visir.encode(model, photos)
    return dict(zip(encoded.ids.to_pylist(), encoded.vectors, strict=True)), encoded.encoder


def test_large_jpegs_are_decoded_at_a_quarter_and_nothing_else_is(photos):
    whole, _ = vectors_of("pixels", photos)
    scaled, card = vectors_of("pixels?decode=300", photos)
    with Image.open(io.BytesIO((photos / "large.jpg").read_bytes())) as image:
        image.draft("RGB", (400, 300))
        assert image.size == (400, 300)
        reference = visir.load("pixels").encode_images([image.convert("RGB")])[0]
    assert np.array_equal(scaled["large.jpg"], reference)
    assert not np.array_equal(scaled["large.jpg"], whole["large.jpg"])
    assert not np.array_equal(scaled["turned.jpg"], whole["turned.jpg"])
    for name in ("small.jpg", "picture.png"):
        assert np.array_equal(scaled[name], whole[name])
    assert card.name == "pixels?decode=300" and card.image_preprocessing["decode"] == 300


def test_vectors_of_whole_pictures_are_not_taken_for_others(photos):
    first, _ = vectors_of("mobilenet_v2", photos)  # both are kept in the store
    for model in ("mobilenet_v2?decode=300", "mobilenet_v2?decode=600", "mobilenet_v2"):
        again, _ = vectors_of(model, photos)
        assert np.array_equal(again["large.jpg"], first["large.jpg"]) == (model == "mobilenet_v2")
        cosine = again["large.jpg"] @ first["large.jpg"]
        assert cosine > 0.99 * np.linalg.norm(again["large.jpg"]) * np.linalg.norm(first["large.jpg"])


@pytest.mark.parametrize("value", ["", "0", "-3", "many", "1e3", "0300", "123456", "٣00"])
def test_what_is_no_number_of_pixels_is_refused(value):
    with pytest.raises(EncoderError, match="no number of pixels") as caught:
        visir.load(f"pixels?decode={value}")
    assert "decode=896" in caught.value.hint


def test_what_opens_no_pictures_takes_no_such_option():
    with pytest.raises(EncoderError, match="opens no pictures"):
        visir.load("bow:64?decode=896")


@pytest.mark.parametrize("options", ["decode=300&layout=NHWC&normalise=half", "layout=NHWC&normalise=half&decode=300"])
def test_the_option_stands_anywhere_before_the_output_of_a_graph(data_dir, options):
    file = data_dir / "mobilenet_v2/mobilenetv2_dynrange_float32.onnx"
    model = visir.load(f"onnx:{file}?{options}#StatefulPartitionedCall:0")
    assert model.decoded_side == 300 and model.dimension == visir.load(model.card.name).dimension == 1000


def test_a_misspelt_option_is_named_and_one_given_twice_is_refused():
    for name in ("pixels?decod=896", "mobilenet_v2?decod=896", "bow:64?compos=text"):
        with pytest.raises(EncoderError) as caught:
            visir.load(name)
        assert caught.value.hint in ("did you mean decode?", "did you mean compose?")
    with pytest.raises(EncoderError, match="twice"):
        visir.load("pixels?decode=448&decode=896")


def test_queries_and_parts_see_what_the_gallery_sees(photos):
    model = "mobilenet_v2?decode=300"
    run = visir.search(photos, model, photos / "large.jpg")
    assert dict(run.answer(run.queries[0].as_py()))["large.jpg"] == pytest.approx(1, abs=1e-6)
    vectors, _ = vectors_of(model, photos)
    archive = photos.with_suffix(".tar")
    with tarfile.open(archive, "w") as tar:
        tar.add(photos / "large.jpg", "large.jpg")
    (part,) = encode_parts(model, archive, photos.parent / "parts").parts
    assert np.allclose(part.vectors[0], vectors["large.jpg"], atol=1e-5)
