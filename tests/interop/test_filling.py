"""`fill` of an imported model, as transformers fills the same text."""

from pathlib import Path

import pytest
import torch
import transformers

from tests.interop import tiny
from tests.interop.test_importing import TOKENIZERS, brought_in, make_folder

TEXTS = ["the {} sat on the mat.", "{} good day {}", "{}"]
PAIRS = [("the cat {}.", "it was {} good"), ("a", "{}")]


@pytest.mark.sampled("every family takes its own build and export; one shows that the way holds")
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


def test_what_follows_has_the_same_probability(tmp_path: Path) -> None:
    words = TOKENIZERS["bert-uncased"]()
    words.save_pretrained(tmp_path / "hf")
    torch.manual_seed(0)
    model = tiny.bert("BertForPreTraining", vocab_size=len(words)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    model.save_pretrained(tmp_path / "hf")
    run = brought_in(tmp_path / "hf", tmp_path / "run")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    for first, second in (("the cat sat", "it was good"), ("a good day", "the mat.")):
        with torch.no_grad():
            answer = model(**tokenizer(first, second, return_tensors="pt")).seq_relationship_logits.softmax(-1)
        assert run.follow(first, second).probability == pytest.approx(float(answer[0, 0]), abs=1e-4)
