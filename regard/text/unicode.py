"""Strings that Python allows and UTF-8 does not, and characters that a table cannot show."""

UTF16 = "utf-16-le"


def well_formed(text: str) -> str:
    r"""The text with a UTF-8 form: two halves of a surrogate pair become the character they mean,
    a lone half (such as "\ud800", which stands for nothing) becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(UTF16, "surrogatepass").decode(UTF16, "replace")
    return text


def all_well_formed(texts: list[str]) -> list[str]:
    """The same for many, which most often all are: one look at them together takes next to no time."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return [well_formed(text) for text in texts]
    return texts


def lone_surrogates(text: str) -> list[str]:
    r"""What `well_formed` had to give up, written as escapes: "a\ud800" → ["\\ud800"]."""
    joined = text.encode(UTF16, "surrogatepass").decode(UTF16, "surrogatepass")
    return [f"\\u{ord(character):04x}" for character in joined if "\ud800" <= character <= "\udfff"]


def visible(text: str) -> str:
    """Text for one cell of a table: spaces as ␣, line ends and other control characters as escapes."""
    return "".join(
        "␣" if character == " " else character if character.isprintable() else ascii(character)[1:-1]
        for character in text
    )
