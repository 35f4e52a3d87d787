"""Define the config model of a whole job.

The models are the only definition of the keys: JSON Schema (`assignor lab schema`) and the tables
in docs/job-file.md are generated from them. They check only the config. Checks that need files,
a broker or Spark run later, before the job starts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from pydantic import Field, model_validator

from assignor_bridge.errors import OptionError
from checkpoints.folders import DEAD_LETTER_PREFIX
from streaming.kafka.servers import parse_servers
from streaming.metrics.config import MetricsConfig
from streaming.pipeline.config.base import (
    KAFKA_PREFIXES,
    SERVERS,
    Location,
    OptionText,
    PositiveInt,
    Section,
    TopicName,
    Trigger,
    ViewName,
    require_one,
    require_pattern,
)
from streaming.pipeline.config.conflicts import check_folders, check_names_differ, check_no_loops
from streaming.pipeline.config.sinks import ConsoleSink, DeltaSink, KafkaSink, Sink
from streaming.pipeline.config.sources import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

_PYTHON_FORMAT = "a function such as 'package.module:function'"
_NAME_FORMAT = "a name of ASCII letters, digits, '.', '_', '-' that begins with a letter or digit"


class Transform(Section):
    """One step from parsed rows to the rows that are written."""

    sql: str | None = None
    """A SELECT from sources and earlier transforms."""
    python: Annotated[str, require_pattern(r"[a-z_][\w.]*:[a-z_]\w*", _PYTHON_FORMAT)] | None = None
    """`package.module:function`, which takes and returns a DataFrame."""
    from_: ViewName | None = Field(None, alias="from")
    """For `python`: the source or transform that the function gets. Default: the previous
    transform, or the only source."""

    @model_validator(mode="after")
    def _check_one_kind(self) -> Self:
        require_one({"sql": self.sql, "python": self.python})
        if self.sql is not None and self.from_ is not None:
            raise ValueError("'from' is only for python: in 'sql', use the FROM clause")
        return self


class Metrics(MetricsConfig, Section):
    """Settings for the export of a job's metrics, which is off by default."""


class Seed(Section):
    """Records that `assignor run --with-broker` writes to a topic before the job starts."""

    file: str
    """File of JSON lines, next to the job's YAML. Each line has a `key`, and a `value` (text, an
    object for JSON, null for a tombstone) or `base64`."""
    partitions: PositiveInt = 4
    """Number of partitions of the topic, if the job creates it."""


class Output(NamedTuple):
    """One query's sink, its key in the config, and its folder in the checkpoint."""

    folder: str
    key_path: str
    sink: Sink
    #: Source whose bad records the query writes; None if it writes to one of the job's sinks.
    bad_source: str | None = None


