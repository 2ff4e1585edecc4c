"""The rows of the printed tables, and the words of logs for them: which device is a "PC", which channel "Paid".

Only words that mean what the thesis says are put into a row of its tables. Other words (a referral, an affiliate, a
group that a sample was anonymised with) keep their own name and have no printed value beside them.
"""

from __future__ import annotations

DEVICES = {
    "Smartphone": ("smartphone", "mobile", "phone"),
    "PC": ("pc", "desktop", "laptop", "computer"),
    "Tablet": ("tablet",),
    "Game Console": ("game console", "console"),
    "TV": ("tv", "smart tv", "connected tv"),
}
"""Row of Tables 6.4 to 6.6 → words. Google Analytics and the hotel log do not count tablets as "mobile"."""
CHANNELS = {
    "Direct": ("direct", "(direct)", "(none)"),
    "Paid": ("paid", "paid search", "cpc", "ppc"),
    "Organic": ("organic", "organic search"),
    "Other": ("other", "(other)"),
}
"""Row of Table 6.2 → words; paid and organic are of search engines (section 6.4.3), "(none)" is Google's direct."""
TOTALS = {
    "Anonymous": ("anonymous sessions",),
    "Logged-in or recognized": ("identified sessions",),
    "Logged-in or recognized customers": ("identified customers",),
}
OTHERS = {"Avg": ("all devices",)}
_ROWS = {
    word: row
    for rows in (DEVICES, CHANNELS, TOTALS, OTHERS)
    for row, words in rows.items()
    for word in (row.lower(), *words)
}


def table_label(word: str) -> str:
    """The row of the printed tables that a word of a log belongs to; the word itself where there is none."""
    return _ROWS.get(word.lower(), word)
