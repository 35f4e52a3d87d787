"""The models of a job: the one place that says which keys there are and what they mean.

JSON Schema (`assignor schema`) and the tables in docs/pipelines.md are generated from here. The
models check what can be seen in the config alone; what needs files, a broker or Spark is checked
by `checks` and `run`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Discriminator, Field, PositiveInt, Tag, model_validator

from streaming.metrics.config import MetricsConfig
from streaming.pipeline.fit import SERVERS, check_names, check_no_loops, check_places_apart
from streaming.pipeline.sinks_config import (
    ConsoleSink,
    DeltaSink,
    KafkaSink,
    sink_type,
)
from streaming.pipeline.sources_config import Source
from streaming.pipeline.strict import Strict, WithOptions
from streaming.pipeline.values import Trigger, ViewName, trigger_interval

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

    from streaming.pipeline.sinks_config import DeadLetter


class Transform(Strict):
    """One step from parsed rows to the rows that are written."""

    sql: str | None = Field(
        None, description="A SELECT over sources and earlier transforms, by their names."
    )
    python: str | None = Field(
        None,
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$",
        description="`package.module:function`, a function from DataFrame to DataFrame.",
    )
    from_: ViewName | None = Field(
        None,
        alias="from",
        description="For python: the source or transform it is given; by default the transform "
        "before it, else the only source.",
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if (self.sql is None) == (self.python is None):
            raise ValueError("exactly one of 'sql' and 'python' is expected")
        if self.sql is not None and self.from_ is not None:
            raise ValueError("'from' is for python; in 'sql' the FROM clause names it")
        return self


class Metrics(MetricsConfig, Strict):
    """Where a job's figures go; without any of it, nowhere."""


class Seed(Strict):
    """Records that `assignor run --with-broker` writes to a topic before the job starts."""

    file: str = Field(
        description="JSON lines with `key`, `value` (text, an object for JSON, null for a "
        "tombstone) or `base64`, beside the job's YAML."
    )
    partitions: PositiveInt = Field(4, description="Partitions of the topic.")


Sink = Annotated[
    Annotated[DeltaSink, Tag("delta")]
    | Annotated[ConsoleSink, Tag("console")]
    | Annotated[KafkaSink, Tag("kafka")],
    Discriminator(
        sink_type,
        custom_error_type="sink_type",
        custom_error_message="'type' is not known: delta, console or kafka is expected",
    ),
]


