"""The formats that can be read, in the order in which they are tried. A new one is one new file and one line here."""

from __future__ import annotations

from visir.collections.descriptor import Format, JudgementFormat
from visir.collections.judgements import cxc, eccv, flickr8k, pairs
from visir.collections.portable import FORMAT as PORTABLE
from visir.collections.readers import (
    abo,
    annotation_list,
    coco_captions,
    cub,
    fashion200k,
    fine_grained,
    flickr_tokens,
    generated,
    huggingface,
    imagefolder,
    karpathy,
    photos,
    table,
    task_folder,
    vsepp,
    webdataset,
)
from visir.plugins import FORMATS as GROUP
from visir.registry import Registry

FORMATS: Registry[Format] = Registry("collection format", group=GROUP, of=Format)
JUDGEMENTS: Registry[JudgementFormat] = Registry("judgement format")

for _one in (
    PORTABLE,
    task_folder.FORMAT,
    huggingface.FORMAT,
    imagefolder.FORMAT,
    karpathy.FORMAT,
    coco_captions.FORMAT,
    annotation_list.FORMAT,
    fine_grained.FORMAT,
    cub.FORMAT,
    fashion200k.FORMAT,
    abo.FORMAT,
    flickr_tokens.FORMAT,
    vsepp.FORMAT,
    webdataset.FORMAT,
    table.FORMAT,
    photos.FORMAT,
    generated.FORMAT,
):
    FORMATS.add(_one.name, _one)

for _set in (cxc.FORMAT, eccv.FORMAT, flickr8k.FORMAT, pairs.FORMAT):
    JUDGEMENTS.add(_set.name, _set)
