"""Our assignors in real consumer groups, beside Kafka's own members: kafka-python and JVMs.

What is asserted comes from the broker's description of the group, not from its members.
"""

from __future__ import annotations

import json
import random
import runpy
import signal
import socket
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import NewPartitions

from assignor_bridge import ivy
from assignor_bridge.assignors import ASSIGNORS, Group, Member
from assignor_bridge.testing.random_groups import random_group
from streaming.cli import main
from streaming.kafka.embedded import EmbeddedBroker
from streaming.kafka.groups import describe_group
from tests.support.kafka_topics import Topic
from tests.support.real_group import RealGroup, compile_program, count_fewest_moves, count_moved
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.real_group import Owners

pytestmark = [pytest.mark.integration, pytest.mark.drivers]

KAFKA = "org.apache.kafka.clients.consumer."
#: Class of the JVM's members of the same name.
JAVA = {
    "sticky": KAFKA + "StickyAssignor",
    "cooperative-sticky": KAFKA + "CooperativeStickyAssignor",
    "range": KAFKA + "RangeAssignor",
    "lag-aware": "io.assignorbridge.LagAwareAssignor",
}
PARTITIONS = 12


@pytest.fixture(scope="module")
def groups_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties={"group.min.session.timeout.ms": "1000"}) as broker:
        yield broker


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compile_program(tmp_path_factory.mktemp("member"), "GroupMember")


def lags_of(count: int) -> list[int]:
    return [(7 * partition) % 13 * 30 + 5 for partition in range(count)]


def check(strategy: str, group: RealGroup, before: Owners | None, after: Owners) -> None:
    """Check an assignment: balance and moves, or the answer that the rule determines."""
    if strategy in ("sticky", "cooperative-sticky"):
        counts = sorted(map(len, after.values()))
        assert counts[-1] - counts[0] <= 1, after
        if before:
            assert count_moved(before, after) == count_fewest_moves(before, after), (before, after)
        return
    ids = {member_id: name for name, member_id in group.ids().items()}
    topics = frozenset(group.topics)
    lags = {t: dict(enumerate(lags_of(n))) for t, n in group.topics.items()}
    members = tuple(Member(member_id, topics) for member_id in ids)
    answer = ASSIGNORS[strategy].assign(Group(members, group.topics, lags)).as_dict()
    assert after == {
        ids[m]: frozenset(f"{t}-{p}" for t, numbers in owned.items() for p in numbers)
        for m, owned in answer.items()
    }


def check_handovers(group: RealGroup, killed: set[str]) -> None:
    """No partition has two owners at once, and no record of members that live is read twice."""
    events = sorted(
        ((event["at"], name, event)
         for name, process in (*group.members.items(), *group.gone.items()) if name not in killed
         for event in process.events),
        key=lambda each: each[0],
    )  # fmt: skip
    owner: dict[str, str] = {}
    read: defaultdict[str, list[int]] = defaultdict(list)
    for _, name, event in events:
        for partition in event["partitions"]:
            if event["event"] == "assigned":
                assert owner.setdefault(partition, name) == name, (partition, events)
            elif event["event"] in ("revoked", "lost"):
                assert owner.pop(partition) == name
            elif event["event"] == "read":
                read[partition] += event["offsets"]
    assert read
    assert {p: sorted(o) for p, o in read.items()} == {p: sorted(set(o)) for p, o in read.items()}


def play(broker: EmbeddedBroker, java: str, strategy: str, *, we_lead: bool) -> None:
    """Let members join, join, leave, be killed, and let the leader leave."""
    ours, theirs = strategy, JAVA[strategy]
    leader, other = (ours, theirs) if we_lead else (theirs, ours)
    name = f"{strategy}-{'ours' if we_lead else 'theirs'}"
    topic = Topic(broker.bootstrap_servers, name).create(PARTITIONS)
    topic.fill(lags_of(PARTITIONS))
    reads = strategy == "cooperative-sticky"
    with RealGroup(broker.bootstrap_servers, name, {name: PARTITIONS}, java, reads=reads) as group:
        group.add("a", leader)
        first = group.wait_until_stable()
        group.add("b", other)
        two = group.wait_until_stable()
        check(strategy, group, first, two)
        group.add("c", leader)
        three = group.wait_until_stable()
        check(strategy, group, two, three)
        group.add("d", other)
        four = group.wait_until_stable()
        check(strategy, group, three, four)
        group.leave("c")
        left = group.wait_until_stable()
        check(strategy, group, four, left)
        group.kill("d")
        killed = group.wait_until_stable()
        check(strategy, group, left, killed)
        group.leave("a")
        check(strategy, group, killed, group.wait_until_stable())
        if reads:
            check_handovers(group, {"d"})