class Job(WithOptions):
    """A job: from Kafka to Delta. `kafka.*` keys here hold for all its sources and sinks."""

    name: str = Field(
        "job",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$",
        description="Name of the queries; by default that of the YAML file.",
    )
    source: Source | None = Field(None, description="The one source; its view is `records`.")
    sources: dict[ViewName, Source] = Field({}, description="Several sources by name.")
    transform: Transform | None = Field(None, description="The one transform, named `result`.")
    transforms: dict[ViewName, Transform] = Field(
        {}, description="Several transforms by name, in order."
    )
    sink: Sink | None = Field(None, description="The one sink.")
    sinks: dict[ViewName, Sink] = Field({}, description="Several sinks by name.")
    trigger: Trigger = Field(
        "availableNow",
        description="`availableNow` reads what is there and ends; `processingTime 10 seconds` "
        "goes on.",
    )
    checkpoint: str | None = Field(
        None,
        description="Folder or URL of the checkpoints: progress, and the identity of exactly-once "
        "writes. Only a job that just prints goes without.",
    )
    metrics: Metrics | None = Field(
        None, description="Where figures go: Prometheus, a textfile, a log (docs/metrics.md)."
    )
    spark: dict[str, str] = Field(
        {}, description="Settings of the Spark that `assignor run` starts (`spark.master`, …)."
    )
    seed: dict[str, Seed] = Field(
        {}, description="Records by topic for `assignor run --with-broker`."
    )

    @property
    def all_sources(self) -> dict[str, Source]:
        """The sources by the names of their views."""
        return {"records": self.source} if self.source else dict(self.sources)

    @property
    def all_transforms(self) -> dict[str, Transform]:
        """The transforms by the names of their views, in order."""
        return {"result": self.transform} if self.transform else dict(self.transforms)

    @property
    def all_sinks(self) -> dict[str, DeltaSink | ConsoleSink | KafkaSink]:
        """The sinks by name."""
        return {"sink": self.sink} if self.sink else dict(self.sinks)

    def tables(self) -> Iterator[tuple[str, DeltaSink | DeadLetter]]:
        """Give the Delta tables that are written: sinks and dead letters, each with its place."""
        for name, sink in self.all_sinks.items():
            if isinstance(sink, DeltaSink):
                yield self.place("sink", name), sink
        for name, source in self.all_sources.items():
            letter = source.records.dead_letter
            if letter is not None and letter.topic is None:
                yield f"{self.place('source', name)}.records.dead_letter", letter

    @property
    def interval(self) -> str | None:
        """The trigger's interval, None for availableNow."""
        return trigger_interval(self.trigger)

    def place(self, kind: str, name: str) -> str:
        """Where in the YAML something stands, for messages: `sinks.orders`, or just `sink`."""
        return kind if getattr(self, kind) is not None else f"{kind}s.{name}"

    def kafka_options(self, own: dict[str, str]) -> dict[str, str]:
        """Join options with the job's own `kafka.*`, which give way."""
        return {**self.options, **own}

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for one in ("source", "sink", "transform"):
            if getattr(self, one) is not None and getattr(self, f"{one}s"):
                raise ValueError(f"'{one}' and '{one}s' exclude each other")
        for what, found in (("source", self.all_sources), ("sink", self.all_sinks)):
            if not found:
                raise ValueError(f"{what!r} is missing: what is read, and where it goes")
        views = list(self.all_sources)
        for name, transform in self.all_transforms.items():
            where = self.place("transform", name)
            _check_from(where, transform.from_, views)
            if (
                transform.python
                and not transform.from_
                and len(views) > 1
                and name == next(iter(self.all_transforms))
            ):
                raise ValueError(f"{where}: 'from' is missing: one of {', '.join(views)}")
            if name in views:
                raise ValueError(f"{where}: a source or transform of this name is there already")
            views.append(name)
        for name, sink in self.all_sinks.items():
            where = self.place("sink", name)
            _check_from(where, sink.from_, views)
            if sink.from_ is None and not self.all_transforms and len(views) > 1:
                raise ValueError(f"{where}: 'from' is missing: one of {', '.join(views)}")
            if self.checkpoint is None and not isinstance(sink, ConsoleSink):
                raise ValueError("'checkpoint' is missing: the folder that remembers what was read")
        self._check_brokers()
        check_names(self)
        check_places_apart(self)
        check_no_loops(self)
        return self

    def _check_brokers(self) -> None:
        for name, source in self.all_sources.items():
            if SERVERS not in self.kafka_options(source.options):
                raise ValueError(f"{self.place('source', name)}: {SERVERS!r} is missing")
        for name, sink in self.all_sinks.items():
            if isinstance(sink, KafkaSink) and SERVERS not in self.kafka_options(sink.options):
                raise ValueError(f"{self.place('sink', name)}: {SERVERS!r} is missing")


def _check_from(where: str, name: str | None, views: list[str]) -> None:
    if name is not None and name not in views:
        raise ValueError(f"{where}.from: {name!r} is not known; there are {', '.join(views)}")


def json_schema() -> dict[str, Any]:
    """JSON Schema of a job, for editors."""
    schema = Job.model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "assignor job"
    models: dict[str, type[WithOptions]] = {"Source": Source, "KafkaSink": KafkaSink}
    parts: list[tuple[Any, type[WithOptions]]] = [(schema, Job)]
    parts += [(schema["$defs"][name], model) for name, model in models.items()]
    for part, model in parts:
        part["additionalProperties"] = False
        scalar = {"type": ["string", "number", "boolean"]}
        part["patternProperties"] = {r"^kafka\.": scalar}
        for name, meaning in model.OPTIONS.items():
            part["properties"][name] = {**scalar, "description": meaning}
    return schema
