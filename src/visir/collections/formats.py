"""The formats that can be read, in the order in which they are tried. A new one is one new file and one line here."""

from __future__ import annotations

from visir.collections.judgements import cxc, eccv, flickr8k, pairs
from visir.collections.portable import FORMAT as PORTABLE
from visir.collections.readers import (
    abo,
    annotation_list,
    aro,
    choice_table,
    circo,
    cirr,
    coco_captions,
    cola,
    cola_single,
    cub,
    dci,
    docci,
    fashion200k,
    fashioniq,
    fine_grained,
    flickr8k_cn,
    flickr_tokens,
    generated,
    huggingface,
    idx,
    imagefolder,
    karpathy,
    mmeb,
    mteb_tasks,
    multi30k,
    photos,
    products,
    sugarcrepe,
    table,
    task_folder,
    torchvision_sets,
    urban1k,
    valse,
    vidore,
    vsepp,
    webdataset,
    winoground,
    xm3600,
    xtd,
)
from visir.collections.sources import Format, JudgementFormat
from visir.plugins import FORMATS as GROUP
from visir.registry import Registry

FORMATS: Registry[Format] = Registry("collection format", group=GROUP, of=Format)
JUDGEMENTS: Registry[JudgementFormat] = Registry("judgement format")

for _one in (
    PORTABLE,
    vidore.FORMAT,
    task_folder.FORMAT,
    sugarcrepe.FORMAT_PP,
    sugarcrepe.FORMAT,
    winoground.FORMAT,
    winoground.FORMAT_EQBEN,
    valse.FORMAT,
    aro.FORMAT,
    cola.FORMAT,
    cola_single.FORMAT,
    mmeb.FORMAT,
    choice_table.FORMAT,
    fashioniq.FORMAT,
    cirr.FORMAT,
    circo.FORMAT,
    docci.FORMAT,
    dci.FORMAT,
    urban1k.FORMAT,
    flickr8k_cn.FORMAT,
    multi30k.FORMAT,
    xtd.FORMAT,
    xm3600.FORMAT,
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
    products.FORMAT,
    table.FORMAT,
    idx.FORMAT,
    photos.FORMAT,
    generated.FORMAT,
    mteb_tasks.FORMAT,
    torchvision_sets.FORMAT,
):
    FORMATS.add(_one.name, _one)

for _set in (cxc.FORMAT, eccv.FORMAT, flickr8k.FORMAT, pairs.FORMAT):
    JUDGEMENTS.add(_set.name, _set)
