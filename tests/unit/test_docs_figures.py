"""Compare figures in README and docs with the benchmarks' files.

After a new measurement the test lists the phrases that a page lacks.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
Row = dict[str, Any]
OURS = "lag-aware-sticky"


def rows(name: str) -> list[Row]:
    text = (ROOT / "docs" / "benchmarks" / f"{name}.json").read_text(encoding="utf-8")
    found: list[Row] = json.loads(text)["rows"]
    return found


def by(key: str, name: str) -> dict[Any, Row]:
    return {row[key]: row for row in rows(name)}


def short(number: float) -> str:
    """Three digits at most, and two decimals at most."""
    return f"{number:.{2 if number < 10 else 1 if number < 60 else 0}f}"


def rounded(number: float) -> str:
    return f"{number:.{1 if number < 10 else 0}f}"


def of_reader(start: str, reader: str, unit: str = "") -> Row:
    return next(
        row
        for row in rows("reader")
        if row["workload"].startswith(start) and row["reader"] == reader and unit in row["unit"]
    )


def end_to_end() -> tuple[float, float, dict[str, float]]:
    """Ours, Spark's default, and all other ways of Spark."""
    batch = {row["mapping"]: float(row["batch_s_median"]) for row in rows("end_to_end")}
    return batch.pop(OURS), batch.pop("Spark: default"), batch


def readme() -> Iterator[str]:
    ours, default, others = end_to_end()
    yield f"| **{ours:.1f}** | {default:.1f} | {min(others.values()):.1f} |"
    many = [
        of_reader("1,000 partitions", name)["median"]
        for name in ("shared reader", "Spark, default", "Spark, best setting")
    ]
    yield f"| **{many[0]:.2f}** | {many[1]:.0f} | {many[2]:.1f} |"
    fresh = fresh_cell("append", 24, 5000)
    ours_p99, default_p99, best_p99 = (fresh[way]["p99_s"] for way in WAYS)
    both = in_both_runs(ours_p99, "append, Zipf 1.1 volumes: age p99, s")
    yield f"| **{both}** | {default_p99:.1f} | {best_p99:.1f} |"
    yield planning()


def planning() -> str:
    medians = sorted(row["plan_ms_median"] for row in rows("plan_latency"))
    return f"{medians[0]:.0f} to {medians[-1]:.0f} ms"


def in_one_run(target: str) -> float:
    """Return what the run of all targets measured."""
    [figure] = [row["measured"] for row in rows("one_run") if row["what"] == target]
    return float(figure)


def in_both_runs(figure: float, target: str) -> str:
    """Return two runs of the same cell, lower first; one where they agree."""
    return " and ".join(sorted({f"{figure:.2f}", f"{in_one_run(target):.2f}"}, key=float))


def alternatives() -> Iterator[str]:
    ours, default, others = end_to_end()
    split = [seconds for mapping, seconds in others.items() if "no wait" not in mapping]
    yield f"takes {default:.1f} s by default, {min(split):.1f} to {max(split):.1f} s with"
    yield f"{others['Spark: minPartitions=32, no wait']:.1f} s with `minPartitions` and"
    yield f"{ours:.1f} s with the option"
    skewed = simulated("zipf 1.2, 16")
    yield f"`minPartitions` is {skewed['minPartitions']:.0%} above the ideal on such a topic and"
    yield f"topic and the option {skewed[OURS]:.0%}"


def simulated(scenario: str) -> dict[str, float]:
    """Return what each mapping is over the ideal in the simulator."""
    found = [row for row in rows("simulator") if row["scenario"].startswith(scenario)]
    return {row["mapping"]: row["over_ideal"] for row in found}


def over_the_ideal() -> str:
    measured = by("mapping", "end_to_end")[OURS]["times_the_ideal"]
    return f"{measured - 1:.0%}"


def guarantees() -> Iterator[str]:
    yield f"one measured skewed batch took {over_the_ideal()} longer than the ideal"


def evidence() -> Iterator[str]:
    measured = rows("row_order")
    small = [row["ratio"] for row in measured if "partitions" in row["load"]]
    yield f"take {min(small):.2f} to {max(small):.2f} times as long"
    near, two, far = (row["ratio"] for row in measured if "backlog" in row["load"])
    yield f"takes {near:.2f} times as long from one broker on the"
    yield f"same machine, {two:.2f} from two, and {far:.2f} from a broker"


