"""What OpenAI's clients send.  A parameter that is not supported is refused by its name, unless it changes nothing."""

import secrets
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from regard.decoding.config import DecodingConfig
from regard.serving.limits import Limits
from regard.serving.refusal import Refusal

HOTTEST = 2.0  # the highest temperature, as OpenAI has it


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    include_usage: bool = False
    include_obfuscation: Literal[False] | None = None


class OpenAIForm(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    neutral: ClassVar[dict[str, tuple[object, ...]]]  # what is not supported, and the values that change nothing

    model: str

    def check_supported(self) -> None:
        for name, values in self.neutral.items():
            if not any(is_same(dict(self)[name], value) for value in values):
                raise Refusal(400, f"{name}: this parameter is not supported", param=name, code="unsupported_parameter")


class WritingForm(OpenAIForm):
    """What both kinds of completions share."""

    temperature: float | None = None
    top_p: float | None = None
    n: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    frequency_penalty: Any = None
    presence_penalty: Any = None
    logit_bias: Any = None

    @property
    def stops(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop or []

    @property
    def with_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage

    def check_stream(self) -> None:
        if self.stream_options is not None and not self.stream:
            raise Refusal(400, "stream_options: only together with stream", param="stream_options")

    def decoding(self, base: DecodingConfig, limits: Limits) -> DecodingConfig:
        """The recipe's settings, unless temperature, top_p or n say otherwise.  Temperature 0 is greedy, and so is a
        search with stop strings that would keep a beam."""
        n = 1 if self.n is None else self.n
        limits.check(n, "n", "n")
        if n < 1:
            raise Refusal(400, "n: at least 1", param="n")
        if self.temperature is not None and not 0 <= self.temperature <= HOTTEST:
            raise Refusal(400, f"temperature: from 0 to {HOTTEST:g}", param="temperature")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise Refusal(400, "top_p: above 0, at most 1", param="top_p")
        if self.seed is not None and abs(self.seed) >= 2**63:
            raise Refusal(400, "seed: a number of 64 bits", param="seed")
        if self.temperature == 0:
            if n > 1:
                raise Refusal(400, "n: more than one text needs a temperature above 0", param="n")
            return replace(base, sample=False, beam=1, n_best=1)
        if self.temperature is None and self.top_p is None and n == 1:
            beam = 1 if self.stops else base.beam
            return replace(base, beam=beam, seed=base.seed if self.seed is None else abs(self.seed))
        return replace(
            base,
            sample=True,
            beam=1,
            n_best=n,
            temperature=1.0 if self.temperature is None else self.temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
            seed=secrets.randbits(31) if self.seed is None else abs(self.seed),
        )


PENALTIES = {"frequency_penalty": (None, 0), "presence_penalty": (None, 0), "logit_bias": (None, {})}


class CompletionForm(WritingForm):
    neutral = {**PENALTIES, "best_of": (None, 1), "suffix": (None, ""), "user": (None,)}

    prompt: str | list[str]
    max_tokens: int | None = Field(default=None, description="16 if it is left out")
    logprobs: int | None = None
    echo: bool | None = None
    best_of: Any = None
    suffix: Any = None
    user: Any = None

    @property
    def prompts(self) -> list[str]:
        return [self.prompt] if isinstance(self.prompt, str) else self.prompt

    def check(self, limits: Limits) -> None:
        self.check_supported()
        self.check_stream()
        limits.check_texts(self.prompts, "prompt")
        limits.check_stops(self.stops)
        limits.check(self.max_tokens, "new_tokens", "max_tokens")
        limits.check(self.logprobs, "likeliest", "logprobs")
        at_least_1(self.max_tokens, "max_tokens")
        if self.logprobs is not None and self.logprobs < 0:
            raise Refusal(400, "logprobs: at least 0", param="logprobs")
        if not self.prompts:
            raise Refusal(400, "prompt: at least one", param="prompt")
        if self.stream and (len(self.prompts) > 1 or (self.n or 1) > 1):
            raise Refusal(400, "stream: one prompt and one text at a time", param="stream")
        for name, is_asked in (("logprobs", self.logprobs is not None), ("echo", bool(self.echo))):
            if is_asked and self.stream:
                raise Refusal(400, f"{name}: not together with stream", param=name)
        if self.echo and self.logprobs is not None:
            raise Refusal(400, "logprobs: not together with echo", param="logprobs")


class TextPart(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    type: str
    text: str | None = None


class ChatMessage(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    role: str
    content: str | list[TextPart]
    name: None = None
    refusal: None = None  # with this and the rest, an answer can be sent back as it came
    annotations: list[None] | None = None
    audio: None = None
    function_call: None = None
    tool_calls: list[None] | None = None

    def as_said(self) -> dict[str, str]:
        parts = [TextPart(type="text", text=self.content)] if isinstance(self.content, str) else self.content
        if any(part.type != "text" or part.text is None for part in parts):
            raise Refusal(400, "messages: only parts of the type text are supported", param="messages")
        role = "system" if self.role == "developer" else self.role
        if role not in ("system", "user", "assistant"):
            raise Refusal(400, "messages: role must be system, developer, user or assistant", param="messages")
        return {"role": role, "content": "".join(part.text or "" for part in parts)}


class ChatForm(WritingForm):
    neutral = {
        **PENALTIES,
        "logprobs": (None, False),
        "top_logprobs": (None, 0),
        "tools": (None, []),
        "tool_choice": (None, "none", "auto"),
        "parallel_tool_calls": (None, True, False),
        "functions": (None, []),
        "function_call": (None, "none", "auto"),
        "response_format": (None, {"type": "text"}),
        "modalities": (None, ["text"]),
        "reasoning_effort": (None, "none"),
        "service_tier": (None, "auto", "default"),
        "store": (None, False),
        "metadata": (None, {}),
        "verbosity": (None,),
        "audio": (None,),
        "prediction": (None,),
        "moderation": (None,),
        "web_search_options": (None,),
        "prompt_cache_key": (None,),
        "prompt_cache_options": (None,),
        "prompt_cache_retention": (None,),
        "safety_identifier": (None,),
        "user": (None,),
    }

    messages: list[ChatMessage]
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    logprobs: Any = None
    top_logprobs: Any = None
    tools: Any = None
    tool_choice: Any = None
    parallel_tool_calls: Any = None
    functions: Any = None
    function_call: Any = None
    response_format: Any = None
    modalities: Any = None
    reasoning_effort: Any = None
    service_tier: Any = None
    store: Any = None
    metadata: Any = None
    verbosity: Any = None
    audio: Any = None
    prediction: Any = None
    moderation: Any = None
    web_search_options: Any = None
    prompt_cache_key: Any = None
    prompt_cache_options: Any = None
    prompt_cache_retention: Any = None
    safety_identifier: Any = None
    user: Any = None

    @property
    def length(self) -> int | None:
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    def check(self, limits: Limits) -> list[dict[str, str]]:
        """The messages as a run takes them."""
        self.check_supported()
        self.check_stream()
        limits.check(len(self.messages), "texts", "messages")
        messages = [message.as_said() for message in self.messages]
        limits.check_texts([message["content"] for message in messages], "messages")
        limits.check_stops(self.stops)
        limits.check(self.length, "new_tokens", "max_tokens")
        at_least_1(self.length, "max_tokens")
        if (self.n or 1) > 1:
            raise Refusal(400, "n: one answer at a time", param="n")
        return messages


class EmbeddingForm(OpenAIForm):
    neutral = {"dimensions": (None,), "user": (None,)}

    input: str | list[str]
    encoding_format: str | None = None
    dimensions: Any = None
    user: Any = None

    @property
    def texts(self) -> list[str]:
        return [self.input] if isinstance(self.input, str) else self.input

    def check(self, limits: Limits) -> None:
        self.check_supported()
        limits.check_texts(self.texts, "input")
        if self.encoding_format not in (None, "float", "base64"):
            raise Refusal(400, "encoding_format: float or base64", param="encoding_format")


def is_same(value: object, other: object) -> bool:
    """Equal, and not as 1 and true are."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def at_least_1(value: int | None, name: str) -> None:
    if value is not None and value < 1:
        raise Refusal(400, f"{name}: at least 1", param=name)
