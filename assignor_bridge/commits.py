"""Commits of completed batches, as the Java layer asks for them on the planner's standard input.

`{"commit": {"group", "batchId", "offsets": {topic: {partition: offset}}, "kafka": {…}}}` is taken
and answered at once; `{"flush": true}` is answered when nothing is under way, at the end of a
stream. `kafka`, the settings of the stream's Java client, comes with the first commit to a process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assignor_bridge.json_values import (
    InputError,
    integer,
    known,
    mapping,
    need,
    partition_key,
    string,
)

if TYPE_CHECKING:
    from checkpoints.group_commits import CommitReport, GroupCommits

_KEYS = ("group", "batchId", "offsets", "kafka")


class CommitDesk:
    """Takes the commits of one stream; costs nothing until the first."""

    def __init__(self) -> None:
        self._commits: GroupCommits | None = None

    def commit(self, value: Any) -> dict[str, Any]:
        """Leave the offsets of a completed batch to be committed; tells how those before went.

        Raises
        ------
        InputError
            When the request does not follow the contract; no value of `kafka` is told.
        """
        known(value, _KEYS, "commit")
        group = string(need(value, "group", "commit"), "commit.group")
        batch_id = integer(need(value, "batchId", "commit"), "commit.batchId", least=0)
        offsets = _offsets(need(value, "offsets", "commit"))
        java = _settings(value.get("kafka"))
        if self._commits is None:
            if java is None:
                raise InputError("commit has no 'kafka': the first commit to a process needs it")
            from checkpoints.group_commits import GroupCommits

            self._commits = GroupCommits()
        if java is not None:
            self._commits.use(java)
        from checkpoints.group_commits import Commit

        return _answer(self._commits.submit(Commit(group, batch_id, offsets)))

    def flush(self) -> dict[str, Any]:
        """Wait, within a limit, until all that was taken is committed."""
        return _answer(self._commits.flush() if self._commits is not None else None)

    @property
    def used(self) -> bool:
        """Whether there was a commit: then a thread of a Kafka client may be running."""
        return self._commits is not None


def _answer(report: CommitReport | None) -> dict[str, Any]:
    return {
        "ok": True,
        "commits": {
            "committed": report.committed if report else 0,
            "failed": report.failed if report else 0,
            "batchId": report.batch_id if report else None,
            "error": report.error if report else None,
        },
    }


def _offsets(value: Any) -> dict[tuple[str, int], int]:
    where = "commit.offsets"
    return {
        (topic, partition_key(key, f"{where}.{topic}")): integer(
            offset, f"{where}.{topic}.{key}", least=0
        )
        for topic, found in mapping(value, where).items()
        for key, offset in mapping(found, f"{where}.{topic}").items()
    }


def _settings(value: Any) -> dict[str, str] | None:
    """Give the settings as text; an error names a setting, never its value."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise InputError("commit.kafka is no object: an object of settings is needed")
    for name, setting in value.items():
        if not isinstance(setting, (str, int, float)):
            raise InputError(f"commit.kafka.{name} is no text and no number")
    return {name: str(setting) for name, setting in value.items()}
