"""LibreTranslate's routes: /translate, /detect, /languages and /frontend/settings; JSON or forms."""

from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from regard.decoding.config import DecodingConfig
from regard.serving.bodies import body_of, received
from regard.serving.keys import Keys
from regard.serving.languages import NAMES, LanguagePairs
from regard.serving.markup import Markup
from regard.serving.refusal import Refusal
from regard.serving.service import Service
from regard.tasks.translation.verbs import Translate, Translated

PATHS = ("/translate", "/detect", "/languages", "/frontend/settings")


class DetectForm(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    q: str
    api_key: str | None = None


class TranslateForm(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    q: str | list[str]
    source: str
    target: str
    format: str = Field(default="text", description="text or html")
    alternatives: int = Field(default=0, ge=0)
    api_key: str | None = None


def libretranslate_routes(service: Service, keys: Keys) -> APIRouter:
    router = APIRouter(tags=["LibreTranslate"])
    translators = LanguagePairs(service.runs)

    @router.get("/languages")
    async def languages() -> Any:
        """The languages of the runs that translate, with what each can be translated into."""
        return translators.records()

    @router.get("/frontend/settings")
    async def settings() -> Any:
        """The longest text, whether a key is needed, and the first pair of languages."""
        source, target = next(iter(translators.by_pair), ("", ""))
        pair = {"source": {"code": source, "name": NAMES.get(source, source)}}
        pair["target"] = {"code": target, "name": NAMES.get(target, target)}
        return {
            "apiKeys": bool(keys),
            "keyRequired": bool(keys),
            "charLimit": service.limits.text_chars,
            "frontendTimeout": 500,
            "filesTranslation": False,
            "supportedFilesFormat": [],
            "suggestions": False,
            "language": pair,
        }

    @router.post("/detect", openapi_extra=body_of(DetectForm, takes_forms=True))
    async def detect(http: Request) -> Any:
        """Which of the served source languages a text is in, by how few tokens each run's tokenizer needs for it."""
        form = await received(http, DetectForm, takes_forms=True)
        service.limits.check_texts([form.q], "q")
        languages = await service.answer(http, lambda gone: translators.detect(form.q), len(form.q), form.q)
        return [{"language": code, "confidence": round(share, 1)} for code, share in languages]

    @router.post("/translate", openapi_extra=body_of(TranslateForm, takes_forms=True))
    async def translate(http: Request) -> Response:
        """Texts or HTML in another language, with further translations if `alternatives` asks for them."""
        form = await received(http, TranslateForm, takes_forms=True)
        texts = [form.q] if isinstance(form.q, str) else form.q
        service.limits.check_texts(texts, "q")
        service.limits.check(form.alternatives, "alternatives", "alternatives")
        if form.format not in ("text", "html"):
            raise Refusal(400, "format: text or html", param="format")
        record: dict[str, object] = {}
        source = form.source.strip().lower()
        if source == "auto":
            joined = "\n".join(texts)
            languages = await service.answer(http, lambda gone: translators.detect(joined), len(joined), texts)
            languages = [row for row in languages if form.target in translators.targets(row[0])]
            source, share = languages[0] if languages else ("", 0.0)
            record["detectedLanguage"] = {"language": source, "confidence": round(share, 1)}
        name = translators.by_pair.get((source, form.target.strip().lower()))
        if name is None:
            raise Refusal(400, "source, target: no run here translates this pair; GET /languages lists those that are")
        decoding = alternatives_of(service.runs[name].recipe.decoding, form.alternatives)
        pages = [Markup(text) for text in texts] if form.format == "html" else []
        lines = [text for page in pages for text in page.texts] if pages else texts
        service.limits.check(len(lines), "texts", "q")
        answers: list[Translated] = await service.ask(http, name, Translate(lines, decoding))
        written = [answer.text for answer in answers]
        others = [others_of(answer, form.alternatives) for answer in answers]
        if pages:
            rest = iter(written)
            written = [page.with_texts([next(rest) for _ in page.texts]) for page in pages]
            others = [[] for _ in pages]  # of a page's texts, there is no one order of best
        is_one = isinstance(form.q, str)
        record = {"translatedText": written[0] if is_one else written} | record
        if form.alternatives:
            record["alternatives"] = others[0] if is_one else others
        return JSONResponse(record)

    return router


def alternatives_of(base: DecodingConfig, n: int) -> DecodingConfig | None:
    """Settings that give `n` more translations; None: the recipe's."""
    return replace(base, sample=False, beam=max(base.beam, n + 1), n_best=n + 1) if n else None


def others_of(answer: Translated, n: int) -> list[str]:
    return [text for text, _ in answer.n_best if text != answer.text][:n]
