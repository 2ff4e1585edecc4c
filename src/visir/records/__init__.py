"""The small immutable records that visir's rooms exchange. There is no I/O here, and no torch.

The usual way of data: `Collection` → `Embeddings` → `Run` (over a `Gallery`) → `Ranks` (of the positives in
`Qrels`) → `Result` (under a `Protocol`).
"""

from visir.records.catalogue import Catalogue
from visir.records.collection import CAPTIONS, IMAGES, JUDGEMENTS, LINKS, SIDES, TASKS, Collection, caption_labels
from visir.records.columns import show_id_forms, strings
from visir.records.items import (
    GROUP,
    HOLDS,
    IMAGE,
    HasImages,
    Items,
    Modality,
    Role,
    join_labels,
    label_kinds,
    labels_of,
    query_labels,
)
from visir.records.qrels import Qrels
from visir.records.result import UNDECLARED, Protocol, Recall, Result, Ties, gallery_line
from visir.records.run import Gallery, Ranks, Run, modality_of, task_name
from visir.records.shortcuts import Corrupted, Injected, Shortcuts
from visir.records.splitting import SplitRule
from visir.records.task import PLAIN, Pools, QrelsByName, Task, TaskFile, TaskSet
from visir.records.vectors import (
    Embeddings,
    EncoderCard,
    MultiVectorEmbeddings,
    SparseEmbeddings,
    TokenVectors,
    VectorForm,
    Vectors,
    Vocabulary,
)

__all__ = [
    "CAPTIONS",
    "GROUP",
    "HOLDS",
    "IMAGE",
    "IMAGES",
    "JUDGEMENTS",
    "LINKS",
    "PLAIN",
    "SIDES",
    "TASKS",
    "UNDECLARED",
    "Catalogue",
    "Collection",
    "Corrupted",
    "Embeddings",
    "EncoderCard",
    "Gallery",
    "HasImages",
    "Injected",
    "Items",
    "Modality",
    "MultiVectorEmbeddings",
    "Pools",
    "Protocol",
    "Qrels",
    "QrelsByName",
    "Ranks",
    "Recall",
    "Result",
    "Role",
    "Run",
    "Shortcuts",
    "SparseEmbeddings",
    "SplitRule",
    "Task",
    "TaskFile",
    "TaskSet",
    "Ties",
    "TokenVectors",
    "VectorForm",
    "Vectors",
    "Vocabulary",
    "caption_labels",
    "gallery_line",
    "join_labels",
    "label_kinds",
    "labels_of",
    "modality_of",
    "query_labels",
    "show_id_forms",
    "strings",
    "task_name",
]
