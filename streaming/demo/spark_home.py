"""A SPARK_HOME whose scratch files land in a folder of ours.

`local-cluster` copies all jars for each executor to `$SPARK_HOME/work`. For a pyspark from PyPI
that lies inside site-packages, grows by half a gigabyte a session and is never emptied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignor_bridge import ivy

if TYPE_CHECKING:
    from pathlib import Path


def linked_spark_home(folder: Path) -> Path:
    """Make a SPARK_HOME in `folder` that links to all of the installed pyspark but its `work`."""
    home = folder / "spark-home"
    home.mkdir(parents=True)
    for entry in sorted(ivy.pyspark_home().iterdir()):
        if entry.name != "work":
            (home / entry.name).symlink_to(entry, target_is_directory=entry.is_dir())
    return home
