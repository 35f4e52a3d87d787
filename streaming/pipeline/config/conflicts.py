"""What of a job's parts cannot stand together: names, places that overlap, topics that feed back.

Each check raises a ValueError with the place in the config. Whether a table and a checkpoint belong
together is the question of `delta.continuity`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from streaming.pipeline.config.base import SERVERS
from streaming.pipeline.config.sinks import KafkaSink

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streaming.pipeline.config.job import Job

#: Folders in a table's own folder that are Delta's.
_OF_DELTA = ("_delta_log", "_change_data", "_delta_index")


def check_names(job: Job) -> None:
    """Check that no two names are one to SQL, nor to the checkpoint's folders."""
    views: dict[str, str] = {}
    for kind, names in (("source", job.all_sources), ("transform", job.all_transforms)):
        for name in names:
            if name.lower() in views:
                same = f"to SQL this name is the same as {views[name.lower()]!r}"
                raise ValueError(f"{job.place(kind, name)}: {same}: use another")
            views[name.lower()] = name
    why: dict[str, str] = {}
    for part, place, _, source in sorted(job.outputs, key=lambda output: output.bad_of is None):
        if part.lower() in why:
            raise ValueError(f"{place}: the name {why[part.lower()]}: use another")
        bad = f"is that of the bad records of source {source!r}"
        why[part.lower()] = bad if source else f"differs from {part!r} only by case"


class _Folder(NamedTuple):
    where: str
    path: str
    #: Scheme and host, then folders, so that paths can be compared.
    steps: tuple[str, ...]


def check_apart(job: Job, locations: Mapping[str, str] | None = None) -> None:
    """Check that tables and the checkpoint do not lie in each other.

    `locations` has the folders of tables that are there, as Spark names them, by place in the
    config: a path alone does not tell its file system, nor a name its folder.
    """
    tables: list[_Folder] = []
    seen: dict[tuple[str, ...], tuple[str, bool]] = {}
    for where, table in job.tables:
        location = (locations or {}).get(where) or table.path
        path = table.path or location
        steps = _steps(location) if location is not None else _name_parts(table.table or "")
        other, is_shared = seen.setdefault(steps, (where, table.shared))
        if other != where and not (is_shared and table.shared):
            raise ValueError(
                f"{where}: the table {table.path or table.table!r} is that of {other}: "
                "each needs its own (for rows of the same kind, join them in a transform by UNION "
                "ALL, or set 'shared: true' for both)"
            )
        if path is not None and other == where:
            tables.append(_Folder(where, path, steps))
    inner, outer = list(tables), list(tables)
    if job.checkpoint is not None:
        root = _Folder("checkpoint", job.checkpoint, _steps(job.checkpoint))
        if root.steps in seen:
            raise ValueError(f"checkpoint: the folder is that of {seen[root.steps][0]}'s table")
        inner.append(root)
        for part in (output.part for output in job.outputs):
            path = f"{job.checkpoint.rstrip('/')}/{part}"
            outer.append(_Folder(f"the checkpoint of {part!r}", path, (*root.steps, part)))
    for folder in inner:
        for above in outer:
            if folder.where != above.where and _lies_in(folder.steps, above.steps):
                raise ValueError(
                    f"{folder.where}: the folder {folder.path!r} is in {above.path!r}, that of "
                    f"{above.where}: VACUUM deletes what a table does not know; use folders side "
                    "by side"
                )


def _name_parts(table: str) -> tuple[str, ...]:
    parts = [part.strip("`").lower() for part in table.split(".")]
    return ("table", *(parts if len(parts) > 1 else ["default", *parts]))


def _steps(path: str) -> tuple[str, ...]:
    """Split a path as Hadoop reads it: nothing is quoted, `#` and `?` are letters."""
    scheme, colon, rest = path.partition(":")
    root, below = "", path
    if colon and "/" not in scheme:
        host, slash, folders = rest[2:].partition("/") if rest.startswith("//") else ("", "", rest)
        root, below = f"{scheme.lower()}://{host.lower()}", slash + folders
        if scheme.lower() == "file":
            root = ""
    if not root:
        below = os.path.realpath(os.path.normpath(Path.cwd() / below))
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
    """Check that nothing is written to a topic that it is read from."""
    for _, place, sink, source in job.outputs:
        if not isinstance(sink, KafkaSink):
            continue
        for name in [source] if source else job.sources_of(sink):
            options = job.all_sources[name].options
            read_from, written_to = (
                {text.strip().lower() for text in job.kafka_options(own)[SERVERS].split(",")}
                for own in (options, sink.options)
            )
            if read_from & written_to and job.all_sources[name].reads(sink.topic):
                itself = f"the source reads the topic {sink.topic!r} itself, so each bad record"
                other = f"source {name!r} reads the topic {sink.topic!r}, so each record"
                raise ValueError(
                    f"{place}: {itself if source else other} would come again forever: use another"
                )
