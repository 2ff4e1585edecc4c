"""Exports as the documents of shops' programs describe them: variants, sales with days, stock, through both doors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import visir
from refusals import refused
from visir.errors import CollectionError
from visir.products import open_catalogue

NEVER, ALWAYS = "2019-01-02", "2119-01-02"
WOO_VARIATIONS = f"""ID,Type,SKU,Name,Published,Date sale price starts,Date sale price ends,In stock?,Stock,Sale price,Regular price,Categories,Images,Parent,Attribute 1 name,Attribute 1 value(s)
12,variation,TEE-S,Tee - S,1,,,1,4,,20,,https://s.test/s.jpg,id:11,Size,S
11,variable,TEE,Tee,1,,,1,,,,Clothing > Tees,https://s.test/tee.jpg,,Size,"S, M\\, slim, L"
13,variation,TEE-M,Tee - M,1,{NEVER} 00:00:00,2019-02-01 23:59:59,0,0,15,21,,,TEE,Size,"M\\, slim"
14,simple,CAP,Cap,1,{NEVER},2019-02-01,backorder,,5,9,Clothing > Caps,,,,
15,simple,HAT,Hat,1,{NEVER},{ALWAYS},0,,5,9,Clothing > Hats,,,,
"""  # noqa: E501
WOO_SUITE = """post_title,post_content,post_status,sku,regular_price,sale_price,stock,stock_status,tax:product_cat,images
Killer Heels,Super high,publish,SH9,60.00,48.00,12,instock,Shoes > Heels|Sale,http://s.test/h1.jpg ! alt : Heels | http://s.test/h2.jpg ! alt : Side
Flats,,publish,SH8,40.00,,0,outofstock,Shoes > Flats,
"""  # noqa: E501
SHOPIFY_NEW = """Title,URL handle,Description,Vendor,Product category,Type,Tags,Published on online store,Status,SKU,Barcode,Option1 name,Option1 value,Option2 name,Option2 value,Price,Compare-at price,Inventory quantity,Product image URL,Image position,Variant image URL
Shirt,shirt,<p>Soft</p>,Acme,Apparel > Shirts,Shirts,"a, b",TRUE,active,SH-S-R,,Size,S,Colour,Red,19.00,25.00,3,https://c.test/1.jpg,1,https://c.test/red.jpg
,shirt,,,,,,,,SH-M-B,,,M,,Blue,21.00,,4,https://c.test/2.jpg,2,https://c.test/blue.jpg
Gift card,gift,,Acme,Gift cards,,,TRUE,active,GC,,Title,Default Title,,,10.00,,,,,
"""  # noqa: E501
SHOPIFY_TITLES = """Handle,Title,Vendor,Type,Option1 Name,Option1 Value,Variant SKU,Variant Inventory Qty,Variant Price,Image Src
band,Band tee,Acme,Tees,Size,Small,B-S,10,25.00,https://c.test/b.jpg
band,Band tee,Acme,Tees,Size,Medium,B-M,15,25.00,https://c.test/b.jpg
band,Band tee,Acme,Tees,Size,Large,B-L,0,27.00,https://c.test/b2.jpg
"""  # noqa: E501
GOOGLE_GROUPS = f"""id\ttitle\tlink\timage_link\tadditional_image_link\tavailability\tprice\tsale_price\tsale_price_effective_date\tbrand\tproduct_type\titem_group_id\tcolor\tsize
T-R\tTee red\thttps://s.test/1\thttps://s.test/r.jpg\thttps://s.test/r2.jpg,https://s.test/r3.jpg\tout_of_stock\t20.00 USD\t15.00 USD\t{NEVER}T13:00-0800/2019-02-02T15:30-0800\tAcme\tHome > Tees\tT\tred\tM
T-B\tTee blue\thttps://s.test/2\thttps://s.test/b.jpg\t\tin_stock\t22.00 USD\t\t\tAcme\tHome > Tees\tT\tblue\tM
P1\tPan\thttps://s.test/3\thttps://s.test/p.jpg\t\tpreorder\t30.00 USD\t24.00 USD\t{NEVER}T13:00-0800/{ALWAYS}T15:30-0800\tAcme\tHome > Pans\t\t\t
"""  # noqa: E501
GOOGLE_BLANKS = """id,title,image link,availability,price,sale price,item group id,google product category,product type
1,Chair,https://s.test/1.jpg,in stock,40 EUR,0 EUR,,436,Furniture > Chairs
2,Sofa,https://s.test/2.jpg,sold for now,400 EUR,,,436,Furniture > Sofas
"""
MAGENTO = f"""sku,product_type,categories,name,price,special_price,special_price_from_date,special_price_to_date,additional_attributes,qty,is_in_stock,base_image,configurable_variations
H-S,simple,,Hoodie-S,52.000000,,,,"color=Black,size=S",10.0000,1,/h/s.jpg,
H-M,simple,,Hoodie-M,54.000000,,,,"color=Black,size=M",0.0000,0,/h/m.jpg,
H,configurable,"Default Category/Men,Default Category/Men/Tops",Hoodie,,,,,"climate=Cold|Windy,pattern=Solid",,1,/h/h.jpg,"sku=H-S,color=Black,size=S|sku=H-M,color=Black,size=M"
B,simple,Default Category/Gear,Bag,34.000000,20.000000,{NEVER},{ALWAYS},,5.0000,1,,
C,simple,Default Category/Gear,Case,34.000000,20.000000,1/1/19,2019-02-01,,0.0000,0,,
"""  # noqa: E501
PRESTA = f"""Product ID;Active (0/1);Name*;Categories (x,y,z...);Price tax excluded;Discount amount;Discount percent;Discount from (yyyy-mm-dd);Discount to (yyyy-mm-dd);Manufacturer;Quantity;Unit price;Image URLs (x,y,z...);Feature(Name:Value:Position)
1;1;Tea;Home/Tea;10,00;;20;{NEVER};{ALWAYS};Acme;7;95,50;https://p.test/1.jpg,https://p.test/2.jpg;Weight:100 g:1, Taste:sweet, mild:2
2;1;Cup;Home/Cups;8,00;3;;{NEVER};2019-02-01;Acme;0;;;
3;1;Pot;Home/Pots;18,00;3;;0000-00-00;0000-00-00;Acme;2;;;
"""  # noqa: E501
PRESTA_COMBINATIONS = """Product ID*;Name*;Categories (x,y,z...);Price tax included;Attribute (Name:Type:Position)*;Value (Value:Position)*;Reference;Impact on price;Quantity;Image URLs (x,y,z...)
1;Player;Home/Audio;50,00;;;PL;;;https://p.test/a.jpg
1;;;;Color:color:0, Disk space:select:1;Blue:0, 16GB:1;PL-B;;3;https://p.test/b.jpg
1;;;;Color:color:0, Disk space:select:1;Red:0, 32GB:1;PL-R;12,50;4;
2;Case;Home/Audio;9,90;;;CA;;5;
"""  # noqa: E501
AMAZON_FLAT = f"""feed_product_type,item_sku,brand_name,item_name,standard_price,sale_price,sale_from_date,sale_end_date,quantity,main_image_url,other_image_url1,parent_child,parent_sku,relationship_type,variation_theme,color_name,size_name
shirt,SH-B-S,Acme,Shirt black S,19.99,14.99,{NEVER},2019-03-01,5,https://a.test/b.jpg,https://a.test/b2.jpg,child,SH,variation,SizeColor,Black,S
shirt,SH,Acme,Shirt,,,,,,https://a.test/main.jpg,,parent,,,SizeColor,,
shirt,SH-W-L,Acme,Shirt white L,21.99,,,,6,https://a.test/w.jpg,,child,SH,variation,SizeColor,White,L
mug,MUG,Acme,Mug,7.50,,,,0,https://a.test/mug.jpg,,,,,,,
"""  # noqa: E501
FACEBOOK = """id,title,description,availability,condition,price,link,image_link,brand,quantity_to_sell_on_facebook,item_group_id,product_type,size
b1,Boot 40,Warm,in stock,new,99.00 EUR,https://f.test,https://f.test/1.jpg,Acme,2,boot,Shoes > Boots,40
b2,Boot 41,Warm,available for order,new,99.00 EUR,https://f.test,https://f.test/2.jpg,Acme,1,boot,Shoes > Boots,41
c1,Clog,Light,discontinued,new,19.00 EUR,https://f.test,https://f.test/3.jpg,Acme,0,,Shoes > Clogs,
"""  # noqa: E501
SCHEMA = "".join(
    json.dumps(row) + "\n"
    for row in (
        {"sku": "7", "name": "Lamp", "category": ["Home", "Lamps"], "price": "12.50", "priceCurrency": "EUR",
         "availability": "https://schema.org/InStock", "image": ["https://x.test/l.jpg", "https://x.test/l2.jpg"]},
        {"sku": "8", "name": "Rug", "category": ["Home", "Rugs"], "price": "80.00", "priceCurrency": "EUR",
         "availability": "http://schema.org/SoldOut", "image": []},
    )
)  # fmt: skip
ETSY = """TITLE,DESCRIPTION,PRICE,CURRENCY_CODE,QUANTITY,TAGS,MATERIALS,IMAGE1,IMAGE2,VARIATION 1 TYPE,VARIATION 1 NAME,VARIATION 1 VALUES,SKU,CATEGORY
Bowl,By hand,35.00,GBP,3,"wood,bowl",oak,https://e.test/1.jpg,https://e.test/2.jpg,Colour,Wood,"Oak,Ash",BOWL,Home > Bowls
Spoon,By hand,12.00,GBP,9,wood,oak,https://e.test/3.jpg,,,,,SPOON,Home > Spoons
"""  # noqa: E501
BIGCOMMERCE = """Item Type,Product ID,Product Name,Product Code/SKU,Brand Name,Price,Sale Price,Current Stock Level,Category,Product Image File - 1,Product Image File - 2
Product,77,Watering can,WC,Acme,25.00,0.00,12,Shop All/Garden;Shop All/Utility,can.jpg,can2.jpg
Product,78,Rake,RK,Acme,15.00,11.00,0,Shop All/Garden,rake.jpg,
"""  # noqa: E501
WIX = """handleId,fieldType,name,description,productImageUrl,collection,sku,price,visible,discountMode,discountValue,inventory,productOptionName1,productOptionType1,productOptionDescription1
p_1,Product,Scarf,Soft,a.jpg;b.jpg,Winter;Wool,SC,30,true,PERCENT,10,InStock,Colour,COLOR,Red;Blue
p_1,Variant,,,,,SC-R,30,true,,,4,,,Red
p_1,Variant,,,,,SC-B,32,true,,,0,,,Blue
p_2,Product,Glove,Warm,,Winter,GL,12,true,,,OutOfStock,,,
"""  # noqa: E501

# The file; by product what a library has (None: no such field); by product its variants.
EXPECTED: dict[str, tuple[str, str, dict[str, dict[str, Any]], dict[str, list[dict[str, Any]]]]] = {
    "WooCommerce with variations": ("shop.csv", WOO_VARIATIONS, {
        "11": {"title": "Tee", "category": ["Clothing/Tees"], "pictures": ["tee.jpg", "s.jpg"], "price": 20.0,
               "availability": "in stock", "stock": 4, "Size": ["S", "M, slim", "L"]},
        "14": {"title": "Cap", "price": 9.0, "availability": "backorder", "stock": None},
        "15": {"title": "Hat", "price": 5.0, "availability": "out of stock"},
    }, {"11": [
        {"id": "12", "options": {"Size": "S"}, "price": 20.0, "availability": "in stock", "picture": "s.jpg"},
        {"id": "13", "options": {"Size": "M, slim"}, "price": 21.0, "availability": "out of stock", "picture": None},
    ]}),
    "WooCommerce's import suite": ("shop.csv", WOO_SUITE, {
        "SH9": {"title": "Killer Heels", "price": 48.0, "stock": 12, "availability": "in stock",
                "category": ["Shoes/Heels", "Sale"], "pictures": ["h1.jpg", "h2.jpg"], "description": "Super high"},
        "SH8": {"title": "Flats", "price": 40.0, "stock": 0, "availability": "out of stock"},
    }, {}),
    "Shopify's template of 2024": ("shop.csv", SHOPIFY_NEW, {
        "shirt": {"title": "Shirt", "price": 19.0, "brand": "Acme", "stock": 7, "Size": ["S", "M"],
                  "Colour": ["Red", "Blue"], "category": ["Apparel/Shirts"], "description": "<p>Soft</p>",
                  "pictures": ["1.jpg", "red.jpg", "2.jpg", "blue.jpg"]},
        "gift": {"title": "Gift card", "price": 10.0, "stock": None, "Size": None},
    }, {"shirt": [
        {"id": "SH-S-R", "options": {"Size": "S", "Colour": "Red"}, "price": 19.0, "picture": "1.jpg"},
        {"id": "SH-M-B", "options": {"Size": "M", "Colour": "Blue"}, "price": 21.0, "picture": "2.jpg"},
    ]}),
    "Shopify with the title in every row": ("shop.csv", SHOPIFY_TITLES, {
        "band": {"title": "Band tee", "price": 25.0, "stock": 25, "Size": ["Small", "Medium", "Large"],
                 "pictures": ["b.jpg", "b2.jpg"], "category": ["Tees"]},
    }, {"band": [{"id": "B-S", "price": 25.0}, {"id": "B-M", "price": 25.0}, {"id": "B-L", "price": 27.0}]}),
    "Google Merchant with groups": ("shop.tsv", GOOGLE_GROUPS, {
        "T": {"title": "Tee red", "price": 20.0, "currency": "USD", "availability": "in stock",
              "color": ["red", "blue"], "size": "M", "pictures": ["r.jpg", "r2.jpg", "r3.jpg", "b.jpg"]},
        "P1": {"title": "Pan", "price": 24.0, "availability": "preorder", "regular price": 30.0, "color": None},
    }, {"T": [
        {"id": "T-R", "options": {"color": "red", "size": "M"}, "price": 20.0, "currency": "USD",
         "availability": "out of stock", "picture": "r.jpg"},
        {"id": "T-B", "options": {"color": "blue", "size": "M"}, "price": 22.0, "availability": "in stock"},
    ]}),
    "Google Merchant with blanks": ("shop.csv", GOOGLE_BLANKS, {
        "1": {"title": "Chair", "price": 40.0, "availability": "in stock", "category": ["Furniture/Chairs"]},
        "2": {"title": "Sofa", "price": 400.0, "availability": None},
    }, {}),
    "Magento with a configurable product": ("shop.csv", MAGENTO, {
        "H": {"title": "Hoodie", "price": 52.0, "availability": "in stock", "stock": 10, "size": ["S", "M"],
              "climate": ["Cold", "Windy"], "pictures": ["/h/h.jpg", "/h/s.jpg", "/h/m.jpg"],
              "category": ["Default Category/Men", "Default Category/Men/Tops"]},
        "B": {"title": "Bag", "price": 20.0, "stock": 5},
        "C": {"title": "Case", "price": 34.0, "availability": "out of stock"},
    }, {"H": [
        {"id": "H-S", "options": {"color": "Black", "size": "S"}, "price": 52.0, "availability": "in stock"},
        {"id": "H-M", "options": {"color": "Black", "size": "M"}, "price": 54.0, "availability": "out of stock"},
    ]}),
    "PrestaShop with discounts": ("shop.csv", PRESTA, {
        "1": {"title": "Tea", "price": 8.0, "stock": 7, "brand": "Acme", "Taste": "sweet, mild", "Weight": "100 g",
              "pictures": ["1.jpg", "2.jpg"], "category": ["Home/Tea"]},
        "2": {"title": "Cup", "price": 8.0, "stock": 0},
        "3": {"title": "Pot", "price": 15.0},
    }, {}),
    "PrestaShop with combinations": ("shop.csv", PRESTA_COMBINATIONS, {
        "1": {"title": "Player", "price": 50.0, "stock": 7, "Color": ["Blue", "Red"],
              "Disk space": ["16GB", "32GB"], "pictures": ["a.jpg", "b.jpg"]},
        "2": {"title": "Case", "price": 9.9, "stock": 5},
    }, {"1": [
        {"id": "PL-B", "options": {"Color": "Blue", "Disk space": "16GB"}, "price": 50.0, "picture": "b.jpg"},
        {"id": "PL-R", "options": {"Color": "Red", "Disk space": "32GB"}, "price": 62.5},
    ]}),
    "Amazon's inventory file": ("shop.csv", AMAZON_FLAT, {
        "SH": {"title": "Shirt", "price": 19.99, "stock": 11, "brand": "Acme", "color_name": ["Black", "White"],
               "category": ["shirt"], "pictures": ["main.jpg", "b.jpg", "b2.jpg", "w.jpg"]},
        "MUG": {"title": "Mug", "price": 7.5, "stock": 0},
    }, {"SH": [
        {"id": "SH-B-S", "options": {"color_name": "Black", "size_name": "S"}, "price": 19.99, "picture": "b.jpg"},
        {"id": "SH-W-L", "options": {"color_name": "White", "size_name": "L"}, "price": 21.99},
    ]}),
    "Facebook's catalogue": ("shop.csv", FACEBOOK, {
        "boot": {"title": "Boot 40", "price": 99.0, "availability": "in stock", "stock": 3, "size": ["40", "41"]},
        "c1": {"title": "Clog", "availability": "discontinued", "stock": 0},
    }, {"boot": [{"id": "b1", "availability": "in stock"}, {"id": "b2", "availability": "backorder"}]}),
    "the words of schema.org": ("shop.jsonl", SCHEMA, {
        "7": {"title": "Lamp", "price": 12.5, "currency": "EUR", "availability": "in stock",
              "pictures": ["l.jpg", "l2.jpg"], "category": ["Home/Lamps"]},
        "8": {"title": "Rug", "availability": "out of stock", "currency": "EUR"},
    }, {}),
    "Etsy's listings": ("shop.csv", ETSY, {
        "BOWL": {"title": "Bowl", "price": 35.0, "currency": "GBP", "stock": 3, "Wood": ["Oak", "Ash"],
                 "pictures": ["1.jpg", "2.jpg"], "category": ["Home/Bowls"]},
        "SPOON": {"title": "Spoon", "stock": 9, "Wood": None},
    }, {}),
    "BigCommerce": ("shop.csv", BIGCOMMERCE, {
        "77": {"title": "Watering can", "price": 25.0, "stock": 12, "pictures": ["can.jpg", "can2.jpg"],
               "category": ["Shop All/Garden", "Shop All/Utility"], "brand": "Acme"},
        "78": {"title": "Rake", "price": 11.0, "stock": 0},
    }, {}),
    "Wix": ("shop.csv", WIX, {
        "p_1": {"title": "Scarf", "price": 27.0, "availability": "in stock", "Colour": ["Red", "Blue"],
                "pictures": ["a.jpg", "b.jpg"], "category": ["Winter", "Wool"]},
        "p_2": {"title": "Glove", "price": 12.0, "availability": "out of stock"},
    }, {"p_1": [
        {"id": "SC-R", "options": {"Colour": "Red"}, "price": 27.0},
        {"id": "SC-B", "options": {"Colour": "Blue"}, "price": 28.8},
    ]}),
}  # fmt: skip


def products_of(source: str) -> dict[str, dict[str, Any]]:
    """What a library has of each product."""
    collection = visir.open(source, images="none")
    titles = dict(zip(*(collection.captions[name].to_pylist() for name in ("image_id", "text")), strict=True))
    assert collection.facts is not None
    rows = [row for row in collection.facts.to_pylist() if row["image_id"] == row["product"]]
    return {row["product"]: row | {"title": titles.get(row["product"])} for row in rows}


def test_the_days_of_sales_are_those_of_the_day_that_is_asked_for(tmp_path: Path) -> None:
    text = "id,title,category,price,sale_price,sale_price_effective_date\n"
    text += "1,a,A > B,20 EUR,15 EUR,2024-03-01/2024-03-10\n2,b,A > B,20 EUR,15 EUR,03/04/24 - 5\n"
    (tmp_path / "shop.csv").write_text(text)
    for day, price in (("2024-02-29", 20.0), ("2024-03-01", 15.0), ("2024-03-10", 15.0), ("2024-03-11", 20.0)):
        source = f"products:{tmp_path / 'shop.csv'}?prices_on={day}"
        assert [row["price"] for row in products_of(source).values()] == [price, 15.0]
        prices = open_catalogue(source, images="none").prices
        assert prices == {"1": f"{price:g} EUR", "2": "15 EUR"}
    said = visir.open(source, images="none").source
    assert "prices of sales of days that are not now (the next price counts): 1 (line 2: 15)" in said
    assert "days of sales that cannot be read (the price of the sale counts): 1 (line 3: '03/04/24 - 5')" in said
    assert "prices by column: 'sale_price' 1, 'price' 1, products without a price 0" in said
    with refused(CollectionError, "prices_on", code="no-day"):
        open_catalogue(f"products:{tmp_path / 'shop.csv'}", prices_on="soon")


def test_what_does_not_say_whether_there_is_any_is_counted(tmp_path: Path) -> None:
    (tmp_path / "shop.csv").write_text(GOOGLE_BLANKS)
    said = visir.open(str(tmp_path / "shop.csv"), images="none").source
    assert "cells of availability that do not say whether there is any: 1 (line 3: 'sold for now')" in said


def test_other_layouts_become_libraries_by_the_same_reader(tmp_path: Path) -> None:
    """Amazon's metadata and Berkeley's objects are collections of products, too, where somebody names the format."""
    meta = {"asin": "B1", "title": "Pen", "price": "$3.50", "categories": [["Office", "Pens"], ["Gifts"]],
            "brand": "Bic", "imUrl": "http://m.test/p.png", "details": {"Colour": "blue"}}  # fmt: skip
    (tmp_path / "meta.jsonl").write_text(json.dumps(meta) + "\n")
    [pen] = products_of(f"amazon:{tmp_path / 'meta.jsonl'}?pictures=url").values()
    assert pen["category"] == ["Office/Pens", "Gifts"] and pen["pictures"] == ["p.png"]
    assert (pen["price"], pen["currency"], pen["brand"], pen["Colour"]) == (3.5, "USD", "Bic", "blue")
    catalogue = open_catalogue(f"amazon:{tmp_path / 'meta.jsonl'}?pictures=url", images="none")
    assert catalogue.products["category_id"].to_pylist() == ["Office > Pens"]
    assert catalogue.paths["path"].to_pylist() == [["Office", "Pens"], ["Gifts"]]
    (listings := tmp_path / "abo" / "listings" / "metadata").mkdir(parents=True)
    (pictures := tmp_path / "abo" / "images" / "metadata").mkdir(parents=True)
    listing = {"item_id": "B01", "domain_name": "amazon.com", "main_image_id": "51a", "other_image_id": ["81b"],
               "item_name": [{"language_tag": "en_US", "value": "Chair"}],
               "node": [{"node_name": "/Categories/Furniture/Chairs"}, {"node_name": "/Categories/Sale"}],
               "color": [{"language_tag": "en_US", "value": "Red"}]}  # fmt: skip
    (listings / "listings_0.json").write_text(json.dumps(listing) + "\n")
    (pictures / "images.csv").write_text("image_id,height,width,path\n51a,20,10,0e/1.jpg\n81b,20,10,0e/2.jpg\n")
    [chair] = products_of(f"abo-products:{tmp_path / 'abo'}").values()
    assert chair["title"] == "Chair" and chair["color"] == "Red"
    assert chair["category"] == ["Furniture/Chairs", "Sale"] and chair["pictures"] == [
        "small/0e/1.jpg",
        "small/0e/2.jpg",
    ]


@pytest.mark.parametrize("shop", EXPECTED)
def test_an_export_through_both_doors(tmp_path: Path, shop: str) -> None:
    name, text, products, variants = EXPECTED[shop]
    (tmp_path / name).write_text(text, encoding="utf-8")
    library = products_of(str(tmp_path / name))
    assert [*library] == [*products] or {*library} == {*products}
    for product, fields in products.items():
        assert {field: library[product].get(field) for field in fields} == fields
    catalogue = open_catalogue(f"products:{tmp_path / name}", images="none")
    fields_of = {row["product_id"]: row for row in catalogue.fields.to_pylist()}
    assert {*fields_of} == {product for product in products if library[product].get("category")}
    for product, own in fields_of.items():
        told = {field: own.get(field) for field in ("price", "currency", "availability", "stock")}
        assert told == {field: library[product].get(field) for field in told}
    found: dict[str, list[dict[str, Any]]] = {}
    for row in catalogue.variants.to_pylist():
        found.setdefault(row["product_id"], []).append(row | {"options": dict(row["options"])})
    assert {*found} == {*variants}
    for product, expected in variants.items():
        shown = [{field: row[field] for field in wanted} for row, wanted in zip(found[product], expected, strict=True)]
        assert shown == expected
    names = [row["name"] for row in catalogue.images.to_pylist()]
    assert names == [picture for product in fields_of for picture in library[product].get("pictures") or ()]
    assert catalogue.paths["path"].to_pylist() == [
        path.split("/") for product in fields_of for path in library[product]["category"]
    ]
