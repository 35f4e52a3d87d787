"""Options: what is accepted, and what a refusal tells the user."""

from __future__ import annotations

import pytest

from assignor_bridge.errors import OptionError
from assignor_bridge.options import OPTIONS, PlannerOptions, list_effective_options, parse_options


def test_without_options_the_defaults_hold():
    assert parse_options({}) == PlannerOptions()


def test_names_are_compared_without_case_as_spark_lowers_them():
    options = parse_options({"ASSIGNOR.maximbalance": "0.2", "minpartitions": "7"})
    assert (options.max_imbalance, options.min_partitions) == (0.2, 7)


def test_options_of_others_are_left_alone():
    assert parse_options({"kafka.bootstrap.servers": "x", "subscribe": "t"}) == PlannerOptions()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"assignor.maxImbalanc": "1"}, "did you mean 'assignor.maxImbalance'"),
        ({"assignor.zzz": "1"}, r"unknown option 'assignor.zzz': use one of assignor.split, "),
        ({"assignor.split": "maybe"}, "'assignor.split' is 'maybe': true or false"),
        ({"assignor.maxImbalance": "-1"}, "a number from 0 to 10"),
        ({"assignor.maxImbalance": "nan"}, "a number from 0 to 10"),
        ({"assignor.minRecordsPerTask": "0"}, "a whole number from 1"),
        ({"assignor.onError": "panic"}, "fallback or fail"),
        ({"assignor.reader": "x"}, "shared or spark"),
        ({"assignor.priorities": "a"}, "host patterns"),
        ({"assignor.commitGroup": " "}, "the name of a consumer group"),
        ({"assignor.commitGroup": "a\nb"}, "the name of a consumer group"),
        ({"assignor": ","}, "an assignor name is expected"),
        (
            {"assignor": "sticky, None"},
            "'none' keeps Spark's default assignment .* excludes all others",
        ),
        ({"assignor.planLog": " "}, "the path of a local file is expected"),
        ({"assignor.rackFile": "s3://a/b"}, "the path of a local file is expected"),
        ({"assignor.rack": "ZONE"}, "'assignor.rack' is 'ZONE': env:NAME with the name"),
        ({"assignor.rack": "file:ZONE"}, "env:NAME with the name of an environment variable"),
        ({"assignor.rack": "env:A B"}, "env:NAME with the name of an environment variable"),
        ({"assignor.rack": "env:"}, "env:NAME with the name of an environment variable"),
        ({"assignor.racks": "env:A"}, "assignor.rack"),
        ({"assignor.planLog": "s3://a/b"}, "the path of a local file is expected"),
        ({"assignor.split": "true", "ASSIGNOR.split": "false"}, "'assignor.split' is set twice"),
        ({"assignor.mine.x": "1"}, "unknown option 'assignor.mine.x'"),
        ({"assignor": "mine", "assignor.mine": "1"}, "unknown option 'assignor.mine'"),
        ({"assignor.alignEventTime": "600"}, "'600': a duration with its unit, such as 30 seconds"),
        ({"assignor.alignEventTime": "0 minutes"}, "a duration with its unit"),
        ({"assignor.alignEventTime": "-5 minutes"}, "a duration with its unit"),
        ({"assignor.alignEventTime": "1.5 hours"}, "a duration with its unit"),
        ({"assignor.alignEventTime": "10 parsecs"}, "a duration with its unit"),
        ({"assignor.alignEventTime": ""}, "a duration with its unit"),
        ({"assignor.alignEventTime": "99999999 days"}, "a duration with its unit"),
        ({"assignor.maxFutureSeconds": "-1"}, "a number of seconds from 0 to 86400"),
        (
            {"assignor.alignEventTime": "1 hour", "assignor.fairness": "even"},
            "needs a limit on the batch's size: set maxOffsetsPerTrigger",
        ),
        ({"assignor.targetBatchSeconds": "0"}, "a number of seconds from 0.001"),
        ({"assignor.targetBatchSeconds": "nan"}, "a number of seconds from 0.001"),
        ({"assignor.maxBytesPerTrigger": "-5"}, "a whole number from 1"),
        (
            {"assignor.maxBytesPerTrigger": "5", "assignor.reader": "spark"},
            "Spark's own reader does not report bytes",
        ),
        ({"assignor.fairness": "odd"}, "proportional, even or deadline"),
        (
            {"assignor.fairness": "even"},
            "needs a limit on the batch's size: set maxOffsetsPerTrigger",
        ),
        ({"assignor.floor.t": "5"}, "needs a limit on the batch's size: set maxOffsetsPerTrigger"),
        ({"assignor.weight.t": "0", "maxOffsetsPerTrigger": "9"}, "a number from 0.001"),
        ({"assignor.weight.": "2"}, "unknown option 'assignor.weight.'"),
        (
            {"assignor.weight.x": "2", "maxOffsetsPerTrigger": "9", "subscribe": "a, b"},
            "'assignor.weight.x' names a topic that is not read: use one of a, b",
        ),
        (
            {"assignor.floor.a": "5", "assignor.floor.b": "4", "maxoffsetspertrigger": "9"},
            "topic floors .* add up to 9, which",
        ),
        (
            {"assignor.minRecordsPerTask": "9", "maxRecordsPerPartition": "5"},
            "above the maximum of 5 ",
        ),
    ],
)
def test_refusals(given, message):
    with pytest.raises(OptionError, match=message):
        parse_options(given)


