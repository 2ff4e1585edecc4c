"""The few small immutable records that travel through visir. No I/O here, and no torch.

Made once and passed along: `Collection` → `Embeddings` → `Run` (over a `Gallery`) → `Ranks` (of the positives in
`Qrels`) → `Result` (under a `Protocol`).
"""

from visir.records.catalogue import Catalogue
from visir.records.collection import CAPTIONS, IMAGES, JUDGEMENTS, LINKS, Collection
from visir.records.columns import strings
from visir.records.corrupted import Corrupted
from visir.records.embeddings import Embeddings, EncoderCard
from visir.records.gallery import CANDIDATES, DIRECTIONS, QUERIES, Direction, Gallery, Modality, modality_of
from visir.records.protocol import UNDECLARED, Protocol, Recall, Ties, gallery_line
from visir.records.qrels import Qrels
from visir.records.ranks import Ranks
from visir.records.result import Result
from visir.records.run import Run
from visir.records.shortcuts import Injected, Shortcuts
from visir.records.sparse import SparseEmbeddings, Vocabulary

__all__ = [
    "CANDIDATES",
    "CAPTIONS",
    "DIRECTIONS",
    "IMAGES",
    "JUDGEMENTS",
    "LINKS",
    "QUERIES",
    "UNDECLARED",
    "Catalogue",
    "Collection",
    "Corrupted",
    "Direction",
    "Embeddings",
    "EncoderCard",
    "Gallery",
    "Injected",
    "Modality",
    "Protocol",
    "Qrels",
    "Ranks",
    "Recall",
    "Result",
    "Run",
    "Shortcuts",
    "SparseEmbeddings",
    "Ties",
    "Vocabulary",
    "gallery_line",
    "modality_of",
    "strings",
]