#: What `make test` has time for; the others are long.
QUICK = {("cooperative-sticky", False)}


@pytest.mark.parametrize(
    ("strategy", "we_lead"),
    [
        pytest.param(
            strategy,
            we_lead,
            id=f"{strategy}-{'ours' if we_lead else 'theirs'}-leads",
            marks=[] if (strategy, we_lead) in QUICK else pytest.mark.long,
        )
        for strategy in JAVA
        for we_lead in (True, False)
    ],
)
def test_members_of_both_kinds_share_a_group(
    groups_broker: EmbeddedBroker, java: str, strategy: str, we_lead: bool
) -> None:
    play(groups_broker, java, strategy, we_lead=we_lead)


@pytest.mark.long  # tests/unit/consumer_groups has the rule without processes
@pytest.mark.parametrize(
    "no_generation",
    [pytest.param(False, id="KIP-341"), pytest.param(True, id="without-generations")],
)
def test_a_zombie_moves_nothing_but_its_share(
    groups_broker: EmbeddedBroker, no_generation: bool
) -> None:
    """A member is stopped until the group has given its partitions away, and then goes on.

    Without generations (the negative control) its old claim takes partitions from their owners.
    """
    name = f"zombie-{no_generation}"
    Topic(groups_broker.bootstrap_servers, name).create(PARTITIONS)
    with RealGroup(
        groups_broker.bootstrap_servers, name, {name: PARTITIONS}, no_generation=no_generation
    ) as group:
        group.add("a", "sticky")
        group.wait_until_stable()
        group.add("b", "sticky")
        group.wait_until_stable()
        group.signal("a", signal.SIGSTOP)
        group.wait_until_stable(without="a")
        group.add("c", "sticky")
        before = group.wait_until_stable(without="a")
        group.signal("a", signal.SIGCONT)
        after = group.wait_until_stable()
        assert sorted(map(len, after.values())) == [4, 4, 4]
        assert (
            count_moved(before, after) == count_fewest_moves(before, after)
        ) is not no_generation


@pytest.mark.long
def test_the_proposals_example_comes_out_in_a_real_group(
    groups_broker: EmbeddedBroker, java: str
) -> None:
    """Lags of 100,000, 60,000 and 50,000: with one kafka-python member and one of the JVM."""
    topic = Topic(groups_broker.bootstrap_servers, "kip").create(3)
    topic.fill([100_000, 60_000, 50_000])
    with RealGroup(groups_broker.bootstrap_servers, "kip", {"kip": 3}, java) as group:
        group.add("a", "lag-aware")
        group.wait_until_stable()
        group.add("b", JAVA["lag-aware"])
        owners = group.wait_until_stable()
        assert sorted(owners.values(), key=len) == [{"kip-0"}, {"kip-1", "kip-2"}]


def test_lag_plan_shows_a_live_group_by_each_assignor(
    groups_broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    """The proposal's example, divided by 1,000: `range` owns it, `lag-aware` would move one."""
    topic = Topic(groups_broker.bootstrap_servers, "planned").create(3)
    topic.fill([100, 60, 50])
    topic.commit("planned", {0: 0, 1: 0, 2: 0})
    with RealGroup(groups_broker.bootstrap_servers, "planned", {"planned": 3}) as group:
        for member in ("a", "b"):
            group.add(member, "range")
        owners = group.wait_until_stable()
        ids = group.ids()
        planned = plan(groups_broker, capsys, "planned", "lag-aware,sticky")
    assert planned["today"]["members"] == {
        ids[name]: {
            "lag": sum(lag for p, lag in enumerate([100, 60, 50]) if f"planned-{p}" in owned),
            "partitions": {"planned": sorted(int(p.rpartition("-")[2]) for p in owned)},
        }
        for name, owned in owners.items()
    }
    lag_aware, sticky = planned["plans"]
    assert sorted(each["lag"] for each in lag_aware["members"].values()) == [100, 110]
    assert (lag_aware["moved"], sticky["moved"]) == (1, 0)
    assert sticky["members"] == planned["today"]["members"]
    assert planned["online_upgrade"] == {"possible": True, "refusal": None}


def plan(
    broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str], group: str, names: str
) -> dict[str, Any]:
    words = ["lag", "--group", group, "--plan", names, "--json"]
    capsys.readouterr()
    assert main.run([*words, "--bootstrap-server", broker.bootstrap_servers]) == 0
    planned: dict[str, Any] = json.loads(capsys.readouterr().out)
    return planned


