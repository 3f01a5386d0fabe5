"""What /metrics tells: counts and times by route, never a word of a request."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class ServerMetrics:
    """One registry for each server, so that two of them in a process count apart."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter("regard_requests", "Requests answered.", ["route", "status"], registry=self.registry)
        self.seconds = Histogram(
            "regard_request_seconds",
            "From the first byte to the last.",
            ["route"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.refused = Counter(
            "regard_refused", "Requests refused, by the cap they met.", ["cap"], registry=self.registry
        )
        self.running = Gauge("regard_running", "Requests that are worked on.", registry=self.registry)
        self.waiting = Gauge("regard_waiting", "Requests that wait for their turn.", registry=self.registry)
        self.left = Counter("regard_left", "Requests whose client went before the answer.", registry=self.registry)
        self.failed = Counter("regard_failed", "Requests that failed by a fault of the server.", registry=self.registry)

    def text(self) -> bytes:
        return generate_latest(self.registry)