def benchmarks() -> Iterator[str]:
    yield from nexmark()
    yield f"A skewed batch was {over_the_ideal()} above it"
    ours = [row["over_ideal"] for row in rows("simulator") if row["mapping"] == OURS]
    yield f"service time, {100 * min(ours):.0f} to {max(ours):.0%}."


def how_it_works() -> Iterator[str]:
    names = ("shared reader", "Spark, best setting")
    ours, best = (of_reader("1,000 partitions", name)["median"] for name in names)
    yield f"{ours:.2f} s per batch compared with {best:.1f} s at Spark's best setting"


def decisions() -> Iterator[str]:
    costs = simulated("costs")
    yield f"Spark's default {costs['spark']:.0%} above the ideal, learned costs {costs[OURS]:.0%})"


def resident() -> dict[int, list[float]]:
    """Return what the planner holds between batches, in MB, by partitions of each stream."""
    found: dict[int, list[float]] = {}
    for row in rows("planner_memory"):
        found.setdefault(row["partitions"], []).append(row["rss_mb"])
    return found


def planner_time() -> Iterator[str]:
    steady = [rounded(row["ms_median"]) for row in rows("planner") if row["case"] == "steady"]
    yield f"takes {steady[0]} ms for 1,000 partitions, {steady[1]} ms for 10,000, and"
    yield f"{steady[2]} ms for 100,000"


def memory() -> Iterator[str]:
    yield from states()
    mb = {partitions: f"{held[0]:.0f} MB" for partitions, held in resident().items()}
    yield f"took {mb[1_000]} with 1,000 partitions, {mb[10_000]} with 10,000, and"
    yield f"{mb[100_000]} with 100,000"
    found = {row["reader"]: row for row in rows("load") if row["partitions"] == 10_000}
    columns = ("heap, MB", "peak resident, MB")
    ours, sparks = (
        [f"{found[reader][column]:,} MB" for column in columns]
        for reader in ("shared reader", "Spark, cache 64")
    )
    yield f"heap held {ours[0]} and its process {ours[1]}; with Spark's reader and its cache"
    yield f"its cache of 64 consumers {sparks[0]} and {sparks[1]}"
    grown = next(row for row in rows("executor_memory") if row["part"] == "resident")
    option, spark, arenas = (
        grown[job].split("; ")[1].split()[0].lstrip("+") for job in list(grown)[1:]
    )
    yield f"by {option} MB with the option and by {spark} MB without it"
    yield f"they grew by {arenas} MB"


def slots() -> Iterator[str]:
    simulated = [row for row in rows("least_slots") if row["how"] == "simulated"]
    ours = [row["slots"] for row in simulated if row["way"] == OURS]
    [equal] = {
        row["slots"]
        for row in simulated
        if row["way"] == "minPartitions" and row["lags"] == "equal"
    }
    yield f"{min(ours)} to {max(ours)} with the option, {equal} with `minPartitions`"


def shared() -> Iterator[str]:
    seconds = {
        (row["records_a_batch"], row["mapping"]): row["batch_s_median"]
        for row in rows("shared_slots")
        if row["queries"] == "1 : 10"
    }
    for size, words in ((600, "the small one's batches"), (6000, "the large one's")):
        free, limited = seconds[size, OURS], seconds[size, f"{OURS}, slots"]
        yield f"{words} from {free:.1f} s to {limited:.1f} s"


def minutes(phrase: str, *numbers: int) -> Iterator[str]:
    """What the driver of the long run held in these minutes."""
    driver = {row["minute"]: row["driver_mb"] for row in rows("long_run")}
    yield phrase.format(*(driver[number] for number in numbers))


def soak_page() -> dict[str, Any]:
    text = (ROOT / "docs" / "benchmarks" / "soak.json").read_text(encoding="utf-8")
    page: dict[str, Any] = json.loads(text)
    return page


def soak() -> Iterator[str]:
    page = soak_page()
    series = page["series"]
    batch_s, heap = series["batch_s, median"], series["executors, live heap, MB"]
    yield f"took a median of {batch_s[9]:.2f} s in the last tenth of the batches, when"
    yield f"nothing else ran, and {batch_s[6]:.2f} s in the seventh"
    yield f"both executors together {heap[0]} MB in the first tenth of the run and {heap[9]} MB in"
    driver = series["driver, live heap, MB"]
    yield f"the driver {driver[0]} and {driver[9]} MB"
    rises = {row["part"]: float(row["MB an hour"]) for row in page["rows"]}
    yield f"The driver rose by {rises['driver']:.0f} MB an hour"
    yield f"executors together by {rises['executors']:.0f} MB, of"
    counts = re.search(r"([\d,]+) batches, ([\d,]+) records", page["notes"])
    assert counts
    yield f"{counts[2]} records in {counts[1]} batches"


