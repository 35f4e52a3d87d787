"""Our assignors against Kafka's own classes: 4.1.0, in a JVM, over seeded random groups.

Identical where Kafka's rules determine the answer; elsewhere never less balanced, and never more
moves when as balanced.
"""

from __future__ import annotations

import base64
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from assignor_bridge.assignors import ASSIGNORS, Assignment, Group, Member, check_assignment
from assignor_bridge.assignors.claims import resolve_claims
from assignor_bridge.testing.random_groups import disturb, random_group
from checkpoints.user_data import Claim, decode_claim, encode_claim
from tests.java.oracle import RACK_AWARE, Oracle

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.integration

GROUPS = 2_000
HISTORIES, STEPS = 100, 20


@pytest.fixture(scope="module")
def kafka() -> Iterator[Oracle]:
    with Oracle() as oracle:
        yield oracle


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_count_based_assignors_answer_as_kafka_does(kafka: Oracle, assignor: str) -> None:
    """With racks, instance ids and different subscriptions."""
    rng = random.Random(341)
    for _ in range(GROUPS):
        group = random_group(rng, same=rng.random() < 0.4, racks=rng.random() < 0.5)
        ours = check_assignment(assignor, group, ASSIGNORS[assignor].assign(group))
        assert ours.as_dict() == kafka.assign(assignor, group), group


@pytest.mark.parametrize(("assignor", "groups"), [("sticky", GROUPS), ("cooperative-sticky", 500)])
def test_first_assignments_are_kafkas(kafka: Oracle, assignor: str, groups: int) -> None:
    """Identical, unless Kafka's greedy start has to be repaired: then at least as balanced."""
    rng = random.Random(9987)
    determined = 0
    for _ in range(groups):
        group = random_group(rng, same=rng.random() < 0.4)
        ours = check_assignment(assignor, group, ASSIGNORS[assignor].assign(group))
        theirs = kafka.assign(assignor, group)
        greedy = _greedy(group)
        if _loads(greedy) == _loads(ours.as_dict()):
            determined += 1
            assert ours.as_dict() == theirs == greedy, group
        else:
            assert _loads(ours.as_dict()) <= _loads(theirs), group
    assert determined > groups * 0.75