class Job(Section):
    """A job from Kafka to Delta or another sink; `kafka.*` keys apply to all sources and sinks."""

    name: Annotated[str, require_pattern(r"[a-z0-9][a-z0-9_.-]*", _NAME_FORMAT)] = "job"
    """Name of the job; its queries' names begin with it. Default: the YAML file's name, if any."""
    source: Source | None = None
    """The only source; its view is named `records`."""
    sources: dict[ViewName, Source] = Field({})
    """Several sources by name."""
    transform: Transform | None = None
    """The only transform; its view is named `result`."""
    transforms: dict[ViewName, Transform] = Field({})
    """Several transforms by name, in order."""
    sink: Sink | None = None
    """The only sink."""
    sinks: dict[ViewName, Sink] = Field({})
    """Several sinks by name."""
    trigger: Trigger = "availableNow"
    """`availableNow` processes the records available at the start and exits; `processingTime 10
    seconds` runs until stopped, with a batch every 10 seconds."""
    checkpoint: Location | None = None
    """Folder or URL of the checkpoints, which record progress and make Delta writes exactly-once.
    A job that only prints needs none."""
    metrics: Metrics | None = None
    """Metrics export: Prometheus, a textfile, a log."""
    spark: dict[str, OptionText] = Field({})
    """Spark settings for `assignor run` (`spark.master`, …)."""
    seed: dict[TopicName, Seed] = Field({})
    """Seed records by topic, for `assignor run --with-broker`."""
    PREFIXES: ClassVar[dict[str, str]] = KAFKA_PREFIXES

    @property
    def all_sources(self) -> dict[str, Source]:
        """The sources by view name."""
        return {"records": self.source} if self.source else dict(self.sources)

    @property
    def all_transforms(self) -> dict[str, Transform]:
        """The transforms by view name, in order."""
        return {"result": self.transform} if self.transform else dict(self.transforms)

    @property
    def all_sinks(self) -> dict[str, Sink]:
        """The sinks by name."""
        return {"sink": self.sink} if self.sink else dict(self.sinks)

    @property
    def outputs(self) -> list[Output]:
        """One output per query: the sinks, and the targets for bad records."""
        outputs = [Output(n, self.locate("sink", n), sink) for n, sink in self.all_sinks.items()]
        for name, source in self.all_sources.items():
            dead_letter = source.records.dead_letter
            if dead_letter is not None:
                key_path = self.locate("source", name, "records.dead_letter")
                sink = dead_letter.to_sink(source.options)
                outputs.append(Output(f"{DEAD_LETTER_PREFIX}{name}", key_path, sink, name))
        return outputs

    @property
    def tables(self) -> list[tuple[str, DeltaSink]]:
        """The Delta sinks and dead-letter tables, with their key paths."""
        return [(o.key_path, o.sink) for o in self.outputs if isinstance(o.sink, DeltaSink)]

    def iterate_broker_uses(self) -> Iterator[tuple[str, dict[str, str], list[str]]]:
        """Yield key path, merged options, and topics (none for a pattern) of each use of Kafka."""
        for name, source in self.all_sources.items():
            options = self.merge_kafka_options(source.options)
            yield self.locate("source", name), options, source.topics
        for output in self.outputs:
            if isinstance(output.sink, KafkaSink):
                options = self.merge_kafka_options(output.sink.options)
                yield output.key_path, options, [output.sink.topic]

    @property
    def interval(self) -> str | None:
        """The trigger's interval; None for availableNow."""
        return re.sub("(?i)availableNow|processingTime", "", self.trigger).strip() or None

    def locate(self, kind: str, name: str, *keys: str) -> str:
        """Return a key's path in the YAML for messages, such as `sinks.orders` or `sink`."""
        section = kind if getattr(self, kind) is not None else f"{kind}s.{name}"
        return ".".join([section, *keys])

    def merge_kafka_options(self, options: dict[str, str]) -> dict[str, str]:
        """Merge the job's `kafka.*` options with a section's options, which take precedence."""
        return {**self.options, **options}

    def list_inputs(self, transform_name: str) -> list[str]:
        """Return the views that a transform reads: for SQL, the earlier ones named in its text."""
        transform = self.all_transforms[transform_name]
        views = [*self.all_sources, *self.all_transforms]
        earlier_views = views[: views.index(transform_name)]
        if transform.sql is None:
            return [transform.from_ or earlier_views[-1]]
        return [n for n in earlier_views if re.search(rf"\b{n}\b", transform.sql, re.IGNORECASE)]

    def find_view(self, sink: Sink) -> str:
        """Return the name of the view whose rows a sink writes."""
        return sink.from_ or list(self.all_transforms or self.all_sources)[-1]

    def find_sources(self, sink: Sink) -> tuple[str, ...]:
        """Return the names of the sources from which a sink may get rows."""
        pending_views, visited_views = [self.find_view(sink)], set()
        while pending_views:
            view = pending_views.pop()
            if view not in visited_views and view in self.all_transforms:
                pending_views += self.list_inputs(view)
            visited_views.add(view)
        return tuple(name for name in self.all_sources if name in visited_views)

    @model_validator(mode="after")
    def _check_sections(self) -> Self:
        for key in ("source", "sink", "transform"):
            if getattr(self, key) is not None and getattr(self, f"{key}s"):
                raise ValueError(f"'{key}' and '{key}s' cannot be used together")
        for section, entries in (("source", self.all_sources), ("sink", self.all_sinks)):
            if not entries:
                raise ValueError(f"{section!r} is missing: a job needs a source and a sink")
        views = list(self.all_sources)
        for name, transform in self.all_transforms.items():
            is_ambiguous = transform.python is not None and len(views) == len(self.all_sources)
            _check_from_key(self.locate("transform", name), transform.from_, views, is_ambiguous)
            views.append(name)
        for name, sink in self.all_sinks.items():
            key_path = self.locate("sink", name)
            _check_from_key(key_path, sink.from_, views, not self.all_transforms)
            if self.checkpoint is None and not isinstance(sink, ConsoleSink):
                raise ValueError("'checkpoint' is missing: set it to a folder for query progress")
        for key_path, options, _ in self.iterate_broker_uses():
            if SERVERS not in options:
                raise ValueError(f"{key_path}: {SERVERS!r} is missing")
            try:
                parse_servers(SERVERS, options[SERVERS])
            except OptionError as error:
                raise ValueError(f"{key_path}: {error}") from None
        for key in self.spark:
            if not key.startswith("spark."):
                raise ValueError(f"spark: {key!r} is not a Spark setting: use 'spark.{key}'")
        check_names_differ(self)
        check_folders(self)
        check_no_loops(self)
        return self


def _check_from_key(key_path: str, name: str | None, views: list[str], is_ambiguous: bool) -> None:
    """Check that `from` names an earlier view, and is set if several are possible."""
    if name is None and is_ambiguous and len(views) > 1:
        raise ValueError(f"{key_path}: 'from' is missing: set it to one of {', '.join(views)}")
    if name is not None and name not in views:
        raise ValueError(f"{key_path}.from: {name!r} is unknown: use one of {', '.join(views)}")


def build_json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a job, for editors."""
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "assignor job"}
    return {**Job.model_json_schema(by_alias=True), **draft}