def faults() -> Iterator[str]:
    yield from soak()
    for row in rows("load"):
        told = ("fetches a batch", "ListOffsets a batch", "connections made a batch", "sessions")
        cells = [f"{row[column]:,}" for column in told]
        yield f"| {row['partitions']:,} | {row['reader']} | {' | '.join(cells)} |"
    for row in rows("large"):
        quality = [f"{row[column]:.2%}" for column in ("stayed", "stayed, a tenth lost")]
        sizes = [f"{row[column]:.1f} MB" for column in ("request_mb", "answer_mb")]
        memory = f"{row['rss_mb']:.0f} MB, {row['peak_rss_mb']:.0f} MB"
        cells = [*sizes, memory, *quality, f"{row['busiest/ideal']:.3f}"]
        yield f"| {row['executors']:,} | {' | '.join(cells)} |"


def states() -> Iterator[str]:
    steady = {row["partitions"]: row for row in rows("planner") if row["case"] == "steady"}
    kb = [steady[number]["state_kb"] for number in (1_000, 10_000)]
    yield f"{kb[0]} KB for 1,000 partitions, {kb[1]} KB for 10,000"


def reader() -> Iterator[str]:
    names = ("shared reader", "Spark, default", "Spark, best setting")
    many = [of_reader("1,000 partitions", name)["median"] for name in names]
    yield f"| {many[0]:.2f} | {many[1]:.0f} (one batch) | {many[2]:.1f} |"
    for start, digits in (("one partition, a million", -3), ("one partition, 20,000", -2)):
        one = [round(of_reader(start, name)["median"], digits) for name in names]
        yield f"records per second | {one[0]:,.0f} | {one[1]:,.0f} | {one[2]:,.0f} |"
    of_all = of_reader("10,000 partitions", names[0], "seconds")["median"]
    yield f"four slots: seconds per batch | {of_all:.1f} | | |"
    heap = of_reader("10,000 partitions", names[0], "heap")
    yield f"peaked at {heap['max']} MB (median {heap['median']:.0f} MB)"
    large = {row["way"]: f"{row['batch_s_median']:.2f} s" for row in rows("large_records")}
    yield f"{large[OURS]}, with Spark's reader and no wait {large['Spark: no wait']}"
    yield f"its default {large['Spark: default']}"


WAYS = ("assignor run", "Spark: default", "Spark: best setting")


def fresh_cell(sink: str, partitions: int, rate: int, volumes: str = "zipf 1.1") -> dict[str, Row]:
    return {
        row["way"]: row
        for row in rows("freshness")
        if (row["sink"], row["partitions"], row["records_a_second"]) == (sink, partitions, rate)
        and row["volumes"] == volumes
    }


def freshness() -> Iterator[str]:
    for sink, partitions, rate in (
        ("append", 24, 5000), ("append", 200, 1000), ("upsert", 24, 5000),
    ):  # fmt: skip
        found = fresh_cell(sink, partitions, rate)
        cells = [
            short(found[way][column]) if way in found else ""
            for way in WAYS
            for column in ("p50_s", "p99_s")
        ]
        yield " ".join(f"| {' | '.join(cells)} |".split())
    spark, own = (
        [f"{row[column]:,.0f} ms" for column in ("p50_ms", "p99_ms")]
        for row in rows("window_latency")
    )
    yield f"a median of {own[0]} and a 99th percentile of {own[1]} with the option, {spark[0]} and"
    yield f"and {spark[1]} with Spark's reader"


def fixed_cost() -> Iterator[str]:
    row = next(
        row
        for row in rows("fixed_cost")
        if row["sink"] == "noop" and row["part of a batch, ms"] == "trigger"
    )
    yield f"{row[OURS]:.0f} ms with the option"
    yield f"{row[f'{OURS}, LocalFiles']:.0f} ms with"
    yield f"{row['Spark: best setting'] / 1000:.1f} s"
    yield f"{row['rate source']:.0f} ms"


def design() -> Iterator[str]:
    yield from allocation()
    last = [by("mapping", "dynamic_allocation")[name]["last_batches_s_median"]
            for name in (OURS, "Spark: default")]  # fmt: skip
    yield f"took {last[0]:.1f} s ({last[1]:.1f} s)"
    yield from states()


