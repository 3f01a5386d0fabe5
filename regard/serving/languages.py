"""Languages as LibreTranslate's clients know them: codes of two letters for the names that recipes give."""

from regard.runs.run import Run

CODES = {
    "Arabic": "ar", "Bengali": "bn", "Bulgarian": "bg", "Catalan": "ca", "Chinese": "zh", "Croatian": "hr",
    "Czech": "cs", "Danish": "da", "Dutch": "nl", "English": "en", "Esperanto": "eo", "Estonian": "et",
    "Finnish": "fi", "French": "fr", "German": "de", "Greek": "el", "Hebrew": "he", "Hindi": "hi",
    "Hungarian": "hu", "Indonesian": "id", "Irish": "ga", "Italian": "it", "Japanese": "ja", "Korean": "ko",
    "Latin": "la", "Latvian": "lv", "Lithuanian": "lt", "Norwegian": "no", "Persian": "fa", "Polish": "pl",
    "Portuguese": "pt", "Romanian": "ro", "Russian": "ru", "Serbian": "sr", "Slovak": "sk", "Slovenian": "sl",
    "Spanish": "es", "Swedish": "sv", "Thai": "th", "Turkish": "tr", "Ukrainian": "uk", "Vietnamese": "vi",
}  # fmt: skip
NAMES = {code: name for name, code in CODES.items()}


def code_of(name: str) -> str:
    """A name without a code, or a code itself, stands for itself."""
    return CODES.get(name.strip().title(), name.strip().lower())


class LanguagePairs:
    """The served runs that translate, by (source, target) code; of several for one pair, the first."""

    def __init__(self, runs: dict[str, Run]) -> None:
        self.by_pair: dict[tuple[str, str], str] = {}
        self.runs = runs
        for name, run in runs.items():
            if (languages := run.task.config.languages) is not None:
                source, target = map(code_of, languages)
                self.by_pair.setdefault((source, target), name)

    def targets(self, source: str) -> list[str]:
        return [target for of, target in self.by_pair if of == source]

    def records(self) -> list[dict[str, object]]:
        codes = dict.fromkeys(code for pair in self.by_pair for code in pair)
        return [{"code": code, "name": NAMES.get(code, code), "targets": self.targets(code)} for code in codes]

    def detect(self, text: str) -> list[tuple[str, float]]:
        """The source languages, the likeliest first, with shares that sum to 100.

        That language is likeliest whose run needs the fewest tokens for the text, and knows all of them.
        """
        costs: dict[str, float] = {}
        for (source, _), name in self.by_pair.items():
            tokenizer = self.runs[name].tokenizer
            cost = len(tokenizer.encode(text)) + 4 * len(tokenizer.unknown(text))
            costs[source] = min(cost, costs.get(source, cost))
        shares = {source: 1 / (1 + cost) ** 4 for source, cost in costs.items()}
        total = sum(shares.values())
        return sorted(((source, 100 * share / total) for source, share in shares.items()), key=lambda row: -row[1])
