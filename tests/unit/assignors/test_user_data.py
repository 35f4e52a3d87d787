"""The bytes of KIP-341: both versions, both directions, and hostile input."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor_bridge.assignors import ASSIGNORS, Group, Member
from assignor_bridge.assignors.claims import add_claim
from checkpoints.user_data import (
    Claim,
    UserDataError,
    decode_claim,
    decode_priority,
    encode_claim,
    encode_generation,
    encode_priority,
)

# one topic "t1": partitions 0 and 3; then generation 5
V0 = bytes.fromhex("00000001 0002 7431 00000002 00000000 00000003")
V1 = V0 + bytes.fromhex("00000005")


def test_encoded_bytes_match_kafkas() -> None:
    assert encode_claim({"t1": [3, 0]}, None) == V0
    assert encode_claim({"t1": [0, 3]}, 5) == V1
    assert encode_priority(2**31 - 1) == bytes.fromhex("7fffffff")
    assert encode_priority(-1) == bytes.fromhex("ffffffff")
    assert encode_generation(None) == bytes.fromhex("ffffffff")


@pytest.mark.parametrize(
    ("data", "claim"),
    [
        pytest.param(V1, Claim({"t1": (0, 3)}, 5), id="version 1"),
        pytest.param(V0, Claim({"t1": (0, 3)}, -1), id="version 0 has no generation"),
        pytest.param(V1 + b"more", Claim({"t1": (0, 3)}, 5), id="what follows is ignored"),
        pytest.param(V0 + b"\0\0", Claim({"t1": (0, 3)}, -1), id="half a generation is none"),
        pytest.param(None, Claim(), id="absent"),
        pytest.param(b"", Claim(), id="empty"),
        pytest.param(b"\xff\xff\xff\xff", Claim(), id="negative count of topics"),
        pytest.param(b"\x7f\xff\xff\xff" + V0, Claim(), id="more topics than bytes"),
        pytest.param(V0[:8] + b"\x7f\xff\xff\xff\0", Claim(), id="more partitions than bytes"),
        pytest.param(V0[:4] + b"\xff\xfe" + V0[6:], Claim(), id="negative length of a name"),
        pytest.param(V0[:6] + b"\xc3\x28" + V0[8:], Claim(), id="a name that is not UTF-8"),
        pytest.param(V0[:-4] + b"\xff\xff\xff\xff", Claim(), id="negative partition"),
    ],
)
def test_claims_are_decoded(data: bytes | None, claim: Claim) -> None:
    assert decode_claim(data) == claim


def test_a_reader_of_version_0_ignores_the_generation() -> None:
    """Version 1 begins with all of version 0: a reader of only the array gets the same claim."""
    assert V1.startswith(encode_claim({"t1": [0, 3]}, None))


@given(
    st.dictionaries(
        st.text(max_size=8).filter(lambda t: t.isprintable()),
        st.sets(st.integers(0, 2**31 - 1), max_size=5),
        max_size=4,
    ),
    st.integers(-(2**31), 2**31 - 1) | st.none(),
)
def test_round_trip(owned: dict[str, set[int]], generation: int | None) -> None:
    data = encode_claim(owned, generation)
    expected = {t: tuple(sorted(ps)) for t, ps in owned.items()}
    assert decode_claim(data) == Claim(expected, -1 if generation is None else generation)
    assert encode_claim(decode_claim(data).owned, generation) == data


@given(st.binary(max_size=60))
def test_arbitrary_bytes_never_raise(data: bytes) -> None:
    claim = decode_claim(data)
    assert all(p >= 0 for ps in claim.owned.values() for p in ps)
    decode_priority(data)


def test_absurd_counts_allocate_nothing() -> None:
    data = b"\x7f\xff\xff\xff" + bytes(1_000)
    tracemalloc.start()
    assert decode_claim(data) == Claim()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


def test_a_repeated_topic_is_read_in_linear_time() -> None:
    """20,000 blocks of one topic once took 6.9 s, with quadratic growth."""

    def steps_of(blocks: int) -> int:
        block = struct.pack(">h1si", 1, b"t", 1)
        numbers = range(blocks - 1, -1, -1)
        data = struct.pack(">i", blocks) + b"".join(block + struct.pack(">i", n) for n in numbers)
        touched = 0

        class Counted(int):
            def __hash__(self) -> int:
                nonlocal touched
                touched += 1
                return super().__hash__()

        unpack = struct.unpack_from

        def counting(form: str, *rest: Any) -> tuple[int, ...]:
            return tuple(map(Counted, unpack(form, *rest)))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("checkpoints.user_data.struct.unpack_from", counting)
            claim = decode_claim(data)
        assert claim.owned == {"t": tuple(range(blocks))}
        return touched

    assert steps_of(400) <= 2.5 * steps_of(200)


@pytest.mark.parametrize(
    ("owned", "generation", "text"),
    [
        pytest.param({"t" * 32_768: [0]}, 1, "the limit is 32767", id="long name"),
        pytest.param({"t": [-1]}, 1, "must be from 0 to", id="negative partition"),
        pytest.param({"t": [0]}, 2**31, "generation is 2147483648", id="large generation"),
    ],
)
def test_values_that_do_not_fit_are_refused(
    owned: dict[str, list[int]], generation: int, text: str
) -> None:
    with pytest.raises(UserDataError, match=text):
        encode_claim(owned, generation)


def test_a_hostile_claim_costs_only_stickiness() -> None:
    """A member claims partition 2,147,483,647 of a topic with two partitions."""
    data = encode_claim({"t": [1, 2**31 - 1], "gone": [0]}, 3)
    member = add_claim(Member("C1", frozenset({"t"})), data)
    group = Group((Member("C0", frozenset({"t"})), member), {"t": 2})
    assert ASSIGNORS["sticky"].assign(group).as_dict() == {"C0": {"t": [0]}, "C1": {"t": [1]}}


def test_strategies_add_their_user_data() -> None:
    member = Member("C", frozenset({"t1"}), {"t1": [0, 3]}, 5, priority=7)
    assert ASSIGNORS["sticky"].user_data(member) == V1
    assert ASSIGNORS["sticky"].user_data(Member("new", frozenset())) is None
    assert ASSIGNORS["failover"].user_data(member) == bytes.fromhex("00000007")
    assert ASSIGNORS["cooperative-sticky"].user_data(member) == bytes.fromhex("00000005")
    assert ASSIGNORS["range"].user_data(member) is None


@pytest.mark.parametrize(
    ("priorities", "best"),
    [
        pytest.param([1, 5, 5], "B", id="ties by member id"),
        pytest.param([None, -9, None], "B", id="without a priority ranks lowest"),
        pytest.param([None, None, None], "A", id="nobody has one"),
    ],
)
def test_failover_ranks_priorities(priorities: list[int | None], best: str) -> None:
    members = tuple(
        Member(name, frozenset({"t"}), priority=p)
        for name, p in zip("ABC", priorities, strict=True)
    )
    group = Group(members, {"t": 3})
    assert ASSIGNORS["failover"].assign(group)[best].count == 3


def test_failover_reads_the_priority_from_user_data() -> None:
    members = (
        Member("A", frozenset({"t"}), user_data=encode_priority(1)),
        Member("B", frozenset({"t"}), user_data=encode_priority(2)),
        Member("C", frozenset({"t"}), user_data=b"\x7f"),
    )
    assert ASSIGNORS["failover"].assign(Group(members, {"t": 2}))["B"].count == 2