def test_the_program_of_the_page_reads(groups_broker: EmbeddedBroker, tmp_path: Path) -> None:
    """The program of docs/consumer-groups.md, against this broker."""
    topic = Topic(groups_broker.bootstrap_servers, "orders").create(2)
    topic.fill([3, 3])
    page = (Path(__file__).parents[2] / "docs" / "consumer-groups.md").read_text(encoding="utf-8")
    program = page.partition("```python\n")[2].partition("```")[0]
    settings = f'bootstrap_servers="{topic.bootstrap_servers}", auto_offset_reset="earliest", '
    path = tmp_path / "program.py"
    path.write_text(program.replace("group_id=", f"{settings}group_id="), encoding="utf-8")
    consumer = runpy.run_path(str(path))["consumer"]
    wait_until(lambda: consumer.poll(timeout_ms=500), "a record")
    assert len(consumer.assignment()) == 2
    consumer.close()


@pytest.mark.long
def test_a_topic_that_grows_is_assigned(groups_broker: EmbeddedBroker, java: str) -> None:
    """And a member with another subscription gets partitions of its own topic only."""
    for topic in ("grows", "other"):
        Topic(groups_broker.bootstrap_servers, topic).create(4)
    with RealGroup(groups_broker.bootstrap_servers, "grows", {"grows": 4}, java) as group:
        group.add("a", "sticky")
        group.add("b", JAVA["sticky"])
        before = group.wait_until_stable()
        admin = groups_broker.admin()  # which must live until it has answered
        admin.create_partitions([NewPartitions("grows", 7)])["grows"].result(20)
        group.topics["grows"] = 7
        after = group.wait_until_stable()
        assert sorted(map(len, after.values())) == [3, 4]
        assert count_moved(before, after) == 0
        group.topics["other"] = 4
        group.add("c", "sticky", topics=["other"])
        assert group.wait_until_stable()["c"] == {f"other-{p}" for p in range(4)}


@pytest.mark.long
@pytest.mark.parametrize(
    ("leader", "other"),
    [
        pytest.param("lag-aware", JAVA["lag-aware"], id="lag-aware-of-python-leads"),
        pytest.param(JAVA["lag-aware"], "lag-aware", id="lag-aware-of-java-leads"),
        pytest.param("sticky", JAVA["sticky"], id="sticky"),
        pytest.param("cooperative-sticky", JAVA["cooperative-sticky"], id="cooperative-sticky"),
    ],
)
def test_a_topic_that_is_deleted_leaves_the_group_assigned(
    groups_broker: EmbeddedBroker, java: str, leader: str, other: str
) -> None:
    """All members still subscribe to it; each partition of the other topic has one owner."""
    name = f"deleted-{leader.rpartition('.')[2]}"
    topics = {f"{name}-gone": 4, f"{name}-kept": 4}
    for topic, partitions in topics.items():
        Topic(groups_broker.bootstrap_servers, topic).create(partitions).fill(lags_of(partitions))
    with RealGroup(groups_broker.bootstrap_servers, name, topics, java) as group:
        group.add("a", leader)
        group.wait_until_stable()
        group.add("b", other)
        group.wait_until_stable()
        admin = groups_broker.admin()  # which must live until it has answered
        admin.delete_topics([f"{name}-gone"])[f"{name}-gone"].result(20)
        del group.topics[f"{name}-gone"]
        after = group.wait_until_stable()
        assert sorted(map(len, after.values())) == [2, 2]
        group.add("c", other)  # the group still rebalances
        assert sorted(map(len, group.wait_until_stable().values())) == [1, 1, 2]


@pytest.mark.long
def test_a_static_member_restarts_without_a_move(groups_broker: EmbeddedBroker) -> None:
    Topic(groups_broker.bootstrap_servers, "static").create(5)
    with RealGroup(
        groups_broker.bootstrap_servers, "static", {"static": 5}, session_ms=60_000
    ) as group:
        for name in ("a", "b"):
            group.add(name, "sticky", instance=name)
            before = group.wait_until_stable()
        for name in ("b", "a"):  # the second one leads
            group.kill(name)
            group.add(name, "sticky", instance=name)
            wait_until(lambda name=name: group.members[name].events, f"{name} is back")
            assert group.wait_until_stable() == before


