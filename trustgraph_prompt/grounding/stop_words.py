"""Words that say nothing about what a text speaks of."""

from __future__ import annotations

from typing import Final

_BY_LANGUAGE = {
    "en": "a an and are as at be been but by for from had has have he her his in into is it its not of on or "
    "our she so than that the their them then there these they this those to was we were what when where "
    "which who whom whose will with you your",
    "de": "am auf aus bei das dem den der des die ein eine einem einen einer eines fur im in ist mit "
    "nach oder sich sind und vom von waren wie zu zum zur",
    "fr": "au aux avec ce ces cette d dans de des du elle en est et il ils l la le les leur ou par pas pour "
    "que qui sa se ses sont sur un une",
    "es": "al como con de del e el en es la las lo los o para por que se su sus un una y",
    "it": "al alla che con da dal de dei del della delle di e gli i il in la le lo nel o per si sono un una",
    "pt": "a ao as com da das de do dos e em na nas no nos o os ou para por que se sua um uma",
    "nl": "aan dat de die een en het in is met naar of om op te van voor zijn",
}

STOP_WORDS: Final = frozenset(word for words in _BY_LANGUAGE.values() for word in words.split())
"""Articles, prepositions, pronouns, forms of "to be" in a few languages, without accents.

Not among them is what says something in English: the German "war", the French "son".
"""
