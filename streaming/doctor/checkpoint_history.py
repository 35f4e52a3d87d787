"""What a checkpoint's own log says of its topics: one that was made again lets a batch go back."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from checkpoints.offset_log import Checkpoint

_SHOWN = 3


def topics_made_again(checkpoint: Checkpoint) -> dict[tuple[str, str], str]:
    """Give the topics, by source and name, that the batch which waits would read again from before.

    Spark plans such a batch, and then fails it: a partition ends before the place that the batch
    before it had reached, or is not there any more. A batch that completed all the same, with
    `failOnDataLoss=false`, is history.
    """
    planned, done = checkpoint.last_planned, checkpoint.last_committed
    if planned is None or done is None or planned is done:
        return {}
    found = {}
    for source, ends in planned.ends.items():
        for topic, before in checkpoint.ends_of(source, done).items():
            now = ends.get(topic, {})
            back = [
                f"{topic}-{number} up to {now[number]} after {at}"
                if number in now
                else f"{topic}-{number} no more after {at}"
                for number, at in sorted(before.items())
                if now and now.get(number, -1) < at
            ]
            if back:
                more = f" and {len(back) - _SHOWN} more" if len(back) > _SHOWN else ""
                found[source, topic] = (
                    f"batch {planned.batch_id}, which is planned, would read "
                    f"{', '.join(back[:_SHOWN])}{more}"
                )
    return found