@pytest.mark.long
def test_a_group_becomes_cooperative_in_two_rolls(groups_broker: EmbeddedBroker) -> None:
    """First with both assignors in the list, then with the cooperative one alone."""
    Topic(groups_broker.bootstrap_servers, "rolls").create(6)
    with RealGroup(groups_broker.bootstrap_servers, "rolls", {"rolls": 6}) as group:
        for strategies in (["range"], ["cooperative-sticky", "range"], ["cooperative-sticky"]):
            for name in ("a", "b"):
                if name in group.members:
                    group.leave(name)
                group.add(name, *strategies)
                group.wait_until_stable()
        assert sorted(map(len, group.wait_until_stable().values())) == [3, 3]
        before = group.wait_until_stable()
        group.add("c", "cooperative-sticky")
        after = group.wait_until_stable()
        assert count_moved(before, after) == count_fewest_moves(before, after) == 2


@pytest.mark.long
def test_a_leader_is_killed_during_a_rebalance(groups_broker: EmbeddedBroker) -> None:
    """It has the subscriptions of all members and never answers; another member leads then."""
    Topic(groups_broker.bootstrap_servers, "killed").create(4)
    strategy = "tests.support.own_assignor:SlowWithThree"
    with RealGroup(groups_broker.bootstrap_servers, "killed", {"killed": 4}) as group:
        group.add("a", strategy)
        group.wait_until_stable()
        group.add("b", strategy)
        group.wait_until_stable()
        group.add("c", strategy)
        leader = group.members["a"]
        wait_until(
            lambda: any(event["event"] == "assigning" for event in leader.events), "a rebalance"
        )
        group.kill("a")
        owners = group.wait_until_stable()
        assert sorted(map(len, owners.values())) == [0, 4]


@pytest.mark.long
def test_members_survive_a_restart_of_the_broker(java: str) -> None:
    """They keep their partitions, and a member that joins then takes the fewest."""
    with EmbeddedBroker(properties={"group.min.session.timeout.ms": "1000"}) as broker:
        Topic(broker.bootstrap_servers, "restart").create(PARTITIONS)
        with RealGroup(
            broker.bootstrap_servers, "restart", {"restart": PARTITIONS}, java, session_ms=30_000
        ) as group:
            group.add("a", "sticky")
            group.wait_until_stable()
            group.add("b", JAVA["sticky"])
            before = group.wait_until_stable()
            broker.restart()
            assert group.wait_until_stable() == before
            group.add("c", "sticky")
            after = group.wait_until_stable()
            assert count_moved(before, after) == count_fewest_moves(before, after) == 4