@pytest.mark.parametrize("evolves_by", ["kafka", "ours"])
@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_histories_are_never_less_balanced_and_never_move_more(
    kafka: Oracle, assignor: str, evolves_by: str
) -> None:
    rng = random.Random(7026)
    better = fewer = 0
    for _ in range(HISTORIES // 4):
        same = rng.random() < 0.4
        group = random_group(rng, same=same)
        history = []
        for generation in range(1, STEPS + 1):
            before = resolve_claims(group).owner
            ours, theirs = _settled(assignor, group), _settled(assignor, group, kafka)
            history.append((group, ours, theirs))
            balance = _loads(ours.as_dict()), _loads(theirs.as_dict())
            moves = _moved(before, ours), _moved(before, theirs)
            assert balance[0] <= balance[1], history[-2:]
            if balance[0] == balance[1]:
                assert moves[0] <= moves[1], history[-2:]
                fewer += moves[0] < moves[1]
            better += balance[0] < balance[1]
            taken = ours if evolves_by == "ours" else theirs
            group = disturb(rng, group.after(taken, generation), same=same)
    print(f"{assignor}: more balanced {better} times, fewer moves {fewer} times")


@pytest.mark.long
@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_first_assignments_with_racks_are_kafkas(kafka: Oracle, assignor: str) -> None:
    """Identical where all subscribe alike; else as balanced, and no more across racks."""
    rng = random.Random(881)
    fewer = 0
    for _ in range(1_000):
        same = rng.random() < 0.6
        group = random_group(rng, same=same, racks=True)
        ours = check_assignment(assignor, group, ASSIGNORS[assignor].assign(group))
        theirs = kafka.assign(assignor, group)
        if same:
            assert ours.as_dict() == theirs, group
        else:
            assert _loads(ours.as_dict()) <= _loads(theirs), group
            if _loads(ours.as_dict()) == _loads(theirs):
                crossing = _crossing(group, ours), _crossing(group, _as_given(group, theirs))
                assert crossing[0] <= crossing[1], group
                fewer += crossing[0] < crossing[1]
    print(f"{assignor}: fewer partitions cross racks {fewer} times")


@pytest.mark.long
@pytest.mark.parametrize("same", [True, False], ids=["alike", "mixed"])
@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_histories_with_racks_never_cross_more(kafka: Oracle, assignor: str, same: bool) -> None:
    """Over joins, leaves, zombies and new partitions; moves count only where all else is alike.

    Where members subscribe alike, the order of Kafka's hash map says who keeps one more; so single
    steps may differ, and sums are compared. Kafka's answers that break its own rules do not count.
    """
    rng = random.Random(925)
    crossed, moved, broken = [0, 0], [0, 0], 0
    for _ in range(HISTORIES // 4):
        group = random_group(rng, same=same, racks=True)
        for generation in range(1, STEPS + 1):
            before = resolve_claims(group).owner
            ours = _settled(assignor, group)
            theirs = _settled_in_rules(assignor, group, kafka)
            if theirs is None:
                broken += 1
                group = disturb(rng, group.after(ours, generation), same=same)
                continue
            balance = _loads(ours.as_dict()), _loads(theirs.as_dict())
            assert balance[0] <= balance[1], group
            if balance[0] == balance[1]:
                step = _crossing(group, ours), _crossing(group, theirs)
                alike = len(group.subscriptions) == 1
                assert alike or step[0] <= step[1], group
                crossed = [a + b for a, b in zip(crossed, step, strict=True)]
                if step[0] == step[1]:
                    both = _moved(before, ours), _moved(before, theirs)
                    moved = [a + b for a, b in zip(moved, both, strict=True)]
            group = disturb(rng, group.after(ours, generation), same=same)
    print(
        f"{assignor}: across racks {crossed}, moves {moved} (ours, Kafka's); "
        f"{broken} of Kafka's are none"
    )
    assert crossed[0] <= 1.01 * crossed[1]
    assert moved[0] <= moved[1]
    assert broken <= 0.1 * STEPS * HISTORIES // 4


@pytest.mark.long
@pytest.mark.parametrize("racks", [False, True])
def test_uniform_is_as_even_as_kafkas_which_asks_for_no_racks(kafka: Oracle, racks: bool) -> None:
    """Kafka's fails here as soon as it asks for a rack, of a member or of a partition (KIP-848).

    So with racks ours has fewer partitions across them; without, it has never more moves.
    """
    rng = random.Random(848)
    crossed = [0, 0]
    for _ in range(200):
        same = rng.random() < 0.6
        group = random_group(rng, same=same, racks=racks)
        for generation in range(1, 5):
            ours = check_assignment("uniform", group, ASSIGNORS["uniform"].assign(group))
            before = resolve_claims(group).owner
            theirs = _as_given(group, kafka.assign("uniform", group))
            balance = _loads(ours.as_dict()), _loads(theirs.as_dict())
            assert balance[0] <= balance[1], group
            if balance[0] == balance[1]:
                step = _crossing(group, ours), _crossing(group, theirs)
                crossed = [a + b for a, b in zip(crossed, step, strict=True)]
                if len(group.subscriptions) > 1:
                    assert step[0] <= step[1], group
                if not racks:
                    assert _moved(before, ours) <= _moved(before, theirs), group
            members = [m for m in group.after(ours, generation).members if rng.random() < 0.8]
            if members:
                group = replace(group, members=tuple(members))
    print(f"uniform: across racks {crossed} (ours, Kafka's)")
    assert crossed[0] < crossed[1] or not racks


@pytest.mark.long
def test_uniform_with_racks_is_as_near_as_the_last_of_kafkas_that_had_them() -> None:
    """Kafka 3.7's, in groups that members leave; sums, as its hash map says who is asked first.

    Where subscriptions differ, that one gives members what they did not subscribe to, or fails.
    """
    rng = random.Random(14515)
    crossed, moved = [0, 0], [0, 0]
    with Oracle(program="RackAwareUniform.java", first=RACK_AWARE) as kafka:
        for _ in range(150):
            group = random_group(rng, same=True, racks=True)
            for generation in range(1, 5):
                before = resolve_claims(group).owner
                ours = check_assignment("uniform", group, ASSIGNORS["uniform"].assign(group))
                theirs = _as_given(group, kafka.assign("uniform", group))
                balance = _loads(ours.as_dict()), _loads(theirs.as_dict())
                assert balance[0] <= balance[1], group
                if balance[0] == balance[1]:
                    step = _crossing(group, ours), _crossing(group, theirs)
                    crossed = [a + b for a, b in zip(crossed, step, strict=True)]
                    both = _moved(before, ours), _moved(before, theirs)
                    moved = [a + b for a, b in zip(moved, both, strict=True)]
                members = [m for m in group.after(ours, generation).members if rng.random() < 0.8]
                if members:
                    group = replace(group, members=tuple(members))
    print(f"uniform, Kafka 3.7's: across racks {crossed}, moves {moved} (ours, Kafka's)")
    assert crossed[0] <= 1.01 * crossed[1]
    assert moved[0] <= moved[1]


def test_a_cooperative_round_withholds_what_kafkas_does(kafka: Oracle) -> None:
    """Members with the same subscription, one joins or leaves: the first round as Kafka's."""
    rng = random.Random(429)
    withheld = 0
    for _ in range(300):
        group = random_group(rng, same=True)
        assignor = ASSIGNORS["cooperative-sticky"]
        group = group.after(assignor.assign(group), 1)
        group = Group((*group.members, Member("new", group.members[0].topics)), group.topics)
        ours = check_assignment("cooperative-sticky", group, assignor.assign(group))
        theirs = kafka.assign("cooperative-sticky", group)
        given = sum(len(ps) for topics in theirs.values() for ps in topics.values())
        assert ours.transferring.count == group.catalog.total - given, group
        withheld += ours.transferring.count
    assert withheld > 300


def test_our_user_data_is_read_by_kafka(kafka: Oracle) -> None:
    rng = random.Random(1)
    for _ in range(300):
        claim = _random_claim(rng)
        data = encode_claim(claim.owned, claim.generation)
        read = kafka.ask(op="read", user_data=base64.b64encode(data).decode())
        assert read["generation"] == claim.generation
        assert read["owned"] == {t: list(ps) for t, ps in claim.owned.items() if ps}
        old = kafka.ask(
            op="read", user_data=base64.b64encode(encode_claim(claim.owned, None)).decode()
        )
        assert old["generation"] == -1
        assert old["owned"] == read["owned"]


def test_kafkas_user_data_is_read_by_us(kafka: Oracle) -> None:
    rng = random.Random(2)
    for _ in range(300):
        claim = _random_claim(rng)
        written = kafka.ask(
            op="write",
            owned={t: list(ps) for t, ps in claim.owned.items()},
            generation=claim.generation,
        )
        data = base64.b64decode(written["user_data"])
        kept = {t: ps for t, ps in claim.owned.items() if ps}
        assert decode_claim(data) == Claim(kept, claim.generation)
        if len(kept) <= 1:  # Kafka orders topics by hash
            assert encode_claim(kept, claim.generation) == data


def test_hostile_user_data_is_no_claim_to_either(kafka: Oracle) -> None:
    """Every truncation, and 500 random corruptions: the same verdict as Kafka's reader."""
    rng = random.Random(3)
    data = encode_claim({"orders": [0, 1, 2], "zones": [7]}, 4)
    names = {
        i for word in (b"orders", b"zones") for i in range(data.find(word), data.find(word) + 6)
    }
    samples = [data[:n] for n in range(1, len(data))]
    for _ in range(500):
        broken = bytearray(data)
        for place in rng.sample(range(len(broken)), rng.randint(1, 3)):
            broken[place] = rng.choice(
                [0, 1, 4, 127] if place in names else [0, 1, 4, 127, 128, 255]
            )
        samples.append(bytes(broken))
    for sample in samples:
        ours = decode_claim(sample)
        read = kafka.ask(op="read", user_data=base64.b64encode(sample).decode())
        theirs = {t: tuple(ps) for t, ps in read["owned"].items()}
        garbled = "\ufffd" in "".join(theirs) or b"\xff" in sample or b"\x80" in sample
        if any(p < 0 for ps in theirs.values() for p in ps):  # Kafka takes them for real
            assert ours == Claim()
        elif not (garbled and ours == Claim()):  # Kafka replaces what is not UTF-8
            kept = {t: ps for t, ps in ours.owned.items() if ps}
            assert (kept, ours.generation) == (theirs, read["generation"]), sample


def _random_claim(rng: random.Random) -> Claim:
    topics = {
        f"t{i}-{'é' * rng.randint(0, 3)}": rng.randint(0, 9) for i in range(rng.randint(0, 4))
    }
    owned = {t: tuple(sorted(rng.sample(range(50), n))) for t, n in topics.items()}
    return Claim(owned, rng.choice([-1, 0, 5, 2**31 - 1]))


def _settled(assignor: str, group: Group, kafka: Oracle | None = None) -> Assignment:
    """The assignment once a round withholds nothing."""
    for generation in range(1_000, 1_005):
        if kafka is None:
            answer = check_assignment(assignor, group, ASSIGNORS[assignor].assign(group))
        else:
            answer = _as_given(group, kafka.assign(assignor, group))
        if ((answer.owner >= 0) == group.subscribed).all():
            return answer
        group = group.after(answer, generation)
    raise AssertionError(f"{assignor} did not come to rest: {group}")


def _settled_in_rules(assignor: str, group: Group, kafka: Oracle) -> Assignment | None:
    """Kafka's, unless it does not come to rest, or gives a member what it does not subscribe to.

    Its general path may give a partition back to an older owner, whatever that subscribes to now,
    and misplaced partitions up in each round.
    """
    try:
        answer = _settled(assignor, group, kafka)
    except AssertionError:
        return None
    follows = all(set(part) <= group.members[i].topics for i, part in enumerate(answer.values()))
    return answer if follows else None


def _as_given(group: Group, given: dict[str, dict[str, list[int]]]) -> Assignment:
    """Kafka's answer of one round, which may withhold partitions."""
    owner = np.full(group.catalog.total, -1, np.int32)
    for index, member in enumerate(group.ids):
        owner[group.catalog.ids(given.get(member, {}))] = index
    return Assignment(group, owner)


def _moved(before: np.ndarray, after: Assignment) -> int:
    return int(np.count_nonzero((before >= 0) & (before != after.owner)))


def _crossing(group: Group, answer: Assignment) -> int:
    """Partitions of members in whose rack they have no replica."""
    crossing = 0
    for member in group.members:
        for topic, numbers in answer[member.id].items():
            held = group.partition_racks.get(topic, {})
            crossing += sum(member.rack not in held.get(n, ()) for n in numbers if member.rack)
    return crossing


def _loads(assignment: dict[str, dict[str, list[int]]]) -> list[int]:
    """Counts, largest first: of two lists the smaller is the more balanced."""
    return sorted((sum(map(len, topics.values())) for topics in assignment.values()), reverse=True)


def _greedy(group: Group) -> dict[str, dict[str, list[int]]]:
    """Kafka's start: topics of fewest subscribers first, each partition to the least loaded."""
    given: dict[str, dict[str, list[int]]] = {m.id: {} for m in group.members}
    loads = dict.fromkeys(given, 0)
    subscribers = {t: [m.id for m in group.members if t in m.topics] for t in group.topics}
    for topic in sorted(subscribers, key=lambda t: (len(subscribers[t]), t)):
        for partition in range(group.topics[topic] if subscribers[topic] else 0):
            member = min(subscribers[topic], key=lambda m: (loads[m], m))
            loads[member] += 1
            given[member].setdefault(topic, []).append(partition)
    return given


def test_a_member_without_topics_gets_nothing_though_kafka_gives_it_some(kafka: Oracle) -> None:
    """Kafka 4.1's constrained path ignores an empty subscription that it meets first."""
    group = Group((Member("A", frozenset()), Member("B", frozenset({"t"}))), {"t": 4})
    theirs = kafka.assign("sticky", group)
    ours = ASSIGNORS["sticky"].assign(group).as_dict()
    assert ours == {"A": {}, "B": {"t": [0, 1, 2, 3]}}
    assert theirs != ours
