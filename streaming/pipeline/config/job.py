"""The model of a whole job: its sections, and that they fit together.

The config's models are the one place that says which keys there are and what they mean: JSON Schema
(`assignor lab schema`) and the tables in docs/job-file.md are generated from them. They check what
can be seen in the config alone; what needs files, a broker or Spark is checked before a job starts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from pydantic import Field, model_validator

from assignor_bridge.errors import OptionError
from checkpoints.folders import DEAD_LETTER
from streaming.kafka.servers import read_servers
from streaming.metrics.config import MetricsConfig
from streaming.pipeline.config.base import (
    OF_KAFKA,
    SERVERS,
    Count,
    Location,
    OptionText,
    Section,
    TopicName,
    Trigger,
    ViewName,
    require_one,
    require_pattern,
)
from streaming.pipeline.config.conflicts import check_apart, check_names, check_no_loops
from streaming.pipeline.config.sinks import ConsoleSink, DeltaSink, KafkaSink, Sink
from streaming.pipeline.config.sources import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self


_FUNCTION = "a function such as 'package.module:function'"
_NAME = "a name of ASCII letters, digits, '.', '_' and '-' that begins with a letter or digit"


class Transform(Section):
    """One step from parsed rows to the rows that are written."""

    sql: str | None = None
    """A SELECT over sources and earlier transforms, by their names."""
    python: Annotated[str, require_pattern(r"[a-z_][\w.]*:[a-z_]\w*", _FUNCTION)] | None = None
    """`package.module:function`, a function from DataFrame to DataFrame."""
    from_: ViewName | None = Field(None, alias="from")
    """For python: the source or transform it is given; by default the transform before it, else the
    only source."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        require_one({"sql": self.sql, "python": self.python})
        if self.sql is not None and self.from_ is not None:
            raise ValueError("'from' is for python; in 'sql' the FROM clause names it")
        return self


class Metrics(MetricsConfig, Section):
    """Where a job's metrics go; by default, nowhere."""


class Seed(Section):
    """Records that `assignor run --with-broker` writes to a topic before the job starts."""

    file: str
    """JSON lines with `key`, `value` (text, an object for JSON, null for a tombstone) or `base64`,
    next to the job's YAML."""
    partitions: Count = 4
    """Partitions of the topic."""


class Output(NamedTuple):
    """What one query writes."""

    #: Name of its folder in the checkpoint.
    part: str
    place: str
    sink: Sink
    #: The source whose bad records it gets; None for a sink of the config.
    bad_of: str | None = None


