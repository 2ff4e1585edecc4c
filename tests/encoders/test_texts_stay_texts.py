"""A text that looks like an address is read as a text: nothing is fetched, and no file is opened.

sentence-transformers guesses what a string is: it fetches addresses of pictures, videos and sounds, and opens files.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sentence_transformers")

import tiny_multi_vector as tiny_multi
import tiny_sentence
import tiny_transformers as tiny
import torch
from sentence_transformers import CrossEncoder, MultiVectorEncoder, SentenceTransformer, SparseEncoder

import visir
from visir.collections.images import to_rgb
from visir.encoders import encode_items, load_cross_encoder
from visir.encoders.loading import load
from visir.errors import EncoderError
from visir.records import Items, Role, strings

ENDINGS = ("png", "JPG", "jpeg", "gif", "bmp", "tiff", "webp", "mp4", "mov", "mkv", "mp3", "wav", "flac")
FILE = "photos/p0.png"
SAVED: dict[str, tuple[Callable[[Path], Path], Callable[..., Any]]] = {
    "clip": (tiny_sentence.save_clip, SentenceTransformer),
    "old-clip": (tiny_sentence.save_old_clip, SentenceTransformer),
    "clap": (tiny_sentence.save_clap, SentenceTransformer),
    "qwen": (tiny_sentence.save_qwen, SentenceTransformer),
    "qwen3": (tiny_multi.save_qwen3, SentenceTransformer),
    "sparse": (tiny_sentence.save_sparse_clip, SparseEncoder),
    "multi": (tiny_multi.save_pictures, MultiVectorEncoder),
}
ROLES: tuple[Role, ...] = ("query", "document")


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[list[str], list[str]]]:
    """Hostile texts, and a list of what a server on this machine was asked for; a picture is in the folder."""
    paths: list[str] = []
    (tmp_path / "photos").mkdir()
    for name in (FILE, "film.mp4", "sound.wav"):
        to_rgb(tiny.photos()[0]).save(tmp_path / name, format="png")
    content = (tmp_path / FILE).read_bytes()
    monkeypatch.chdir(tmp_path)

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    at = f"http://127.0.0.1:{server.server_port}"
    texts = [f"{at}/internal.{ending}" for ending in ENDINGS]
    texts += [f"{at}/a.png?b=c#d", "https://youtu.be/a", "http://youtube.com/watch?v=a"]
    texts += ["data:image/png;base64,AAAA", "data:video/mp4;base64,AAAA", "data:audio/wav;base64,AAAA"]
    texts += [FILE, str(tmp_path / FILE), "film.mp4", "sound.wav", f"file://{tmp_path / FILE}", "not there.png"]
    yield texts, paths
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("models")

    def of(kind: str) -> Path:
        return folder / kind if (folder / kind).exists() else SAVED[kind][0](folder / kind)

    return of


@pytest.mark.parametrize("kind", SAVED)
def test_encoders_read_addresses_as_texts(
    saved: Callable[[str], Path], asked: tuple[list[str], list[str]], kind: str
) -> None:
    texts, paths = asked
    encoder, library = load(saved(kind), device="cpu"), SAVED[kind][1](str(saved(kind)), device="cpu")
    for role in ROLES:
        encode = library.encode_query if role == "query" else library.encode_document
        many = [*tiny.CAPTIONS, *texts]
        expected = list(encode([{"text": text} for text in many]))
        vectors = encode_items(encoder, Items(strings(map(str, range(len(many)))), strings(many)), role)
        by_hand, alone = (
            list(encoder.encode_texts(many, role)),
            [encoder.encode_texts([text], role)[0] for text in many],
        )
        for number, rows in enumerate(expected):
            wanted = np.asarray(rows.to_dense() if kind == "sparse" else rows)
            np.testing.assert_allclose(by_hand[number], wanted, atol=1e-4)
            np.testing.assert_allclose(alone[number], wanted, atol=1e-4)
            if kind == "multi":
                assert len(vectors.row(number)) == len(wanted)
                np.testing.assert_allclose(vectors.row(number), wanted, atol=2e-3)  # kept in float16
            elif kind != "sparse":
                np.testing.assert_allclose(vectors.vectors[number], wanted, atol=1e-4)
    if kind == "multi":
        pieces = encoder.text_pieces(texts, "query")
        assert [len(row) for row in pieces] == encoder.encode_texts(texts, "query").counts.tolist()
        assert "".join(pieces[texts.index(FILE)]).count(FILE) == 1
    assert paths == []


def test_items_with_a_picture_keep_their_texts(
    saved: Callable[[str], Path], asked: tuple[list[str], list[str]]
) -> None:
    texts, paths = asked
    picture = to_rgb(tiny.photos()[1])
    for kind in ("qwen", "multi"):
        encoder = load(saved(kind), device="cpu")
        encoder.embed_texts_with_images(texts, [encoder.preprocess(picture)] * len(texts))
    assert paths == []


RE_RANKERS: dict[str, Callable[[Path], Path]] = {
    "pictures": tiny_sentence.save_picture_re_ranker,
    "chat": lambda folder: tiny_sentence.save_chat_re_ranker(folder, tiny_sentence.CHAT),
    "flat chat": lambda folder: tiny_sentence.save_chat_re_ranker(folder, FLAT),
}
FLAT = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"


@pytest.mark.parametrize("kind", RE_RANKERS)
def test_re_rankers_read_addresses_as_texts(tmp_path: Path, asked: tuple[list[str], list[str]], kind: str) -> None:
    """Against the library with messages written out, where it guesses nothing."""
    texts, paths = asked
    folder = RE_RANKERS[kind](tmp_path / "model")
    scorer, library = load_cross_encoder(folder, device="cpu"), CrossEncoder(str(folder), device="cpu")

    def said(role: str, value: Any) -> dict[str, Any]:
        name = "text" if isinstance(value, str) else "image"
        return {"role": role, "content": value if kind == "flat chat" else [{"type": name, name: value}]}

    def same(queries: list[Any], documents: list[Any]) -> None:
        pairs = list(zip(queries, documents, strict=True))
        messages = [[said("query", query), said("document", document)] for query, document in pairs]
        expected = library.predict(messages, activation_fn=torch.nn.Identity())
        assert expected.std() > 0.001
        np.testing.assert_allclose(scorer.score(queries, documents), expected, atol=1e-4)

    dog = ["a dog"] * len(texts)
    for queries, documents in ((texts, dog), (dog, texts), (texts, texts[::-1])):
        same(queries, documents)
    same([*texts, "the grass"], ["a dog", *texts])
    if kind == "pictures":
        same(texts, [to_rgb(tiny.photos()[1])] * len(texts))
    assert paths == []


@pytest.mark.parametrize("mark", ["<|image_pad|>", "<|video_pad|>"])
def test_a_mark_that_stands_for_a_picture_is_refused(saved: Callable[[str], Path], tmp_path: Path, mark: str) -> None:
    text, picture = f"a {mark} dog", to_rgb(tiny.photos()[1])
    kind = "picture" if "image" in mark else "video"
    said = rf"has {re.escape(mark)} in it, which stands for a {kind} in this model"
    for name in ("qwen", "qwen3", "multi"):
        encoder = load(saved(name), device="cpu")
        with pytest.raises(EncoderError, match=said):
            encoder.encode_texts(["a dog", text])
        with pytest.raises(EncoderError, match=said):
            encoder.embed_texts_with_images([text], [encoder.preprocess(picture)])
    scorer = load_cross_encoder(tiny_sentence.save_picture_re_ranker(tmp_path / "model"), device="cpu")
    with pytest.raises(EncoderError, match=said):
        scorer.score([text], ["a dog"])
    with pytest.raises(EncoderError, match=said):
        scorer.item_tokens("text+image", [text], [scorer.preprocess(picture)])


def test_a_library_is_searched_for_addresses(
    saved: Callable[[str], Path], asked: tuple[list[str], list[str]], tmp_path: Path
) -> None:
    texts, paths = asked
    library = visir.index(tmp_path / "photos", str(saved("multi")), out=tmp_path / "photos.visir")
    for text in texts:
        assert [hit.name for hit in library.search(text)] == ["p0.png"]
        assert library.explain("p0.png", text).regions is not None
    assert paths == []
