"""Check a job for conflicts between its parts: equal names, nested folders, and topic loops.

Each check raises a ValueError that starts with the key's path.
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

#: Delta's folders inside the folder of a table.
_DELTA_FOLDERS = ("_delta_log", "_change_data", "_delta_index")


def check_names(job: Job) -> None:
    """Check that no two names are equal if case is ignored, as SQL and some file systems do."""
    views: dict[str, str] = {}
    for kind, names in (("source", job.all_sources), ("transform", job.all_transforms)):
        for name in names:
            if name.lower() in views:
                problem = f"SQL ignores case, so this name is equal to {views[name.lower()]!r}"
                raise ValueError(f"{job.locate(kind, name)}: {problem}: use another")
            views[name.lower()] = name
    problems: dict[str, str] = {}
    for folder, key_path, _, source in sorted(job.outputs, key=lambda x: x.bad_source is None):
        if folder.lower() in problems:
            raise ValueError(f"{key_path}: the name {problems[folder.lower()]}: use another")
        for_bad_records = f"is reserved for the bad records of source {source!r}"
        differs_by_case = f"differs from {folder!r} only by case"
        problems[folder.lower()] = for_bad_records if source else differs_by_case


class _Folder(NamedTuple):
    owner: str
    path: str
    #: Scheme and host, then each folder name, to compare paths.
    parts: tuple[str, ...]


def check_folders(job: Job, locations: Mapping[str, str] | None = None) -> None:
    """Check that tables differ (unless all are shared) and do not nest with the checkpoint.

    `locations` has the qualified folder of each existing table, by key path. The config alone may
    have a path without a file system, or a table name without a folder.
    """
    tables: list[_Folder] = []
    owners: dict[tuple[str, ...], tuple[str, bool]] = {}
    for key_path, table in job.tables:
        location = (locations or {}).get(key_path) or table.path
        path = table.path or location
        parts = _split_path(location) if location is not None else _split_name(table.table or "")
        other_key_path, is_shared = owners.setdefault(parts, (key_path, table.shared))
        if other_key_path != key_path and not (is_shared and table.shared):
            raise ValueError(
                f"{key_path}: {other_key_path} has the same table {table.path or table.table!r}: "
                "use different tables (to combine rows of the same kind, use UNION ALL in a "
                "transform, or set 'shared: true' for both)"
            )
        if path is not None and other_key_path == key_path:
            tables.append(_Folder(key_path, path, parts))
    inner_folders, outer_folders = list(tables), list(tables)
    if job.checkpoint is not None:
        root = _Folder("checkpoint", job.checkpoint, _split_path(job.checkpoint))
        if root.parts in owners:
            owner = owners[root.parts][0]
            raise ValueError(f"checkpoint: the folder is the table of {owner}: use another")
        inner_folders.append(root)
        for name in (output.folder for output in job.outputs):
            path = f"{job.checkpoint.rstrip('/')}/{name}"
            outer_folders.append(_Folder(f"the checkpoint of {name!r}", path, (*root.parts, name)))
    for folder in inner_folders:
        for ancestor in outer_folders:
            if folder.owner != ancestor.owner and _is_inside(folder.parts, ancestor.parts):
                raise ValueError(
                    f"{folder.owner}: the folder {folder.path!r} is inside {ancestor.path!r} of "
                    f"{ancestor.owner}, where VACUUM deletes unknown files: use separate folders"
                )


def _split_name(table: str) -> tuple[str, ...]:
    parts = [part.strip("`").lower() for part in table.split(".")]
    return ("table", *(parts if len(parts) > 1 else ["default", *parts]))


def _split_path(path: str) -> tuple[str, ...]:
    """Split a path as Hadoop does: there are no escapes, and `#` and `?` are literal."""
    scheme, colon, after_scheme = path.partition(":")
    root, folder_path = "", path
    if colon and "/" not in scheme:
        has_host, without_host = after_scheme.startswith("//"), ("", "", after_scheme)
        host, slash, folders = after_scheme[2:].partition("/") if has_host else without_host
        root, folder_path = f"{scheme.lower()}://{host.lower()}", slash + folders
        if scheme.lower() == "file":
            root = ""
    if not root:
        folder_path = os.path.realpath(os.path.normpath(Path.cwd() / folder_path))
    return (root, *(part for part in folder_path.split("/") if part))


def _is_inside(inner: tuple[str, ...], outer: tuple[str, ...]) -> bool:
    """Return whether `inner` is `outer`, or a folder inside it where VACUUM deletes files."""
    if inner[: len(outer)] != outer:
        return False
    if len(inner) == len(outer):
        return True
    name = inner[len(outer)]
    return not name.startswith("_") or name in _DELTA_FOLDERS or "=" in name


def check_no_loops(job: Job) -> None:
    """Check that no sink writes to a topic from which its rows were read."""
    for _, key_path, sink, source in job.outputs:
        if not isinstance(sink, KafkaSink):
            continue
        for name in [source] if source else job.find_sources(sink):
            source_options = job.all_sources[name].options
            source_servers, sink_servers = (
                {x.strip().lower() for x in job.merge_kafka_options(options)[SERVERS].split(",")}
                for options in (source_options, sink.options)
            )
            if source_servers & sink_servers and job.all_sources[name].reads(sink.topic):
                bad_loop = f"the source reads the topic {sink.topic!r} itself, so each bad record"
                loop = f"source {name!r} reads the topic {sink.topic!r}, so each record"
                raise ValueError(
                    f"{key_path}: {bad_loop if source else loop} would be read again forever: use "
                    "another topic"
                )
