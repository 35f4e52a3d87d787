"""What the driver's first look for the switch's file ends with, where the file system fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.java_program import compile_programs, run_java

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.integration, pytest.mark.drivers]


@pytest.mark.long
def test_a_stop_while_the_switch_is_looked_for_at_the_start_is_no_misuse(tmp_path: Path) -> None:
    """A query that was stopped then was told that its settings are wrong."""
    done = run_java(
        compile_programs(tmp_path, "SwitchChecks"), "settings.SwitchChecks", "stopped", "slow"
    )
    stopped, slow = done.stdout.splitlines()
    assert stopped == "stopped: interrupted"
    assert slow.startswith("slow: misuse: spark.assignor.killSwitchFile could not be checked: ")
