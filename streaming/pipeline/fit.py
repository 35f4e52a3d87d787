"""What of a job's parts cannot stand together: names, places that overlap, topics that feed back.

Only the config is looked at. Whether a table and a checkpoint belong together is `continuity`'s
question.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from streaming.pipeline.sinks_config import DeltaSink, KafkaSink

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from streaming.pipeline.config import Job
    from streaming.pipeline.sinks_config import ConsoleSink
    from streaming.pipeline.sources_config import Source

SERVERS = "kafka.bootstrap.servers"
#: Folders in a table's own folder that are Delta's.
_OF_DELTA = ("_delta_log", "_change_data", "_delta_index")


def check_names(job: Job) -> None:
    """Check that no two names are one to SQL, nor to the checkpoint's folders.

    Raises
    ------
    ValueError
        With the place in the config.
    """
    views: dict[str, str] = {}
    for kind, names in (("source", job.all_sources), ("transform", job.all_transforms)):
        for name in names:
            before = views.setdefault(name.lower(), name)
            if before != name:
                raise ValueError(
                    f"{job.place(kind, name)}: to SQL this name is the same as {before!r}: "
                    "use another"
                )
    folders = {
        f"dead_letter_{name}".lower(): name
        for name, source in job.all_sources.items()
        if source.records.dead_letter is not None
    }
    sinks: dict[str, str] = {}
    for name in job.all_sinks:
        if name.lower() in folders:
            raise ValueError(
                f"{job.place('sink', name)}: the name is that of the bad records of source "
                f"{folders[name.lower()]!r}: use another"
            )
        before = sinks.setdefault(name.lower(), name)
        if before != name:
            raise ValueError(
                f"{job.place('sink', name)}: the name differs from {before!r} only by case: "
                "use another"
            )


class _Place(NamedTuple):
    where: str
    path: str | None
    table: str | None
    shared: bool


def check_places_apart(job: Job) -> None:
    """Check that tables and the checkpoint do not lie in each other.

    Raises
    ------
    ValueError
        With the place in the config.
    """
    found = [_Place(where, t.path, t.table, t.shared) for where, t in job.tables()]
    for index, one in enumerate(found):
        for other in found[:index]:
            if _is_same(one, other) and not (one.shared and other.shared):
                raise ValueError(
                    f"{one.where}: the table {one.path or one.table!r} is that of {other.where}: "
                    "each needs its own (for rows of one kind join them in a transform by UNION "
                    "ALL, or set 'shared: true' for both)"
                )
    tables = {_parts(place.path): place for place in found if place.path is not None}
    inner, outer = dict(tables), dict(tables)
    if job.checkpoint is not None:
        root = _parts(job.checkpoint)
        if root in tables:
            raise ValueError(f"checkpoint: the folder is that of {tables[root].where}'s table")
        inner[root] = _Place("checkpoint", job.checkpoint, None, False)
        for part in _queries(job):
            own = (*root, part)
            outer[own] = _Place(
                f"the checkpoint of {part!r}", f"{job.checkpoint.rstrip('/')}/{part}", None, False
            )
    for steps, place in inner.items():
        for steps_above, above in outer.items():
            if place is not above and _lies_in(steps, steps_above):
                raise ValueError(
                    f"{place.where}: the folder {place.path!r} lies in {above.path!r}, that of "
                    f"{above.where}: VACUUM deletes what a table does not know; use folders side "
                    "by side"
                )


def _queries(job: Job) -> Iterator[str]:
    """Name the queries' own folders in the checkpoint."""
    yield from job.all_sinks
    for name, source in job.all_sources.items():
        if source.records.dead_letter is not None:
            yield f"dead_letter_{name}"


def _is_same(one: _Place, other: _Place) -> bool:
    if one.path is not None and other.path is not None:
        return _parts(one.path) == _parts(other.path)
    if one.table is not None and other.table is not None:
        return _plain_name(one.table) == _plain_name(other.table)
    return False


def _plain_name(table: str) -> str:
    parts = [part.strip("`").lower() for part in table.split(".")]
    return ".".join(parts if len(parts) > 1 else ["default", *parts])


