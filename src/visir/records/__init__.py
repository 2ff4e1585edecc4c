"""The small immutable records that visir's rooms exchange. There is no I/O here, and no torch.

The usual way of data: `Collection` → `Embeddings` → `Run` (over a `Gallery`) → `Ranks` (of the positives in
`Qrels`) → `Result` (under a `Protocol`).
"""

from visir.records.catalogue import Catalogue
from visir.records.collection import SIDES, TASKS, Collection
from visir.records.collection_tables import CAPTIONS, IMAGES, JUDGEMENTS, LINKS, caption_labels
from visir.records.columns import strings
from visir.records.corrupted import Corrupted
from visir.records.embeddings import Embeddings, EncoderCard
from visir.records.gallery import Gallery, modality_of
from visir.records.id_forms import show_id_forms
from visir.records.items import HasImages, Items, Modality, Role
from visir.records.labels import GROUP, HOLDS, IMAGE, join_labels, label_kinds, labels_of, query_labels
from visir.records.multi_vector import MultiVectorEmbeddings, TokenVectors
from visir.records.protocol import UNDECLARED, Protocol, Recall, Ties, gallery_line
from visir.records.qrels import Qrels
from visir.records.ranks import Ranks
from visir.records.result import Result
from visir.records.run import Run
from visir.records.shortcuts import Injected, Shortcuts
from visir.records.sparse import SparseEmbeddings, Vocabulary
from visir.records.splitting import SplitRule
from visir.records.task import PLAIN, Pools, QrelsByName, Task, task_name
from visir.records.task_file import TaskFile
from visir.records.task_set import TaskSet
from visir.records.vectors import VectorForm, Vectors

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
