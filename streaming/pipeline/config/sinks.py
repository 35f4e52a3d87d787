"""Define the config models of sinks (Delta table, console, Kafka topic) and dead letters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from streaming.pipeline.config.base import (
    KAFKA_PREFIXES,
    SIZE_PATTERN,
    ColumnNames,
    Location,
    PositiveInt,
    Section,
    Size,
    TopicName,
    ViewName,
    require_one,
    require_pattern,
)

if TYPE_CHECKING:
    from typing_extensions import Self

_TABLE_PATTERN = r"(?:\w+|`[^`]+`)(?:\.(?:\w+|`[^`]+`)){0,2}"
_TABLE_FORMAT = "the name of a table such as 'orders' or 'shop.orders'"
_BYTES_PER_UNIT = {"KB": 1024, "MB": 1024**2, "GB": 1024**3}


class _TableSection(Section):
    """A Delta table by path or by name."""

    path: Location | None = None
    """Folder or URL of the Delta table."""
    table: Annotated[str, require_pattern(_TABLE_PATTERN, _TABLE_FORMAT)] | None = None
    """Name of the Delta table in the catalog, instead of `path`."""
    shared: bool = False
    """Whether other queries may append to the table: of another sink or job, or of this job with an
    earlier checkpoint. By default, a new query is refused if another has written to the table."""


class DeadLetter(_TableSection):
    """The target for bad records: a Delta table or a topic."""

    topic: TopicName | None = None
    """A topic on the source's broker, instead of a table."""

    @model_validator(mode="after")
    def _check_one_target(self) -> Self:
        require_one({"path": self.path, "table": self.table, "topic": self.topic})
        if self.shared and self.topic is not None:
            raise ValueError("'shared' is only for a table")
        return self

    def to_sink(self, options: dict[str, str]) -> DeltaSink | KafkaSink:
        """Return the sink for bad records; a topic gets the source's `kafka.*` options."""
        if self.topic is None:
            return DeltaSink(  # adds the column `reason` to older versions' tables
                path=self.path, table=self.table, shared=self.shared, schema_evolution=True
            )
        kafka_options = {key: value for key, value in options.items() if key.startswith("kafka.")}
        return KafkaSink.model_validate({"type": "kafka", "topic": self.topic, **kafka_options})


class DeltaSink(_TableSection):
    """A Delta table, written exactly once: rows are appended, or merged by key."""

    type: Literal["delta"] = "delta"
    """`delta`, `console` or `kafka`."""
    from_: ViewName | None = Field(None, alias="from")
    """Source or transform to write. Default: the last transform, or the only source."""
    mode: Literal["append", "upsert"] = "append"
    """`append` adds every row; `upsert` keeps the newest row of each key."""
    keys: ColumnNames = ()
    """For upsert: the columns that identify a row."""
    sequence_by: ColumnNames = ()
    """For upsert: columns that define which row of a key is newer, compared in order. By default,
    and if they are equal, the row with the higher offset is newer."""
    delete_when: str | None = None
    """For upsert: SQL condition for rows that are deletes, in addition to tombstones."""
    deletes: Literal["remove", "mark"] = "remove"
    """For upsert: `remove` deletes the row; `mark` keeps it with `_deleted = true`, so that older
    records that arrive later cannot restore it."""
    partition_by: ColumnNames = ()
    """Columns that a new table is partitioned by; an existing table must have the same."""
    cluster_by: ColumnNames = ()
    """Columns that a new table is clustered by; an existing table must have the same."""
    schema_evolution: bool = False
    """Add new columns, and new fields of structs, to the table. If false, they are an error."""
    target_file_size: Size = "128MB"
    """Approximate file size. A small batch is written as one file. With `off`, Spark writes one
    file per task."""
    compact_every: PositiveInt | None = None
    """Compact the table after every Nth batch."""

    @property
    def target_file_bytes(self) -> int | None:
        """The target file size in bytes; None if it is off."""
        number, unit = re.fullmatch(SIZE_PATTERN, self.target_file_size, re.IGNORECASE).groups()  # type: ignore[union-attr]
        return int(float(number) * _BYTES_PER_UNIT[unit.upper()]) if number else None

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        require_one({"path": self.path, "table": self.table})
        if self.mode == "upsert" and not self.keys:
            raise ValueError("mode 'upsert' needs 'keys': the columns that identify a row")
        if self.mode == "append":
            names = ("keys", "sequence_by", "delete_when")
            misused_keys = [name for name in names if getattr(self, name)]
            misused_keys += ["deletes: mark"] if self.deletes == "mark" else []
            if misused_keys:
                problem = f"{misused_keys[0]!r} is for mode 'upsert', but the mode is 'append'"
                raise ValueError(f"{problem}: remove it, or set mode: upsert")
        elif self.shared:
            raise ValueError("'shared' is for mode 'append', but the mode is 'upsert': remove it")
        if self.partition_by and self.cluster_by:
            raise ValueError("'partition_by' and 'cluster_by' are both set: remove one")
        return self


class ConsoleSink(Section):
    """The console, which prints rows, to try out a job."""

    type: Literal["console"]
    """`console`."""
    from_: ViewName | None = Field(None, alias="from")
    """Source or transform to write. Default: the last transform, or the only source."""
    rows: PositiveInt = 20
    """Maximum number of rows printed per batch."""
    truncate: bool = True
    """Whether long values are truncated."""
    output_mode: Literal["append", "update", "complete"] = "append"
    """Spark's output mode, for transforms that aggregate: `append`, `update` or `complete`."""


class KafkaSink(Section):
    """A Kafka topic, written at least once; a column `headers` becomes the records' headers."""

    type: Literal["kafka"]
    """`kafka`."""
    from_: ViewName | None = Field(None, alias="from")
    """Source or transform to write. Default: the last transform, or the only source."""
    topic: TopicName
    """The topic to write to; it must exist."""
    key: str | None = None
    """SQL expression for the key; by default the column `key`, if there is one. Bytes and text are
    kept; structs, lists and maps become JSON, other types text. This applies to the value, too."""
    value: str | None = None
    """SQL expression for the value; by default the column `value`, else all columns as JSON."""
    output_mode: Literal["append", "update", "complete"] = "append"
    """Spark's output mode, for transforms that aggregate: `append`, `update` or `complete`."""
    PREFIXES: ClassVar[dict[str, str]] = KAFKA_PREFIXES


def _get_sink_type(value: Any) -> str:
    """Return a sink's type; the default is a Delta table."""
    sink_type = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return str(sink_type or "delta")


Sink = Annotated[
    Annotated[DeltaSink, Tag("delta")]
    | Annotated[ConsoleSink, Tag("console")]
    | Annotated[KafkaSink, Tag("kafka")],
    Discriminator(
        _get_sink_type,
        custom_error_type="sink_type",
        custom_error_message="'type' is unknown: delta, console or kafka is expected",
    ),
]