def test_options_of_own_assignors_are_kept_as_they_were_written():
    given = {"assignor": "a.b:Mine,sticky", "Assignor.mine.maxAge": "5", "assignor.split": "false"}
    options = parse_options(given)
    assert options.custom_options == (("mine.maxAge", "5"),)
    assert list_effective_options(options)["assignor.mine.maxAge"] == "5"


def test_none_stands_alone():
    assert parse_options({"assignor": "none"}).assignors == ("none",)


def test_effective_values_are_named_as_documented():
    shown = list_effective_options(
        parse_options({"assignor": "streams, sticky", "assignor.priorities": "a*=1 , b=-2"})
    )
    assert shown["assignor"] == "streams,sticky"
    assert shown["assignor.priorities"] == "a*=1,b=-2"
    assert shown["assignor.planTimeoutMs"] == 10_000
    assert {option.name for option in OPTIONS} < set(shown)


LIMITED = {
    "assignor.targetBatchSeconds": "1.5", "assignor.maxBytesPerTrigger": "1000",
    "assignor.fairness": "Even", "assignor.weight.Orders": "2.5", "assignor.floor.my.topic": "10",
}  # fmt: skip


def test_options_of_limited_batches():
    options = parse_options({**LIMITED, "assign": '{"orders": [0], "my.topic": [1]}'})
    assert options.limits_batches
    assert (options.target_batch_seconds, options.max_bytes_per_trigger) == (1.5, 1000)
    assert (options.fairness, options.weights, options.floors) == (
        "even", (("orders", 2.5),), (("my.topic", 10),),
    )  # fmt: skip
    assert list_effective_options(options)["assignor.weight.orders"] == 2.5
    deadline = {"assignor.fairness": " Deadline", "maxOffsetsPerTrigger": "5"}
    assert parse_options(deadline).fairness == "deadline"


def test_without_them_batches_are_sparks():
    assert not parse_options({"maxOffsetsPerTrigger": "5"}).limits_batches
    assert not parse_options({"assignor.fairness": "proportional"}).limits_batches


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10 minutes", 600), ("1 hour 30 Minutes", 5400), (" 5seconds ", 5), ("2 days", 172_800),
        ("1 millisecond", 0.001), ("36500 days", 36_500 * 86_400),
    ],
)  # fmt: skip
def test_durations(text, seconds):
    options = parse_options({"assignor.alignEventTime": text})
    assert options.align_event_time == seconds
    assert options.limits_batches
    assert options.needs_times
    assert list_effective_options(options)["assignor.alignEventTime"] == seconds


def test_no_times_are_needed_without_alignment():
    assert not parse_options(LIMITED).needs_times
    assert not parse_options({"assignor.maxFutureSeconds": "0"}).limits_batches
