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

_FOLDERS_IN_DELTA_TABLE = ("_delta_log", "_change_data", "_delta_index")


def check_names_differ(job: Job) -> None:
    """Check that no two views, and no two outputs, have names that differ at most in case."""
    key_path_by_view: dict[str, str] = {}
    for kind, names in (("source", job.all_sources), ("transform", job.all_transforms)):
        for name in names:
            key_path = job.locate(kind, name)
            other_key_path = key_path_by_view.setdefault(name.lower(), key_path)
            if other_key_path != key_path:
                problem = f"its view {name!r} has the same name as that of {other_key_path}"
                raise ValueError(f"{key_path}: {problem} (SQL ignores case): use another name")
    problem_by_name: dict[str, str] = {}
    for folder, key_path, _, bad_source in sorted(job.outputs, key=lambda x: not x.bad_source):
        if folder.lower() in problem_by_name:
            raise ValueError(f"{key_path}: the name {problem_by_name[folder.lower()]}: use another")
        reservation = f"is reserved for the bad records of source {bad_source!r}"
        case_conflict = f"differs from {folder!r} only by case"
        problem_by_name[folder.lower()] = reservation if bad_source else case_conflict


class _Folder(NamedTuple):
    owner: str
    path: str
    #: Scheme and host, then each folder name, to compare paths.
    parts: tuple[str, ...]


def check_folders(job: Job, locations: Mapping[str, str] | None = None) -> None:
    """Check that tables differ unless all are shared, and that tables and checkpoints do not nest.

    `locations` has the qualified folder of each existing table, by key path. Without it, a path is
    compared as configured, and a table by its name.
    """
    tables: list[_Folder] = []
    owner_by_parts: dict[tuple[str, ...], tuple[str, bool]] = {}
    for key_path, table in job.tables:
        location = (locations or {}).get(key_path) or table.path
        message_path = table.path or location
        parts = _split_path(location) if location is not None else _split_name(table.table or "")
        other_key_path, is_shared = owner_by_parts.setdefault(parts, (key_path, table.shared))
        if other_key_path != key_path and not (is_shared and table.shared):
            raise ValueError(
                f"{key_path}: {other_key_path} has the same table {table.path or table.table!r}: "
                "use different tables (to combine rows of the same kind, use UNION ALL in a "
                "transform, or set 'shared: true' for both if they append)"
            )
        if message_path is not None and other_key_path == key_path:
            tables.append(_Folder(key_path, message_path, parts))
    inner_folders, outer_folders = list(tables), list(tables)
    if job.checkpoint is not None:
        checkpoint = _Folder("checkpoint", job.checkpoint, _split_path(job.checkpoint))
        if checkpoint.parts in owner_by_parts:
            owner = owner_by_parts[checkpoint.parts][0]
            raise ValueError(f"checkpoint: the folder is the table of {owner}: use another")
        inner_folders.append(checkpoint)
        for name in (output.folder for output in job.outputs):
            path, parts = f"{job.checkpoint.rstrip('/')}/{name}", (*checkpoint.parts, name)
            outer_folders.append(_Folder(f"the checkpoint of {name!r}", path, parts))
    for folder in inner_folders:
        for ancestor in outer_folders:
            if folder.owner != ancestor.owner and _is_inside(folder.parts, ancestor.parts):
                vacuum_note = ", where VACUUM deletes unknown files" if ancestor in tables else ""
                raise ValueError(
                    f"{folder.owner}: the folder {folder.path!r} is inside {ancestor.path!r} of "
                    f"{ancestor.owner}{vacuum_note}: use separate folders"
                )


def _split_name(table: str) -> tuple[str, ...]:
    parts = [part.strip("`").lower() for part in table.split(".")]
    return ("table", *(parts if len(parts) > 1 else ["default", *parts]))


def _split_path(path: str) -> tuple[str, ...]:
    """Return `scheme://host` (empty for a local path), then each folder name.

    As in Hadoop, percent escapes are not decoded. Symbolic links of a local path are resolved.
    """
    scheme, colon, after_scheme = path.partition(":")
    scheme_and_host, folder_path = "", path
    if colon and "/" not in scheme:
        host, slash, folders = "", "", after_scheme
        if after_scheme.startswith("//"):
            host, slash, folders = after_scheme[2:].partition("/")
        scheme_and_host, folder_path = f"{scheme.lower()}://{host.lower()}", slash + folders
        if scheme.lower() == "file":
            scheme_and_host = ""
    if not scheme_and_host:
        folder_path = os.path.realpath(os.path.normpath(Path.cwd() / folder_path))
    return (scheme_and_host, *(part for part in folder_path.split("/") if part))


def _is_inside(inner_parts: tuple[str, ...], outer_parts: tuple[str, ...]) -> bool:
    """Return whether the inner folder is the outer one, or inside it.

    A folder `_name`, which VACUUM skips, counts as outside, unless it is Delta's or a partition's.
    """
    if inner_parts[: len(outer_parts)] != outer_parts:
        return False
    if len(inner_parts) == len(outer_parts):
        return True
    name = inner_parts[len(outer_parts)]
    return not name.startswith("_") or name in _FOLDERS_IN_DELTA_TABLE or "=" in name


def check_no_loops(job: Job) -> None:
    """Check that no query writes to a topic from which it may get its rows."""
    for _, key_path, sink, bad_source in job.outputs:
        if not isinstance(sink, KafkaSink):
            continue
        for name in [bad_source] if bad_source else job.find_sources(sink):
            source_options = job.all_sources[name].options
            source_servers, sink_servers = (
                {x.strip().lower() for x in job.merge_kafka_options(options)[SERVERS].split(",")}
                for options in (source_options, sink.options)
            )
            if source_servers & sink_servers and job.all_sources[name].reads(sink.topic):
                noun = "bad record" if bad_source else "record"
                problem = f"source {name!r} reads the topic {sink.topic!r}, so each {noun}"
                raise ValueError(
                    f"{key_path}: {problem} would be read again forever: use another topic"
                )
