"""Create consumer groups for tests, with hypothesis or with a seeded generator."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import strategies as st

from assignor_bridge.assignors import Group, Member

_TOPICS = ("a", "b", "c", "d")
_RACKS = ("r1", "r2", "r3")
_HOSTS = ("h1", "h2", "h3")


@st.composite
def _draw_partition_counts(draw: st.DrawFn, max_count: int) -> dict[str, int]:
    names = draw(st.lists(st.sampled_from(_TOPICS), min_size=1, unique=True))
    return {name: draw(st.integers(0, max_count)) for name in names}


@st.composite
def _draw_claims(draw: st.DrawFn, topics: dict[str, int]) -> dict[str, list[int]]:
    """Draw a member's claims, some of them to partitions and topics that do not exist."""
    names = draw(st.lists(st.sampled_from([*topics, "gone"]), unique=True))
    return {
        name: draw(st.lists(st.integers(0, topics.get(name, 2) + 1), unique=True, max_size=8))
        for name in names
    }


@st.composite
def groups(
    draw: st.DrawFn, *, same: bool = False, claimed: bool = True, members: int = 6, most: int = 9
) -> Group:
    """Draw a group with claims, racks, hosts, lags, priorities and standbys.

    With `same`, all members subscribe to all topics. Without `claimed`, they own nothing. `members`
    is the maximum number of members, `most` the maximum number of partitions per topic.
    """
    topics = draw(_draw_partition_counts(most))
    subscription = st.frozensets(st.sampled_from([*topics, "missing"]))
    all_topics = frozenset(topics)
    ids = draw(st.lists(st.integers(0, 99), min_size=1, max_size=members, unique=True))
    rng = random.Random(draw(st.integers(0, 999)))  # for values that need not shrink
    return Group(
        tuple(
            Member(
                f"m{number}",
                all_topics if same else draw(subscription),
                draw(_draw_claims(topics)) if claimed else {},
                draw(st.sampled_from([None, 0, 1, 2])),
                rack=rng.choice([None, *_RACKS]),
                host=rng.choice([None, *_HOSTS]),
                priority=rng.choice([None, -1, 0, 0, 7]),
                standby={t: rng.sample(range(n), n // 2) for t, n in topics.items()},
            )
            for number in ids
        ),
        topics,
        lags={
            t: {p: rng.choice([-3, 0, 0, 1, 7, 9, 2**62]) for p in range(n)}
            for t, n in topics.items()
        },
        partition_racks={
            t: {p: frozenset(rng.sample(_RACKS, rng.randint(0, 3))) for p in range(n)}
            for t, n in topics.items()
        },
        standby_replicas=rng.randint(0, 2),
    )


def random_group(rng: random.Random, *, same: bool, racks: bool = False) -> Group:
    """Return a random group without claims; each member has a topic, as Kafka 4.1 requires."""
    topics = {f"t{i}": rng.randint(1, 12) for i in range(rng.randint(1, 5))}
    names = sorted(topics)
    all_topics = frozenset(names)
    members = []
    for number in rng.sample(range(100), rng.randint(1, 9)):
        own_topics = frozenset(rng.sample(names, rng.randint(1, len(names))))
        members.append(
            Member(
                f"m{number:02}",
                all_topics if same else own_topics,
                rack=rng.choice([None, *_RACKS]) if racks else None,
                instance=f"i{rng.randint(0, 99):02}-{number}" if rng.random() < 0.3 else None,
            )
        )
    partition_racks = {
        t: {p: frozenset(rng.sample(_RACKS, rng.randint(0, 3))) for p in range(n)}
        for t, n in topics.items()
    }
    return Group(tuple(members), topics, partition_racks=partition_racks if racks else {})


def disturb(rng: random.Random, group: Group, *, same: bool) -> Group:
    """Return the group, without lags or standbys, after a random event, such as a join or none."""
    racks = group.partition_racks
    members = {m.id: m for m in group.members}
    topics = dict(group.topics)
    names = sorted(topics)
    event = rng.choice(["join", "join", "leave", "leave", "grow", "resubscribe", "zombie", "quiet"])
    if event == "join":
        number = rng.randint(100, 999)
        new_topics = frozenset(rng.sample(names, rng.randint(1, len(names))))
        rack = rng.choice([None, *_RACKS]) if racks else None
        topics_of_member = frozenset(names) if same else new_topics
        members[f"n{number}"] = Member(f"n{number}", topics_of_member, rack=rack)
    elif event == "leave" and len(members) > 1:
        members.pop(rng.choice(sorted(members)))
    elif event == "grow":
        topics[rng.choice(names)] += rng.randint(1, 4)
    elif event == "resubscribe" and not same:
        member_id = rng.choice(sorted(members))
        new_topics = frozenset(rng.sample(names, rng.randint(1, len(names))))
        members[member_id] = replace(members[member_id], topics=new_topics)
    elif event == "zombie":
        member_id = rng.choice(sorted(members))
        claim = {t: rng.sample(range(n), rng.randint(0, n)) for t, n in topics.items()}
        generation = rng.choice([None, 0])
        members[member_id] = replace(members[member_id], owned=claim, generation=generation)
    return Group(tuple(members.values()), topics, partition_racks=racks)
