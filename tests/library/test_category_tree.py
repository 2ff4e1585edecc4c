"""Categories as a tree."""

from visir.library.facets import Category, tree_of


def test_a_tree_counts_each_picture_once_per_category() -> None:
    pairs = [("holidays/2024", "a"), ("holidays/2024", "b"), ("holidays/2023/sea", "a"), ("holidays", "c"), ("", "d")]
    pairs += [("cats", "c"), ("holidays-old", "d")]
    assert tree_of(pairs) == (
        Category("cats", "cats", 1),
        Category(
            "holidays",
            "holidays",
            3,  # a, b and c; a lies in two places below it
            (
                Category("2023", "holidays/2023", 1, (Category("sea", "holidays/2023/sea", 1),)),
                Category("2024", "holidays/2024", 2),
            ),
        ),
        Category("holidays-old", "holidays-old", 1),
    )
    assert tree_of([]) == ()
