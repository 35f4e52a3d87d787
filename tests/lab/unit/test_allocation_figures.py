"""What the picture of dynamic allocation shows is what was measured."""

from __future__ import annotations

from tests.lab.benchmarks.allocation_figures import PANELS, SHORT, each_second, picture


def test_a_value_holds_from_its_second_on() -> None:
    assert each_second([(-3.0, 1), (0.5, 2), (2.0, 4)], 4) == [1, 2, 4, 4]
    assert each_second([(1.5, 7.123)], 3) == [0, 0, 7.12]


def test_both_runs_are_in_both_panels() -> None:
    runs = {name: {figure: [1.0, 2.0, 1.0] for figure in PANELS} for name in SHORT}
    drawn = picture(runs)
    for heading in PANELS.values():
        assert f">{heading}</text>" in drawn
    for name in SHORT.values():
        assert drawn.count(f">{name}</text>") == len(PANELS)