def allocation() -> Iterator[str]:
    ours, spark = (by("mapping", "dynamic_allocation")[name] for name in (OURS, "Spark: default"))
    yield f"there after {ours['most_after_s']:.0f} s (Spark: {spark['most_after_s']:.0f} s)"
    yield f"was read in {ours['backlog_s']:.0f} s ({spark['backlog_s']:.0f} s)"


def planner() -> Iterator[str]:
    grows = {row["grows"]: float(row["exponent, upper half"]) for row in rows("scaling")}
    of_partitions, of_executors = grows["partitions"], grows["executors"]
    yield f"{2**of_partitions:.1f} times as long (an exponent of {of_partitions:.2f}, from 8,000"
    yield f"{2**of_executors:.1f} times ({of_executors:.2f}, from 200"
    most = max(row["imbalance"] for row in rows("zones") if row["mapping"] == "ours")
    yield f"at most {most:.1%} out of balance"


def locality() -> Iterator[str]:
    busy = {r["locality_wait_s"]: r["batch_s_median"] for r in rows("locality_wait")
            if r["executors"] == "one busy"}  # fmt: skip
    yield f"{busy[0]:.1f} s with a wait of 0 s, {busy[3]:.1f} s with 3 s"
    yield f"{busy[10]:.1f} s with 10 s"


def tuning() -> Iterator[str]:
    yield from fixed_cost()
    yield from locality()
    yield from freshness()
    yield from memory()
    yield from planner_time()
    yield planning()
    yield from slots()
    yield from shared()


def limits() -> Iterator[str]:
    sharing = by("limit shared by", "starvation")
    yield f"waits for up to {sharing['Spark']['batches a live record waits, most']} batches"
    proportional, even = (sharing[how]["age s, p99"] for how in ("proportional", "even"))
    yield f"{proportional:.1f} s in proportion to lag, and {even:.1f} s with `even`"
    lost = {row["limit shared by"]: row["lost in all"] for row in rows("retention")}
    yield f"Spark's split loses {lost['Spark']:,}, `even` {lost['even']:,} and"
    yield f"`deadline` {lost['deadline'] or 'none'}"
    ours, free, known = rows("bursts")
    yield f"stay at {ours['batch s p50']:.1f} s (median; 99th percentile"
    yield f"99th percentile {ours['batch s p99']:.1f} s). With Spark's"
    yield f"they take {free['batch s p50']:.1f} s and {free['batch s p99']:.0f} s"
    after = [row["burst read after s"] for row in (ours, free)]
    yield f"read {after[0]:.0f} s after its end, without a limit {after[1]:.0f} s"
    yield f"({known['batch s p50']:.1f} s and {known['batch s p99']:.1f} s)"


def zones() -> Iterator[str]:
    told = {
        (row["replicas"], row["phase"], row["mapping"]): row
        for row in rows("zones")
        if row["batch KB"] == 16 and row["backlog"] == "no"
    }
    for replicas, phase in ((3, "all"), (2, "all"), (2, "without a"), (1, "all")):
        spark, ours = (told[replicas, phase, mapping] for mapping in ("Spark", "ours"))
        cells = [f"{spark['share']:.0%}"]
        cells += [f"{ours[column]:.1%}" for column in ("share", "planned", "least")]
        yield f"| {' | '.join(cells)} | {spark['p50 s']:.2f} s, {ours['p50 s']:.2f} s |"
    large, backlog = (
        next(row["share"] for row in rows("zones") if row[column] == value)
        for column, value in (("batch KB", 500), ("backlog", "yes"))
    )
    yield f"500 KB instead of 16 KB, {large:.1%} crossed"
    yield f"or a backlog ({backlog:.1%})"


def assignors() -> Iterator[str]:
    times = [row["x sticky"] for row in rows("assignors") if row["x sticky"] != ""]
    yield f"faster than Kafka's in {sum(each < 1 for each in times)} of {len(times)} rows"
    yield f"takes {max(times):.1f} times as long"


def nexmark() -> Iterator[str]:
    best = [row["times_ours"] for row in rows("nexmark") if row["way"] == "Spark: no wait"]
    yield f"take {min(best):.1f} to {max(best):.1f} times as long with Spark's best setting"


def catching_up() -> Iterator[str]:
    took = {row["way"]: row["caught_up_s_median"] for row in rows("catch_up")}
    yield f"within {took[OURS]:.1f} s with the option, {took['Spark: minPartitions=32']:.1f} s with"
    yield f"`minPartitions`, {took['Spark: default']:.1f} s with Spark's default"


