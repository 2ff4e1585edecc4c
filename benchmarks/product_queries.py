"""Free-text queries made from the attributes of three real catalogues, with judgements by attribute match.

A query is drawn from a product: its type (a category) and one or two further facets (colour, material, for whom, …), in
words: "blue cotton bedsheets", "black casual shoes for men". A product is relevant if it has the type and every facet
that the query names; values are compared in lower case, and lists ("Men, Women") count as several. Queries with 1 to 10
relevant products are used, each text once.

| catalogue | type | facets |
|---|---|---|
| flipkart | third level of the path, or last | Color, Material, Fabric, Pattern, Ideal For, two of watches |
| fashion | last level of the path | baseColour, usage, season, gender |
| amazon | last level of the path | words for a colour or a material (lists below) in the title or in "About Product" |

The Amazon sample has no attributes of its own, so its facets are words of its texts: a search by words has an advantage
there, and to a smaller degree everywhere, because the attributes that make a product relevant are also searched. The
benchmark therefore has rows without the attributes too.

Each query has four forms: as drawn; *misspelt* (one letter of one word of five letters or more is dropped, doubled,
replaced or exchanged with the next); *inflected* (the noun at the end between singular and plural, "printed" to
"printing", by lemminflect); and with a *synonym* (a word of `SYNONYMS` is replaced; queries without such a word have no
such form). Everything is drawn from a seed.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from visir.products import open_catalogue
from visir.records import Catalogue, Qrels

FORMS = ("as drawn", "misspelt", "inflected", "synonym")
PLACES = {
    "flipkart": "products_flipkart_1050/products.jsonl.xz",
    "fashion": "products_fashion_1601/products.jsonl.xz",
    "amazon": "products_amazon_1000/amazon_sample_1000.csv.xz",
}
AMAZON = {"format": "products", "id_column": "Uniq Id", "title_column": "Product Name", "category_column": "Category",
          "separator": "|", "attribute_columns": "About Product"}  # fmt: skip
FACETS = {
    "flipkart": ("color", "material", "fabric", "pattern", "ideal for", "dial color", "strap material"),
    "fashion": ("basecolour", "usage", "season", "gender"),
    "amazon": ("colour", "material"),
}
FOR = ("ideal for", "gender")
COLOURS = ("grey", "gold", "silver",
           "black", "white", "red", "blue", "green", "yellow", "pink", "purple", "orange", "brown")  # fmt: skip
MATERIALS = ("wood", "wooden", "plastic", "metal", "cotton", "polyester", "leather", "foam", "paper", "steel", "rubber",
             "vinyl", "plush", "fabric", "glass")  # fmt: skip
VAGUE = ("na", "no", "yes", "multicolor", "others", "unisex", "plain")
SYNONYMS = {
    "men": "gents", "women": "ladies", "girls": "lasses", "boys": "lads", "casual": "everyday", "tshirts": "tees",
    "handbags": "purses", "watches": "timepieces", "sunglasses": "shades", "curtains": "drapes", "cushion": "pillow",
    "blanket": "throw", "mugs": "cups", "grey": "ash", "black": "ebony", "red": "crimson", "showpieces": "figurines",
    "blue": "azure", "sandals": "slippers", "backpacks": "rucksacks", "trousers": "slacks", "puzzles": "brainteasers",
    "costumes": "outfits", "toys": "playthings", "wooden": "timber", "dolls": "figures", "towels": "washcloths",
    "laptop": "notebook", "bedsheets": "linens", "shoes": "footwear",
}  # fmt: skip


@dataclass(frozen=True)
class Queries:
    """The queries of one catalogue.

    Attributes:
        texts: (form, id) to the text.
        qrels: The judgements of all ids.
    """

    texts: dict[tuple[str, str], str]
    qrels: Qrels

    def of(self, form: str) -> dict[str, str]:
        """The texts of one form."""
        return {name: text for (own, name), text in self.texts.items() if own == form}

    def relevant(self, query: str) -> list[str]:
        """The relevant products of a query."""
        row = self.qrels.queries.to_pylist().index(query)
        documents: list[str] = self.qrels.documents[
            int(self.qrels.offsets[row]) : int(self.qrels.offsets[row + 1])
        ].to_pylist()
        return documents


def opened(name: str, data: Path) -> Catalogue:
    return open_catalogue(data / PLACES[name], images="none", **(AMAZON if name == "amazon" else {}))


def facets_of(name: str, catalogue: Catalogue) -> dict[str, dict[str, set[str]]]:
    """For each product the values of its type and facets."""
    facets: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    titles = dict(zip(*(catalogue.products[column].to_pylist() for column in ("id", "title")), strict=True))
    paths = dict(zip(*(catalogue.products[column].to_pylist() for column in ("id", "category_id")), strict=True))
    for product, path in paths.items():
        levels = path.split(" > ")
        facets[product]["type"].add(levels[min(2, len(levels) - 1) if name == "flipkart" else -1].lower().strip())
    for product, key, value in zip(
        *(catalogue.attributes[column].to_pylist() for column in ("product_id", "name", "value")), strict=True
    ):
        if name == "amazon":
            titles[product] = f"{titles[product]} {value}"
        elif key.lower() in FACETS[name]:
            values = {part.strip() for part in re.split(r",|/| and |&", value.lower())}
            facets[product][key.lower()] |= {part for part in values if 2 < len(part) < 20 and part not in VAGUE}
    if name == "amazon":
        for product, text in titles.items():
            words = set(re.findall(r"[a-z]+", (text or "").lower()))
            facets[product]["colour"] |= words & set(COLOURS)
            facets[product]["material"] |= words & set(MATERIALS)
    return facets


def make_queries(name: str, catalogue: Catalogue, *, seed: int = 0, most: int = 150) -> Queries:
    """Draw queries.

    Args:
        name: Of the catalogue.
        catalogue: What `opened` returned.
        seed: Of the draws.
        most: How many queries are drawn at most.
    """
    random_numbers = random.Random(f"{name} {seed}")
    facets = facets_of(name, catalogue)
    products = sorted(facets)
    texts: dict[tuple[str, str], str] = {}
    pairs: list[tuple[str, str]] = []
    seen: set[str] = set()
    for _ in range(20_000):
        if len(seen) == most:
            break
        product = random_numbers.choice(products)
        own = facets[product]
        usable = [key for key in FACETS[name] if own[key]]
        if not usable:
            continue
        keys = random_numbers.sample(usable, min(len(usable), random_numbers.choice((1, 2, 2))))
        wanted = {key: random_numbers.choice(sorted(own[key])) for key in [*keys, "type"]}
        relevant = [other for other in products if all(value in facets[other][key] for key, value in wanted.items())]
        text = " ".join(wanted[key] for key in wanted if key not in FOR)
        text += "".join(f" for {wanted[key]}" for key in wanted if key in FOR)
        if not 1 <= len(relevant) <= 10 or text in seen:
            continue
        query = f"{name}-{len(seen):03}"
        seen.add(text)
        pairs += [(query, other) for other in relevant]
        texts["as drawn", query] = text
        for form, changed in (
            ("misspelt", misspelt(text, random_numbers)),
            ("inflected", inflected(text)),
            ("synonym", with_synonym(text, random_numbers)),
        ):
            if changed != text:
                texts[form, query] = changed
    return Queries(texts, Qrels.of([query for query, _ in pairs], [document for _, document in pairs]))


def misspelt(text: str, random_numbers: random.Random) -> str:
    """One edit in one word; never of its first letter."""
    words = re.findall(r"[a-z]{5,}", text)
    if not words:
        return text
    word = random_numbers.choice(words)
    at = random_numbers.randrange(1, len(word) - 1)
    letter = random_numbers.choice([other for other in "abcdefghijklmnopqrstuvwxyz" if other != word[at]])
    edits = (
        word[:at] + word[at + 1 :],
        word[:at] + word[at] + word[at:],
        word[:at] + letter + word[at + 1 :],
        word[:at] + word[at + 1] + word[at] + word[at + 2 :],
    )
    return text.replace(word, random_numbers.choice([edit for edit in edits if edit != word]), 1)


def inflected(text: str) -> str:
    """The last word before "for" between singular and plural, and words in -ed to -ing."""
    from lemminflect import getInflection, getLemma

    def to_ing(match: re.Match[str]) -> str:
        lemma = (getLemma(match.group(), upos="VERB") or ("",))[0]
        return (getInflection(lemma, tag="VBG") or (match.group(),))[0] if lemma else match.group()

    phrase, has_for, rest = text.partition(" for ")
    start, _, word = phrase.rpartition(" ")
    lemma = (getLemma(word, upos="NOUN") or (word,))[0]
    other = lemma if lemma != word else (getInflection(word, tag="NNS") or (word,))[0]
    return re.sub(r"[a-z]{3,}ed\b", to_ing, f"{start} {other}".strip()) + has_for + rest


def with_synonym(text: str, random_numbers: random.Random) -> str:
    """One word replaced."""
    words = [word for word in re.findall(r"[a-z]+", text) if word in SYNONYMS]
    if not words:
        return text
    word = random_numbers.choice(words)
    return re.sub(rf"\b{word}\b", SYNONYMS[word], text, count=1)
