"""The product side of search: catalogues and their category trees (thesis chapter 7).

This room comes after `collections/` on the road and before `encoders/`: a catalogue knows nothing of models.
Names are imported when first used.
"""
