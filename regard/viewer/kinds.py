"""The kinds of tables that can be seen of a model: who looks at whom, what speaks for what, gates and states."""

from dataclasses import dataclass


@dataclass(frozen=True)
class MapKind:
    """Who looks at whom: a name for headings, a sentence for learners, and what the two sides are called."""

    title: str
    meaning: str
    queries: str
    keys: str
    has_heads: bool = True  # False: one map is all there is of this kind
    is_signed: bool = False  # numbers above and below 0, not shares of something
    in_numbers: bool = False  # the terminal prints numbers where they fit, not shades
    to_one: bool = False  # shaded up to 1, not to what is strongest: one picture can be compared with another
    has_units: bool = False  # the keys are units of a recurrent layer, of which no mean over layers makes sense
    head: str = "head"  # what a second number beside the layer's counts
    patches: tuple[str, ...] = ()  # which of "queries" and "keys" are patches of an image


KINDS = {
    "encoder": MapKind(
        "Encoder self-attention", "Every word of the source looks at every word of the source, before and after it.",
        "source", "source",
    ),
    "decoder": MapKind(
        "Decoder self-attention", "Every word of the target looks at itself and at the words before it, never ahead.",
        "target", "target",
    ),
    "cross": MapKind(
        "Cross-attention", "Every word of the target looks at the words of the source.",
        "target", "source",
    ),
    "steps": MapKind(
        "Attention over steps",
        "Every decision looks at steps of its episode, its own included: the sum over the rows of a step.",
        "decision", "step",
    ),
    "self": MapKind("Self-attention", "Every word looks at words of the same text.", "text", "text"),
    "rollout": MapKind(
        "Attention rollout",
        "How much of each word reaches each row through all layers: the product of (mean of heads + identity) / 2.",
        "text", "text", has_heads=False,
    ),
    "votes": MapKind(
        "Whose votes count",
        "After every word, the words before it vote together with it; the weight is what each vote counts for.",
        "text", "text", has_heads=False,
    ),
    "ballots": MapKind(
        "What they vote for",
        "After the last word: the next words that each earlier word, together with the last one, votes for.",
        "text", "next words", has_heads=False,
    ),
    "across": MapKind(
        "The future looks at the past", "Every step that is forecast looks at the steps of the past.", "future", "past",
    ),
    "past": MapKind("Steps of the past", "Every step of the past looks at every step of it.", "past", "past"),
    "future": MapKind(
        "Steps of the future", "Every step that is forecast looks at itself and those before it.", "future", "future",
    ),
    "patches": MapKind(
        "Patches of the past", "Every patch of a column, called by its first step, looks at every patch of it.",
        "past", "past",
    ),
    "columns": MapKind("Columns", "Every column looks at every column.", "columns", "columns"),
    "ngrams": MapKind(
        "N-grams of the text, and the labels they speak for",
        "What each n-gram adds to the score of each label, above or below the mean of all labels; their sum decides.",
        "text", "labels", has_heads=False, is_signed=True, in_numbers=True,
    ),
    "vocabulary": MapKind(
        "The n-grams that speak most for each label",
        "Of the whole model: what an n-gram adds to the score of each label, above or below the mean of all labels.",
        "n-grams", "labels", has_heads=False, is_signed=True, in_numbers=True,
    ),
    "query": MapKind(
        "Query stream",
        "What a word is predicted from: words of earlier turns (in brackets) in the order, and not the word itself.",
        "text", "text",
    ),
    "content": MapKind(
        "Content stream",
        "What a word that is known looks at: itself, and words of earlier turns (in brackets) in the order.",
        "text", "text",
    ),
    "gates": MapKind(
        "Gates of a recurrent layer",
        "How far each gate is open at each word, from 0 to 1: the mean over the layer's units.",
        "text", "gates", in_numbers=True, to_one=True, head="direction",
    ),
    "forget": MapKind(
        "Forget gate", "How much of its cell state each unit of an LSTM keeps at each word.",
        "text", "units", to_one=True, has_units=True, head="direction",
    ),
    "reset": MapKind(
        "Reset gate", "How much of the old state goes into the candidate of each unit of a GRU.",
        "text", "units", to_one=True, has_units=True, head="direction",
    ),
    "update": MapKind(
        "Update gate",
        "Of an LSTM: how much of the candidate each unit takes in. Of a GRU: how much of the old it keeps.",
        "text", "units", to_one=True, has_units=True, head="direction",
    ),
    "output": MapKind(
        "Output gate", "How much of its cell state each unit of an LSTM shows.",
        "text", "units", to_one=True, has_units=True, head="direction",
    ),
    "candidate": MapKind(
        "Candidate", "What each unit would remember of each word, from -1 to 1.",
        "text", "units", is_signed=True, to_one=True, has_units=True, head="direction",
    ),
    "cell": MapKind(
        "Cell state", "What each unit of an LSTM remembers after each word.",
        "text", "units", is_signed=True, has_units=True, head="direction",
    ),
    "hidden": MapKind(
        "Hidden state", "What each unit gives to the next layer and to the next step.",
        "text", "units", is_signed=True, to_one=True, has_units=True, head="direction",
    ),
}  # fmt: skip

BOTH = ("queries", "keys")
OF_IMAGES = {  # where what is read is an image
    **KINDS,
    "encoder": MapKind(
        "Encoder self-attention", "Every patch of the image looks at every patch.", "image", "image", patches=BOTH
    ),
    "cross": MapKind(
        "Cross-attention", "Every word looks at the patches of the image.", "caption", "image", patches=("keys",)
    ),
    "self": MapKind(
        "Self-attention", "Every patch of the image looks at every patch.", "image", "image", patches=BOTH
    ),
    "rollout": MapKind(
        "Attention rollout",
        "How much of each patch reaches each row through all layers: the product of (mean of heads + identity) / 2.",
        "image", "image", has_heads=False, patches=BOTH,
    ),
}  # fmt: skip
