"""Pages for a browser, all of them offline: `/` shows attention for a text that is typed, `/docs` the API."""

from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import Response

from regard.viewer.page import digest, own_script, own_style

STATIC = Path(__file__).parent / "static"
FILES = {  # path → file and type: nothing else is served
    "/": ("look.html", "text/html; charset=utf-8"),
    "/docs": ("docs.html", "text/html; charset=utf-8"),
    "/static/look.js": ("look.js", "text/javascript; charset=utf-8"),
    "/static/docs.js": ("docs.js", "text/javascript; charset=utf-8"),
    "/static/key.js": ("key.js", "text/javascript; charset=utf-8"),
    "/static/serving.css": ("serving.css", "text/css; charset=utf-8"),
}


def policy() -> str:
    """Only what this server has: its files, and the script and style of the attention page, by their hashes.

    That page is shown in a frame of its own, which takes over this policy and has a narrower one of its own.
    """
    script, style = digest(own_script()), digest(own_style())
    return (
        f"default-src 'none'; script-src 'self' '{script}'; style-src 'self' '{style}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def page_routes() -> APIRouter:
    router = APIRouter(include_in_schema=False)
    headers = {"Content-Security-Policy": policy(), "Cache-Control": "no-cache"}
    for path, (file, kind) in FILES.items():
        router.add_api_route(path, shown((STATIC / file).read_bytes(), kind, headers), methods=["GET", "HEAD"])
    return router


def shown(content: bytes, kind: str, headers: dict[str, str]):  # type: ignore[no-untyped-def]  # FastAPI reads the rest
    async def show() -> Response:
        return Response(content, media_type=kind, headers=headers)

    return show
