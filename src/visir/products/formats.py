"""The layouts of catalogues, in the order in which they are tried. A new one is one new file and one line here."""

from __future__ import annotations

from visir.products.descriptor import CatalogueFormat
from visir.products.generated import FORMAT as GENERATED
from visir.products.readers import abo, amazon, fashion, flipkart, table
from visir.registry import Registry

FORMATS: Registry[CatalogueFormat] = Registry("catalogue format")

for _one in (flipkart.FORMAT, fashion.FORMAT, amazon.FORMAT, abo.FORMAT, table.FORMAT, GENERATED):
    FORMATS.add(_one.name, _one)