def _parts(path: str) -> tuple[str, ...]:
    """Give the steps of a path, so that paths can be compared: scheme and host, then folders.

    As Hadoop reads it: nothing is quoted, `#` and `?` are letters.
    """
    scheme, colon, rest = path.partition(":")
    root, below = "", path
    if colon and "/" not in scheme:
        host, slash, folders = rest[2:].partition("/") if rest.startswith("//") else ("", "", rest)
        root, below = f"{scheme.lower()}://{host.lower()}", slash + folders
        if scheme.lower() == "file":
            root = ""
    if not root:
        below = os.path.normpath(Path.cwd() / below)
    return (root, *(part for part in below.split("/") if part))


def _lies_in(inner: tuple[str, ...], outer: tuple[str, ...]) -> bool:
    """Whether a folder is another, or in it; a folder of a hidden name is safe from VACUUM."""
    if inner[: len(outer)] != outer:
        return False
    if len(inner) == len(outer):
        return True
    name = inner[len(outer)]
    return not name.startswith("_") or name in _OF_DELTA or "=" in name


def check_no_loops(job: Job) -> None:
    """Check that nothing is written to a topic that it is read from.

    Raises
    ------
    ValueError
        With the place in the config.
    """
    for name, source in job.all_sources.items():
        letter = source.records.dead_letter
        topic = letter.topic if letter is not None else None
        if topic is not None and _reads(source, job.kafka_options(source.options), topic):
            raise ValueError(
                f"{job.place('source', name)}.records.dead_letter: the source reads the topic "
                f"{topic!r} itself, so each bad record would come again for ever: use another"
            )
    for name, sink in job.all_sinks.items():
        if not isinstance(sink, KafkaSink):
            continue
        written_to = _servers(job.kafka_options(sink.options))
        for origin in sources_of(job, sink):
            source = job.all_sources[origin]
            options = job.kafka_options(source.options)
            if _servers(options) & written_to and _reads(source, options, sink.topic):
                raise ValueError(
                    f"{job.place('sink', name)}: source {origin!r} reads the topic {sink.topic!r}, "
                    "so each record would come again for ever: use another"
                )


def sources_of(job: Job, sink: DeltaSink | KafkaSink | ConsoleSink) -> tuple[str, ...]:
    """Name the sources whose rows a sink may get; a name in SQL's text counts."""
    last = list(job.all_transforms or job.all_sources)[-1]
    ahead = [sink.from_ or last]
    seen: set[str] = set()
    views = [*job.all_sources, *job.all_transforms]
    while ahead:
        view = ahead.pop()
        if view in seen:
            continue
        seen.add(view)
        transform = job.all_transforms.get(view)
        if transform is None:
            continue
        earlier = views[: views.index(view)]
        if transform.sql is None:
            ahead.append(transform.from_ or earlier[-1])
        else:
            ahead += [n for n in earlier if re.search(rf"\b{n}\b", transform.sql, re.IGNORECASE)]
    return tuple(name for name in job.all_sources if name in seen)


def _servers(options: Mapping[str, str]) -> set[str]:
    return {text.strip().lower() for text in options.get(SERVERS, "").split(",")}


def _reads(source: Source, options: Mapping[str, str], topic: str) -> bool:
    if topic in named_topics(options):
        return True
    pattern = source.options.get("subscribePattern")
    with contextlib.suppress(re.error):  # Java's patterns have what Python's have not
        return pattern is not None and re.fullmatch(pattern, topic) is not None
    return False


def named_topics(options: Mapping[str, str]) -> list[str]:
    """Name the topics of `subscribe` or `assign`."""
    return [*_subscribed(options), *_assigned(options)]


def _subscribed(options: Mapping[str, str]) -> Iterator[str]:
    return (t.strip() for t in options.get("subscribe", "").split(",") if t.strip())


def _assigned(options: Mapping[str, str]) -> list[str]:
    try:
        found = json.loads(options.get("assign", "{}"))
    except ValueError:
        return []  # Spark says what is wrong with it
    return list(found) if isinstance(found, dict) else []
