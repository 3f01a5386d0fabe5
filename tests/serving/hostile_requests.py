"""Bodies and names that somebody sends who means no good."""

TRAVERSED = (
    "..",
    "../..",
    "..\\..",
    "%2e%2e",
    "%252e%252e",
    "....//",
    "/etc/passwd",
    "\\\\host\\share",
    "file:///etc",
    "~",
)
ENDINGS = (
    "",
    "/",
    "/recipe.toml",
    "/model.safetensors",
    "%00",
    "\x00",
    "/.",
    ";",
    "?",
    "#",
    " ",
    "\u202e",
    ".pkl",
    "/*",
    "\u2025",
)
DEPTHS = (1, 2, 4, 8)
TRAVERSALS = [
    f"{'../' * depth if i % 2 else ''}{name}{ending}"
    for depth in DEPTHS
    for i, name in enumerate(TRAVERSED)
    for ending in ENDINGS
][:500]


def every_field(value: str) -> bytes:
    """This value in all the fields that routes have."""
    names = ("asked", "temperature", "lines", "input", "q", "prompt", "messages", "seed")
    return ("{" + ", ".join(f'"{name}": {value}' for name in names) + "}").encode()


SURROGATES = (
    r'{"model": "language", "lines": ["\ud800 a"], "prompt": "\udfff", "input": "\ud83d \ud83d", '
    r'"messages": [{"role": "user", "content": "\ud800"}], "q": "\ud800", "source": "source", "target": "target"}'
)
BODIES: dict[str, bytes] = {
    "empty": b"",
    "no JSON": b"zanzibar",
    "a list": b"[]",
    "null": b"null",
    "NaN": every_field("NaN"),
    "1e999": every_field("1e999"),
    "a long number": every_field("9" * 5000),
    "deep lists": b"[" * 200_000,
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "deep and whole": every_field("[" * 900 + "]" * 900),
    "wrong types": every_field('{"zanzibar": ["zanzibar"]}'),
    "unknown names": b'{"zanzibar zanzibar": 1, "__class__": 2, "model": "language"}',
    "bytes": bytes(range(256)),
    "not UTF-8": b'{"lines": "\xff\xfe"}',
    "many names": b"{" + b",".join(b'"a%d": 1' % i for i in range(20_000)) + b"}",
    "many values": every_field("[" + ",".join(["1"] * 50_000) + "]"),
    "lone surrogates": SURROGATES.encode(),
}