class Job(Section):
    """A job: from Kafka to Delta. `kafka.*` keys here apply to all its sources and sinks."""

    name: Annotated[str, require_pattern(r"[a-z0-9][a-z0-9_.-]*", _NAME)] = "job"
    """Name of the queries; a job from a YAML file without it has the file's name."""
    source: Source | None = None
    """The one source; its view is `records`."""
    sources: dict[ViewName, Source] = Field({})
    """Several sources by name."""
    transform: Transform | None = None
    """The one transform, named `result`."""
    transforms: dict[ViewName, Transform] = Field({})
    """Several transforms by name, in order."""
    sink: Sink | None = None
    """The one sink."""
    sinks: dict[ViewName, Sink] = Field({})
    """Several sinks by name."""
    trigger: Trigger = "availableNow"
    """`availableNow` processes what is there and exits; `processingTime 0 seconds` runs on."""
    checkpoint: Location | None = None
    """Folder or URL of the checkpoints: progress, and the identity of exactly-once writes. A
    job that only prints needs none."""
    metrics: Metrics | None = None
    """Where metrics go: Prometheus, a textfile, a log."""
    spark: dict[str, OptionText] = Field({})
    """Settings of the Spark that `assignor run` starts (`spark.master`, …)."""
    seed: dict[TopicName, Seed] = Field({})
    """Records by topic for `assignor run --with-broker`."""
    PREFIXES: ClassVar[dict[str, str]] = OF_KAFKA

    @property
    def all_sources(self) -> dict[str, Source]:
        """The sources by the names of their views."""
        return {"records": self.source} if self.source else dict(self.sources)

    @property
    def all_transforms(self) -> dict[str, Transform]:
        """The transforms by the names of their views, in order."""
        return {"result": self.transform} if self.transform else dict(self.transforms)

    @property
    def all_sinks(self) -> dict[str, Sink]:
        """The sinks by name."""
        return {"sink": self.sink} if self.sink else dict(self.sinks)

    @property
    def outputs(self) -> list[Output]:
        """What the job's queries write: the sinks, and where bad records go."""
        outputs = [Output(n, self.place("sink", n), sink) for n, sink in self.all_sinks.items()]
        for name, source in self.all_sources.items():
            letter = source.records.dead_letter
            if letter is not None:
                place = self.place("source", name, "records.dead_letter")
                sink = letter.as_sink(source.options)
                outputs.append(Output(f"{DEAD_LETTER}{name}", place, sink, name))
        return outputs

    @property
    def tables(self) -> list[tuple[str, DeltaSink]]:
        """The Delta tables that are written, each with its place."""
        return [(o.place, o.sink) for o in self.outputs if isinstance(o.sink, DeltaSink)]

    def broker_uses(self) -> Iterator[tuple[str, dict[str, str], list[str]]]:
        """Yield each use of a broker: its place, its `kafka.*` and other options, its topics."""
        for name, source in self.all_sources.items():
            yield self.place("source", name), self.kafka_options(source.options), source.topics
        for output in self.outputs:
            if isinstance(output.sink, KafkaSink):
                options = self.kafka_options(output.sink.options)
                yield output.place, options, [output.sink.topic]

    @property
    def interval(self) -> str | None:
        """The trigger's interval, None for availableNow."""
        return re.sub("(?i)availableNow|processingTime", "", self.trigger).strip() or None

    def place(self, kind: str, name: str, *below: str) -> str:
        """Where in the YAML something stands, for messages: `sinks.orders`, or just `sink`."""
        section = kind if getattr(self, kind) is not None else f"{kind}s.{name}"
        return ".".join([section, *below])

    def kafka_options(self, own: dict[str, str]) -> dict[str, str]:
        """Join options with the job's own `kafka.*`, which give way."""
        return {**self.options, **own}

    def inputs(self, name: str) -> list[str]:
        """Name the views that a transform reads; one that stands in SQL's text counts."""
        transform = self.all_transforms[name]
        views = [*self.all_sources, *self.all_transforms]
        earlier = views[: views.index(name)]
        if transform.sql is None:
            return [transform.from_ or earlier[-1]]
        return [n for n in earlier if re.search(rf"\b{n}\b", transform.sql, re.IGNORECASE)]

    def view_of(self, sink: Sink) -> str:
        """Name the view whose rows a sink writes."""
        return sink.from_ or list(self.all_transforms or self.all_sources)[-1]

    def sources_of(self, sink: Sink) -> tuple[str, ...]:
        """Name the sources whose rows a sink may get."""
        ahead, seen = [self.view_of(sink)], set()
        while ahead:
            view = ahead.pop()
            if view not in seen and view in self.all_transforms:
                ahead += self.inputs(view)
            seen.add(view)
        return tuple(name for name in self.all_sources if name in seen)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for one in ("source", "sink", "transform"):
            if getattr(self, one) is not None and getattr(self, f"{one}s"):
                raise ValueError(f"'{one}' and '{one}s' cannot be used together")
        for what, parts in (("source", self.all_sources), ("sink", self.all_sinks)):
            if not parts:
                raise ValueError(f"{what!r} is missing: what is read, and where it goes")
        views = list(self.all_sources)
        for name, transform in self.all_transforms.items():
            is_open = transform.python is not None and len(views) == len(self.all_sources)
            _check_from(self.place("transform", name), transform.from_, views, is_open)
            views.append(name)
        for name, sink in self.all_sinks.items():
            where = self.place("sink", name)
            _check_from(where, sink.from_, views, not self.all_transforms)
            if self.checkpoint is None and not isinstance(sink, ConsoleSink):
                raise ValueError("'checkpoint' is missing: the folder that remembers what was read")
        for where, options, _ in self.broker_uses():
            if SERVERS not in options:
                raise ValueError(f"{where}: {SERVERS!r} is missing")
            try:
                read_servers(SERVERS, options[SERVERS])
            except OptionError as error:
                raise ValueError(f"{where}: {error}") from None
        for key in self.spark:
            if not key.startswith("spark."):
                raise ValueError(f"spark: {key!r} is no setting of Spark: is 'spark.{key}' meant?")
        check_names(self)
        check_apart(self)
        check_no_loops(self)
        return self


def _check_from(where: str, name: str | None, views: list[str], is_open: bool) -> None:
    """Check that a `from` names an earlier view, and is there where no last transform stands in."""
    if name is None and is_open and len(views) > 1:
        raise ValueError(f"{where}: 'from' is missing: one of {', '.join(views)}")
    if name is not None and name not in views:
        raise ValueError(f"{where}.from: {name!r} is unknown; there are {', '.join(views)}")


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a job, for editors."""
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "assignor job"}
    return {**Job.model_json_schema(by_alias=True), **draft}