@pytest.mark.long
@pytest.mark.parametrize(
    "user_data",
    [
        pytest.param(False, id="sticky"),
        pytest.param(True, id="user-data-in-assignments"),
    ],
)
def test_a_group_moves_online_to_kip_848_unless_its_assignments_have_user_data(
    groups_broker: EmbeddedBroker, java: str, user_data: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """User data of subscriptions, as `sticky` sends them, do not matter to the broker."""
    name = f"online-{user_data}"
    Topic(groups_broker.bootstrap_servers, name).create(PARTITIONS)
    with RealGroup(
        groups_broker.bootstrap_servers, name, {name: PARTITIONS}, java,
        assignment_user_data=user_data,
    ) as group:  # fmt: skip
        for member in ("a", "b"):
            group.add(member, "sticky")
            before = group.wait_until_stable()
        planned = plan(groups_broker, capsys, name, "sticky")
        assert planned["online_upgrade"]["possible"] is not user_data
        group.add("c")
        if user_data:
            assert "user data of 'sticky'" in planned["online_upgrade"]["refusal"]
            assert group.members["c"].process.wait(60) != 0
            assert "switch to a default assignor" in group.members["c"].errors()
            group.leave("c")
            assert group.wait_until_stable() == before
        else:
            after = group.wait_until_stable()
            assert sorted(map(len, after.values())) == [4, 4, 4]
            assert describe_group(group.brokers, name).type.name == "CONSUMER"


@pytest.mark.long
def test_an_assignor_that_raises_ends_its_member_with_one_line(
    groups_broker: EmbeddedBroker,
) -> None:
    """Its group is not left hanging: the member is gone, and another one takes over."""
    Topic(groups_broker.bootstrap_servers, "raises").create(2)
    with RealGroup(groups_broker.bootstrap_servers, "raises", {"raises": 2}) as group:
        group.add("a", "tests.support.own_assignor:Forgetful")
        process = group.members["a"]
        assert process.process.wait(60) == 1
        line = process.errors().strip().splitlines()[-1]
        assert "assignor 'forgetful' left 1 of 2 partitions without a member: raises-0" in line
        group.leave("a")
        wait_until(lambda: not group.ids(), "the end of the member's session")
        group.add("b", "tests.support.own_assignor:LastTakesAll")
        assert group.wait_until_stable() == {"b": {"raises-0", "raises-1"}}


@pytest.mark.long
def test_user_data_of_another_client_is_one_line_and_the_group_goes_on(
    groups_broker: EmbeddedBroker,
) -> None:
    """kafka-python's own sticky assignor writes its claim in another format than Kafka's."""
    Topic(groups_broker.bootstrap_servers, "foreign").create(PARTITIONS)
    with RealGroup(groups_broker.bootstrap_servers, "foreign", {"foreign": PARTITIONS}) as group:
        for name, strategy in (("a", "sticky"), ("b", "kafka-python-sticky"), ("c", "sticky")):
            group.add(name, strategy)
            owners = group.wait_until_stable()
        assert sorted(map(len, owners.values())) == [4, 4, 4]
        assert "that assignor 'sticky' cannot read" in group.members["a"].errors()


def test_python_and_java_answer_alike(tmp_path_factory: pytest.TempPathFactory) -> None:
    """4,000 random groups with lags: none, equal, negative, missing and huge ones."""
    rng = random.Random(5337)
    groups = [_with_lags(rng, random_group(rng, same=rng.random() < 0.4)) for _ in range(4000)]
    lines = "".join(json.dumps(_described(group)) + "\n" for group in groups)
    done = run_lag_aware_groups(tmp_path_factory, lines)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(groups)
    for group, answer in zip(groups, answers, strict=True):
        assert ASSIGNORS["lag-aware"].assign(group).as_dict() == answer, group


@pytest.mark.long
def test_java_assigns_without_lags_if_no_broker_answers(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """It waits for its deadline of 2 s, twice, and reports that once.

    The socket accepts connections (the kernel does) and never sends a byte. Kafka's clients wait
    for 30 s and more by default, so without the deadline this would take a minute.
    """
    members = (Member("a", frozenset({"t"})), Member("b", frozenset({"t"})))
    group = Group(members, {"t": 3}, {"t": {0: 5, 1: 9, 2: 70}})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        lines = 2 * (json.dumps(_described(group)) + "\n")
        done = run_lag_aware_groups(tmp_path_factory, lines, address, timeout_s=50)
    without_lags = ASSIGNORS["lag-aware"].assign(Group(members, group.topics)).as_dict()
    assert without_lags != ASSIGNORS["lag-aware"].assign(group).as_dict()
    assert [json.loads(line) for line in done.stdout.splitlines()] == [without_lags] * 2
    [line] = [line for line in done.stderr.splitlines() if "LagAwareAssignor" in line]
    assert "some lags of group g were not fetched and count as 0 (limit: 2000 ms" in line


def run_lag_aware_groups(
    folders: pytest.TempPathFactory, lines: str, *address: str, timeout_s: float = 300
) -> subprocess.CompletedProcess[str]:
    path = compile_program(folders.mktemp("groups"), "LagAwareGroups")
    return subprocess.run(
        [ivy.find_tool("java"), "-cp", path, "LagAwareGroups", *address],
        input=lines, capture_output=True, text=True, check=True, timeout=timeout_s,
    )  # fmt: skip


def _with_lags(rng: random.Random, group: Group) -> Group:
    kinds = ([0], [0, 5], [-3, 0, 1, 7, 7, 9], range(1000), [2**40, 2**41, 3])
    kind = rng.choice(kinds)
    lags = {
        topic: {p: rng.choice(kind) for p in range(count) if rng.random() < 0.9}
        for topic, count in group.topics.items()
    }
    return Group(group.members, group.topics, lags)


def _described(group: Group) -> dict[str, Any]:
    return {
        "topics": dict(group.topics),
        "members": {m.id: sorted(m.topics) for m in group.members},
        "lags": {t: {p: max(lag, 0) for p, lag in each.items()} for t, each in group.lags.items()},
    }