def pipelines() -> Iterator[str]:
    jobs = {row["sink"]: row["jobs_a_batch"] for row in rows("delta_sink")}
    yield f"a merge has {jobs['merge: ours']:.1f} Spark jobs a batch"
    yield f"an append {jobs['append: ours']:.1f}"
    yield from minutes("rose from {:,} MB in the fifth minute to {:,} MB in the tenth", 5, 10)


def audit() -> Iterator[str]:
    found = by("records_a_batch", "audit")
    small, large = found[1_000]["overhead"], found[200_000]["overhead"]
    yield f"{small:.1%} of a batch of 1,000 records and {large:.1%} of a batch of 200,000"


def lag() -> Iterator[str]:
    medians = {row["of"]: row["seconds_median"] for row in rows("lag")}
    without = medians.pop("a group, no record read")
    low, high = min(medians.values()), max(medians.values())
    yield f"{low:.1f} to {high:.1f} s (medians), and {without:.1f} s with `--seconds-limit 0`"


def losses() -> Iterator[str]:
    for workload in dict.fromkeys(row["workload"] for row in rows("losses")):
        row_by_way = {r["way"]: r for r in rows("losses") if r["workload"] == workload}
        seconds = {way: row["batch_s_median"] for way, row in row_by_way.items()}
        best = min(s for way, s in seconds.items() if way.startswith("Spark"))
        ours = row_by_way[OURS]
        cells = f"{seconds['Spark: default']:.2f} | {best:.2f} | {seconds[OURS]:.2f}"
        yield f"| {cells} | {ours['times_best']:.2f} ({ours['interval']}) |"
    yield from lost_regimes()
    fewest_slots = {
        row["way"]: row["slots"]
        for row in rows("least_slots")
        if row["how"] == "simulated" and row["lags"] == "zipf 0.8"
    }
    fewest = fewest_slots["minPartitions"], fewest_slots[OURS]
    yield f"skewed ({fewest[0]} instead of {fewest[1]})"
    equal = simulated("uniform")
    yield f"{equal['spark']:.0%} above the ideal, and the option {equal[OURS]:.0%}."


def lost_regimes() -> Iterator[str]:
    over_spark = {row["regime"]: row["over_spark"] for row in rows("regret")}
    lost = [regime for regime, over in over_spark.items() if over > 0.02]
    assert all("50% unpredictable" in regime and "slower" in regime for regime in lost)
    above_10 = sum(over > 0.1 for over in over_spark.values())
    yield f"better by more than 2 points in {len(lost)}, and by more than 10 points in {above_10};"
    without = sum(
        row["over_spark"] + row["tail=off"] - row["regret"] > 0.02 for row in rows("regret")
    )
    yield f"Without a tail, a setting was better by more than 2 points in {without}."
    over = {r["mapping"]: r["over_ideal"] for r in rows("simulator")
            if r["scenario"] == "one executor 3 times slower"}  # fmt: skip
    yield f"the option is {over[OURS]:.0%} above the ideal, `minPartitions` and"
    settings = [f"{over[name]:.0%}" for name in ("minPartitions", "maxRecordsPerPartition")]
    yield f"`maxRecordsPerPartition` {' and '.join(settings)}."


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "README.md": readme,
    "docs/alternatives.md": alternatives,
    "docs/audit.md": audit,
    "docs/benchmarks.md": benchmarks,
    "docs/deploy.md": allocation,
    "docs/diagnose.md": lag,
    "docs/guarantees.md": guarantees,
    "docs/how-it-works.md": how_it_works,
    "docs/limit-batches.md": limits,
    "docs/losses.md": losses,
    "docs/pipelines.md": pipelines,
    "docs/troubleshoot.md": catching_up,
    "docs/tuning.md": tuning,
    "docs/zones.md": zones,
    "docs/internals/assignors.md": assignors,
    "docs/internals/decisions.md": decisions,
    "docs/internals/design.md": design,
    "docs/internals/evidence.md": evidence,
    "docs/internals/faults.md": faults,
    "docs/internals/planner.md": planner,
    "docs/internals/reader.md": reader,
}


@pytest.mark.parametrize("page", PAGES)
def test_the_figures_of_a_page_are_those_of_the_benchmarks(page: str) -> None:
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert [phrase for phrase in PAGES[page]() if phrase not in text] == []
