"""`fill` of an imported model, as transformers fills the same text."""

from pathlib import Path

import pytest
import torch
import transformers

from tests.interop.test_importing import brought_in, make_folder

TEXTS = ["the {} sat on the mat.", "{} good day {}", "{}"]
PAIRS = [("the cat {}.", "it was {} good"), ("a", "{}")]


@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert"])
def test_hidden_words_have_the_same_probabilities(name: str, tmp_path: Path) -> None:
    folder = make_folder(name, tmp_path / "hf")
    run = brought_in(folder, tmp_path / "run")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    asked: list[tuple[str, str | None]] = [(text, None) for text in TEXTS]
    if name == "bert":  # RoBERTa puts two marks between the texts of a pair, and DistilBERT knows no segments
        asked += PAIRS
    for text, second in asked:
        given = [None if part is None else part.replace("{}", tokenizer.mask_token) for part in (text, second)]
        encoded = tokenizer(*given, return_tensors="pt")
        with torch.no_grad():
            shares = model(**encoded).logits[0].softmax(-1)[encoded["input_ids"][0] == tokenizer.mask_token_id]
        question = " [SEP] ".join(part.replace("{}", "[MASK]") for part in (text, second) if part is not None)
        (answer,) = run.fill([question], top=4)
        assert len(answer.words) == len(shares) > 0
        for ours, theirs in zip(answer.words, shares, strict=True):
            best = theirs.topk(4)
            assert [share for _, share in ours] == pytest.approx(best.values.tolist(), abs=1e-4)
            assert [word for word, _ in ours] == [run.tokenizer.token(i) for i in best.indices.tolist()]
