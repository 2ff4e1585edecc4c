"""The formats that can be read, in the order in which they are tried. A new one is one new file and one line here."""

from __future__ import annotations

from visir.collections import (
    generated,
    karpathy,
    portable,
)
from visir.collections.descriptor import Format, JudgementFormat
from visir.registry import Registry

FORMATS: Registry[Format] = Registry("collection format")
JUDGEMENTS: Registry[JudgementFormat] = Registry("judgement format")

for _module in (portable, generated, karpathy):
    FORMATS.add(_module.FORMAT.name, _module.FORMAT)
