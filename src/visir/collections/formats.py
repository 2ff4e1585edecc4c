"""The formats that can be read, in the order in which they are tried: a new one is entered here."""

from __future__ import annotations

import visir.collections.cub as cub
import visir.collections.layout as layout
import visir.collections.layouts as layouts
import visir.collections.qrels_reading as qrels_reading
import visir.collections.shop_layouts as shop_layouts
import visir.collections.task_layouts as task_layouts
from visir.collections.portable import FORMAT as PORTABLE
from visir.collections.readers import (
    choice_table,
    folders,
    generated,
    huggingface,
    ir_datasets_tasks,
    mteb_tasks,
    products,
    table,
    task_reader,
    torchvision_sets,
    webdataset,
)
from visir.collections.sources import Format, JudgementFormat
from visir.plugins import FORMATS as GROUP
from visir.registry import Registry

FORMATS: Registry[Format] = Registry("collection format", group=GROUP, of=Format)
JUDGEMENTS: Registry[JudgementFormat] = Registry("judgement format")

for _one in (
    PORTABLE,
    task_layouts.vidore,
    task_reader.FORMAT,
    task_layouts.sugarcrepe_pp,
    task_layouts.sugarcrepe,
    task_layouts.winoground,
    task_layouts.eqben,
    task_layouts.valse,
    task_layouts.aro,
    task_layouts.cola,
    task_layouts.cola_single,
    task_layouts.mmeb,
    choice_table.FORMAT,
    task_layouts.fashioniq,
    task_layouts.cirr,
    task_layouts.circo,
    layouts.docci,
    layouts.dci,
    layouts.urban1k,
    layouts.flickr8k_cn,
    layouts.multi30k,
    layouts.xtd,
    layouts.xm3600,
    huggingface.FORMAT,
    folders.imagefolder,
    layouts.karpathy,
    layouts.coco_captions,
    layouts.annotation_list,
    layouts.fine_grained,
    cub.cub,
    shop_layouts.fashion200k,
    shop_layouts.abo,
    layouts.flickr_tokens,
    layouts.vsepp,
    webdataset.FORMAT,
    products.FORMAT,
    *shop_layouts.PRODUCTS,
    table.FORMAT,
    layout.own,
    torchvision_sets.idx,
    folders.photos,
    generated.FORMAT,
    mteb_tasks.FORMAT,
    ir_datasets_tasks.FORMAT,
    torchvision_sets.torchvision,
):
    FORMATS.add(_one.name, _one)

for _set in (qrels_reading.cxc, qrels_reading.eccv, qrels_reading.flickr8k, qrels_reading.pairs):
    JUDGEMENTS.add(_set.name, _set)
