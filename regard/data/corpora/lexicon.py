"""The words of the demo corpus, English → French, and how they are inflected.

The tables hold base forms; number and gender are made by rule, with the few exceptions spelled out.
"""

from typing import NamedTuple


class Noun(NamedTuple):
    french: str
    gender: str  # "m" or "f"


class Verb(NamedTuple):
    past: str
    participle: str  # of the French passé composé with avoir, so it agrees with nothing


class Scene(NamedTuple):
    """What can be done to what, and the adjectives that fit only what it is done to."""

    verbs: dict[str, Verb]
    objects: dict[str, Noun]
    adjectives: dict[str, str]


SUBJECTS = {
    "animal": Noun("animal", "m"),
    "bear": Noun("ours", "m"),
    "dog": Noun("chien", "m"),
    "donkey": Noun("âne", "m"),
    "elephant": Noun("éléphant", "m"),
    "fox": Noun("renard", "m"),
    "horse": Noun("cheval", "m"),
    "pig": Noun("cochon", "m"),
    "rabbit": Noun("lapin", "m"),
    "wolf": Noun("loup", "m"),
    "ant": Noun("fourmi", "f"),
    "bee": Noun("abeille", "f"),
    "cow": Noun("vache", "f"),
    "frog": Noun("grenouille", "f"),
    "giraffe": Noun("girafe", "f"),
    "goat": Noun("chèvre", "f"),
    "hen": Noun("poule", "f"),
    "mouse": Noun("souris", "f"),
    "owl": Noun("chouette", "f"),
    "turtle": Noun("tortue", "f"),
}

FITS_SUBJECT = {
    "frightened": "effrayé",
    "hungry": "affamé",
    "ill": "malade",
    "lazy": "paresseux",
    "nervous": "nerveux",
    "shy": "timide",
    "sleepy": "somnolent",
    "tired": "fatigué",
    "worried": "inquiet",
    "young": "jeune",
}

SCENES = (
    Scene(
        {"cross": Verb("crossed", "traversé"), "follow": Verb("followed", "suivi")},
        {
            "boulevard": Noun("boulevard", "m"),
            "corridor": Noun("couloir", "m"),
            "path": Noun("sentier", "m"),
            "tunnel": Noun("tunnel", "m"),
            "alley": Noun("ruelle", "f"),
            "avenue": Noun("avenue", "f"),
            "road": Noun("route", "f"),
            "street": Noun("rue", "f"),
        },
        {"long": "long", "narrow": "étroit", "slippery": "glissant", "wide": "large", "winding": "sinueux"},
    ),
    Scene(
        {"climb": Verb("climbed", "escaladé"), "reach": Verb("reached", "atteint")},
        {
            "rock": Noun("rocher", "m"),
            "roof": Noun("toit", "m"),
            "volcano": Noun("volcan", "m"),
            "wall": Noun("mur", "m"),
            "cliff": Noun("falaise", "f"),
            "dune": Noun("dune", "f"),
            "hill": Noun("colline", "f"),
            "mountain": Noun("montagne", "f"),
        },
        {"crumbly": "friable", "high": "haut", "slippery": "glissant", "steep": "raide"},
    ),
    Scene(
        {
            "eat": Verb("ate", "mangé"),
            "swallow": Verb("swallowed", "avalé"),
            "taste": Verb("tasted", "goûté"),
        },
        {
            "cake": Noun("gâteau", "m"),
            "lemon": Noun("citron", "m"),
            "melon": Noun("melon", "m"),
            "mushroom": Noun("champignon", "m"),
            "onion": Noun("oignon", "m"),
            "apple": Noun("pomme", "f"),
            "carrot": Noun("carotte", "f"),
            "cherry": Noun("cerise", "f"),
            "orange": Noun("orange", "f"),
            "pear": Noun("poire", "f"),
        },
        {"bitter": "amer", "bland": "fade", "mouldy": "moisi", "sour": "acide", "sugary": "sucré"},
    ),
    Scene(
        {"lift": Verb("lifted", "soulevé"), "pull": Verb("pulled", "tiré"), "push": Verb("pushed", "poussé")},
        {
            "bag": Noun("sac", "m"),
            "barrel": Noun("tonneau", "m"),
            "basket": Noun("panier", "m"),
            "cart": Noun("chariot", "m"),
            "box": Noun("boîte", "f"),
            "crate": Noun("caisse", "f"),
            "suitcase": Noun("valise", "f"),
            "wheelbarrow": Noun("brouette", "f"),
        },
        {"bulky": "encombrant", "full": "plein", "heavy": "lourd", "sticky": "collant"},
    ),
    Scene(
        {"close": Verb("closed", "fermé"), "open": Verb("opened", "ouvert")},
        {
            "cupboard": Noun("placard", "m"),
            "drawer": Noun("tiroir", "m"),
            "gate": Noun("portail", "m"),
            "shutter": Noun("volet", "m"),
            "cage": Noun("cage", "f"),
            "door": Noun("porte", "f"),
            "trapdoor": Noun("trappe", "f"),
            "window": Noun("fenêtre", "f"),
        },
        {"creaky": "grinçant", "heavy": "lourd", "rusty": "rouillé", "warped": "déformé"},
    ),
)

SCENE_OF = {verb: scene for scene in SCENES for verb in scene.verbs}

ENGLISH_PLURALS = {"mouse": "mice", "volcano": "volcanoes", "wolf": "wolves"}
FRENCH_FEMININES = {"amer": "amère", "inquiet": "inquiète", "long": "longue"}
VOWELS = "aâeéèêiîoôœuûy"


def english_plural(noun: str) -> str:
    """streets, boxes, cherries, mice"""
    if noun in ENGLISH_PLURALS:
        return ENGLISH_PLURALS[noun]
    if noun.endswith(("s", "x", "ch", "sh")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeou":
        return noun[:-1] + "ies"
    return noun + "s"


def french_plural(word: str) -> str:
    """rues, souris, gâteaux, animaux"""
    if word.endswith(("s", "x")):
        return word
    if word.endswith("eau"):
        return word + "x"
    if word.endswith("al"):
        return word[:-2] + "aux"
    return word + "s"


def feminine(adjective: str) -> str:
    """fatiguée, large, nerveuse, longue"""
    if adjective in FRENCH_FEMININES:
        return FRENCH_FEMININES[adjective]
    if adjective.endswith("e"):
        return adjective
    if adjective.endswith("eux"):
        return adjective[:-1] + "se"
    return adjective + "e"


def agree(adjective: str, gender: str, plural: bool) -> str:
    """fatigué, fatiguée, fatigués, fatiguées"""
    form = feminine(adjective) if gender == "f" else adjective
    return french_plural(form) if plural else form


def with_article(noun: Noun, plural: bool) -> str:
    """le chien, la rue, l'animal, les rues"""
    if plural:
        return f"les {french_plural(noun.french)}"
    if noun.french[0] in VOWELS:
        return f"l'{noun.french}"
    return f"{'la' if noun.gender == 'f' else 'le'} {noun.french}"


def french_pronoun(gender: str, plural: bool) -> str:
    """il, elle, ils, elles"""
    return ("elle" if gender == "f" else "il") + ("s" if plural else "")
