"""The layouts of catalogues, in the order in which they are tried. A new one is one new file and one line here."""

from __future__ import annotations

from visir.collections.sources import Format
from visir.products.generated import FORMAT as GENERATED
from visir.products.readers import abo, amazon, kaggle, table
from visir.registry import Registry

FORMATS: Registry[Format] = Registry("catalogue format")

for _format in (kaggle.FLIPKART, kaggle.FASHION, amazon.FORMAT, abo.FORMAT, table.FORMAT, GENERATED):
    FORMATS.add(_format.name, _format)
