"""/health: the process is alive; /ready: it takes requests; /metrics: what it did, for Prometheus."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from regard.serving.service import Service

PUBLIC = ("/health", "/ready")


def status_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["status"])

    @router.get("/health")
    async def health() -> dict[str, str]:
        """Whether the process is alive."""
        return {"status": "alive"}

    @router.get("/ready")
    async def ready() -> Response:
        """Whether it takes requests; 503 while it stops."""
        is_ready = not service.admission.is_stopping
        return JSONResponse({"status": "ready" if is_ready else "stopping"}, 200 if is_ready else 503)

    @router.get("/metrics")
    async def metrics() -> Response:
        """Counts and times by route, for Prometheus."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return router
