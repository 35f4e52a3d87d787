"""What to know of a Spark by the URL of its master or server: `assignor doctor --spark`."""

from __future__ import annotations

import re

from assignor_bridge.errors import OptionError
from streaming.observe.check import Check
from streaming.observe.masters import addresses_of, first_that_answers

_PAGE = "docs/platforms.md"
_HOW = "docs/deploy.md"
#: Whether the option works, and what to know, by what Spark accepts; it compares with case.
_KINDS = (
    (
        r"(?i:databricks(://.*)?|(sc|https)://[^/]*databricks(apps)?\.(com|net|us|cn|azure\.\w+).*)",
        False,
        "Databricks: no. It renames Kafka's classes, and this jar is compiled against Apache's",
    ),
    (r"mesos://.*", False, "Mesos: no. Spark 4 has removed it"),
    (r"local(\[(\d+|\*)(\s*,\s*\d+)?\])?", True, "local mode: tested"),
    (r"local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]", True, "local-cluster: tested"),
    (r"spark://.*", True, "standalone: tested"),
    (r"sc://.*", True, "Spark Connect: tested"),
    (r"yarn", True, f"YARN: expected to work, not tested ({_HOW}#yarn)"),
    (r"k8s://.*", True, f"Kubernetes: expected to work, not tested ({_HOW}#kubernetes)"),
)
_REAL_TIME = Check(
    "real-time mode",
    True,
    "needs a task slot for each partition (Spark 4.1 or later): Spark never reads the others",
)


def examine_spark(url: str) -> list[Check]:
    """Say whether the option works on this Spark, and whether something listens at its address.

    Raises OptionError when Spark does not accept the URL.
    """
    found = next((each for each in _KINDS if re.fullmatch(each[0], url)), None)
    if found is None:
        raise OptionError(
            f"--spark {url!r}: the URL of a master or server is expected: local[…], "
            f"spark://host:7077, yarn, k8s://…, sc://host; for other platforms see {_PAGE}"
        )
    _, works, details = found
    kind = Check("kind of Spark", works, details)
    if not works:
        return [kind]
    checks, addresses = [kind, _REAL_TIME], addresses_of(url)
    if not addresses:
        return checks
    name = "a master answers" if url.startswith("spark:") else "its server answers"
    try:
        there = f"{first_that_answers(addresses)} accepts connections (who it is was not asked)"
        return [*checks, Check(name, True, there)]
    except ConnectionError as error:
        return [*checks, Check(name, False, f"no answer ({error}): is it running?")]
    except ValueError as error:
        raise OptionError(f"--spark: {error}") from None
