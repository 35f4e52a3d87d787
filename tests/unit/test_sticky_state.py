"""The planner's state as bytes: round trip, Kafka's user data, and hostile input."""

from __future__ import annotations

import base64
import json
import struct
import tracemalloc
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assignor_bridge.model import Executor, OffsetRange
from checkpoints import state_claims, state_text
from checkpoints.state_text import _ENVELOPE, VERSION, compute_checksum, decode, encode
from checkpoints.sticky_state import StateError, StickyState
from checkpoints.user_data import decode_claim, encode_claim
from tests.support.planning import Observation, Snapshot, plan
from tests.support.trials import trials


def some_state() -> str:
    members = (Executor("1", "h1", 2), Executor("2", "h2", 1), Executor("30", "h2", 3))
    asked = tuple(
        OffsetRange(topic, p, 5, 5 + 10 * (p + 1)) for topic in ("b", "aé", "c") for p in range(9)
    )
    seen = tuple(Observation("b", p, "1", 100, 1000, 0.5, 120) for p in range(5))
    state = plan(Snapshot(members, asked, observed=seen)).state
    assert state is not None
    return state


def test_round_trip():
    text = some_state()
    state = decode(text)
    assert encode(state) == text
    assert state.generation == 1
    assert state.member_count == 6
    assert [r.executor for r in state.readers] == ["1", "2", "30"]
    assert (state.member >= 0).all()
    assert (state.position > 5).all()
    assert np.isfinite(state.cost).sum() == 5
    assert state.density[np.isfinite(state.density)] == pytest.approx(100 / 120, rel=0.01)


def test_decoded_states_are_cached_and_read_only():
    text = some_state()
    state = decode(text)
    assert decode("".join(text)) is state
    for name in (
        "topic",
        "partition",
        "member",
        "position",
        "seen",
        "cost",
        "last_cost",
        "evidence",
    ):
        with pytest.raises(ValueError, match="read-only"):
            getattr(state, name)[0] = 7


def test_claims_are_kafkas_user_data():
    """Each member's bytes are the same as those of `checkpoints.user_data`."""
    state = decode(some_state())
    lengths, data = state_claims.encode_claims(state)
    for member, length in enumerate(lengths):
        claim, data = data[:length], data[length:]
        owned: dict[str, list[int]] = {}
        for row in np.flatnonzero(state.member == member).tolist():
            owned.setdefault(state.topics[state.topic[row]], []).append(int(state.partition[row]))
        assert claim == encode_claim(owned, state.generation)
        assert decode_claim(claim).generation == state.generation
    assert data == b""


def test_an_empty_state_round_trips():
    state = decode(encode(StickyState.empty()))
    assert (state.generation, state.member_count, len(state.topic)) == (0, 0, 0)


def test_truncation_at_every_length_is_noticed():
    text = some_state()
    for length in range(len(text)):
        with pytest.raises(StateError):
            decode(text[:length])


@trials(100)
@given(st.integers(0), st.integers(0, 7))
@example(byte=3, bit=0)  # another version that can be read
def test_flipped_bits_are_noticed(byte, bit):
    raw = bytearray(base64.b64decode(some_state()))
    raw[byte % len(raw)] ^= 1 << bit
    with pytest.raises(StateError):
        decode(base64.b64encode(bytes(raw)).decode())


@pytest.mark.parametrize("bit", range(32))
def test_each_bit_of_the_checksum_is_checked(bit):
    raw = bytearray(base64.b64decode(some_state()))
    raw[_ENVELOPE.size - 4 + bit // 8] ^= 1 << bit % 8
    with pytest.raises(StateError, match="its checksum does not match"):
        decode(base64.b64encode(bytes(raw)).decode())


def test_a_generation_is_never_too_large_to_be_written():
    """It is 32 bits wide in Kafka's user data, so it stays at the maximum."""
    last = replace(decode(some_state()), generation=2**31 - 1, batches=2**31 - 1)
    made = plan(Snapshot((Executor("9", "h"),), (OffsetRange("b", 0, 5, 9),), state=encode(last)))
    assert made.metrics["generation"] == 2**31 - 1
    assert decode(made.state or "").batches == 2**31 - 1


def test_an_older_version_is_refused():
    raw = bytearray(base64.b64decode(some_state()))
    raw[3] = 1
    with pytest.raises(StateError, match="version 1, older than version 2"):
        decode(base64.b64encode(bytes(raw)).decode())


def test_a_state_of_the_previous_version_keeps_owners_and_relearns_costs():
    """Up, down (`test_what_is_wrong_is_said`: a newer version is refused), and up again."""
    paces, common = {"1": [0.5, 0.5, 8.0]}, [-5.0, 3.0, True, 0.1, [0.2] * 22, 9.0, 0, 0, 1, True]
    raw = bytearray(base64.b64decode(forged({"paces": paces, "common": common})))
    raw[3:8] = struct.pack(">BI", 2, zlib.crc32(raw[8:]))
    old, new = decode(base64.b64encode(bytes(raw)).decode()), decode(some_state())
    for name in ("topic", "partition", "member", "position", "seen", "bytes", "density"):
        assert getattr(old, name).tolist() == pytest.approx(getattr(new, name), nan_ok=True)
    assert old.readers == new.readers
    for column in (old.cost, old.last_cost, old.evidence):
        assert np.isnan(column).all()
    assert (old.paces, old.common.fixed) == ({}, 0.0)
    asked = tuple(OffsetRange("b", p, 100, 200) for p in range(5))
    seen = tuple(Observation("b", p, "1", 100, 1000, 0.5, 120) for p in range(5))
    members = (Executor("1", "h1", 2), Executor("2", "h2", 1), Executor("30", "h2", 3))
    made = plan(Snapshot(members, asked, observed=seen, state=encode(old)))
    assert "stateWarning" not in made.metrics
    assert np.isfinite(decode(made.state).cost).sum() == 5


@trials(100)
@given(st.data())
def test_forged_bodies_raise_only_state_error(data):
    """With a valid checksum, any content is a state or raises StateError."""
    raw = base64.b64decode(some_state())
    body = bytearray(zlib.decompress(raw[8:]))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(body) - 1))
        body[place] = data.draw(st.integers(0, 255))
    packed = zlib.compress(bytes(body[: data.draw(st.integers(0, len(body)))]))
    forged = struct.pack(">3sBI", b"ABs", VERSION, compute_checksum(packed, VERSION)) + packed
    text = base64.b64encode(forged).decode()
    try:
        decode(text)
    except StateError:
        return
    asked = (OffsetRange("b", 0, 5, 10),)
    assert plan(Snapshot((Executor("1", "h1"),), asked, state=text)).tasks


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("ü", "not base64", id="no base64"),
        pytest.param("AAAA", "truncated", id="short"),
        pytest.param("UEsDBAAAAAAAAAAA", "not written by", id="foreign"),
        pytest.param("QUJzCQAAAAAAAAAA", "version 9, newer", id="future"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(text, message):
    with pytest.raises(StateError, match=message):
        decode(text)
    made = plan(Snapshot((), (OffsetRange("t", 0, 0, 5),), state=text))
    assert message in str(made.metrics["stateWarning"])
    assert any("planned without earlier state" in reason for reason in made.reasons)


def test_counters_round_trip():
    """The counters are `calm` and `hold`."""
    state = replace(StickyState.empty(), calm=-3, hold=77)
    after = decode(encode(state))
    assert (after.calm, after.hold) == (-3, 77)


def test_a_compression_bomb_is_refused(monkeypatch):
    monkeypatch.setattr(state_text, "_MAX_BYTES", 1000)
    packed = zlib.compress(bytes(100_000))
    text = base64.b64encode(
        struct.pack(">3sBI", b"ABs", VERSION, compute_checksum(packed, VERSION)) + packed
    )
    with pytest.raises(StateError, match="it has the wrong length"):
        decode(text.decode())


def test_a_false_header_is_refused():
    raw = base64.b64decode(some_state())
    body = zlib.decompress(raw[8:])
    size = int.from_bytes(body[:4], "big")
    header = json.loads(body[4 : 4 + size])
    for key, value in (
        ("partitions", 10**12), ("partitions", -1), ("claims", [-5] * 6), ("claims", [10**9]),
        ("readers", [["1", "h", 10**9]]), ("topics", []), ("paces", 3),
        ("paces", {"1": [0, 0, -1]}), ("paces", {"1": [1e9, 0, 0]}),
        ("common", 3), ("common", [0.0, -1.0, 0.2, 0.0, [], 0.0]),
        ("generation", 2**31), ("generation", -1), ("batches", 2**31),
        ("calm", -(2**70)), ("calm", 2**31), ("hold", -1), ("hold", 2**31),
    ):  # fmt: skip
        forged = json.dumps({**header, key: value}).encode()
        packed = zlib.compress(len(forged).to_bytes(4, "big") + forged + body[4 + size :])
        envelope = struct.pack(">3sBI", b"ABs", VERSION, compute_checksum(packed, VERSION))
        with pytest.raises(StateError):
            decode(base64.b64encode(envelope + packed).decode())


def forged(changes: dict[str, object]) -> str:
    """Return a state with another header and a valid checksum."""
    body = zlib.decompress(base64.b64decode(some_state())[8:])
    size = int.from_bytes(body[:4], "big")
    header = json.dumps({**json.loads(body[4 : 4 + size]), **changes}).encode()
    packed = zlib.compress(len(header).to_bytes(4, "big") + header + body[4 + size :])
    envelope = struct.pack(">3sBI", b"ABs", VERSION, compute_checksum(packed, VERSION))
    return base64.b64encode(envelope + packed).decode()


def test_a_false_count_allocates_nothing():
    text = forged({"partitions": 5 * 10**6})
    tracemalloc.start()
    try:
        with pytest.raises(StateError, match="it has the wrong length"):
            decode(text)
        assert tracemalloc.get_traced_memory()[1] < 5 * 10**6
    finally:
        tracemalloc.stop()


_SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=3)
)
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner),
)
_COMMON = st.tuples(
    st.none() | st.floats(-60, 60), st.floats(0, 1e101), st.floats(0, 60), st.floats(0, 60),
    st.lists(st.floats(0, 1e101), min_size=9, max_size=9) | st.just([]), st.floats(0, 60),
).map(list)  # fmt: skip
_PACES = st.dictionaries(
    st.sampled_from(["1", "2", "30", "x"]), st.lists(st.floats(-60, 60), min_size=3, max_size=3)
)
_TINY = {"1": [1e-320, 0.0, 0.4]}
_HEADERS = st.one_of(
    st.tuples(st.sampled_from(["generation", "batches", "calm", "hold", "partitions", "claims",
                               "topics", "readers", "paces", "common"]), _JSON),
    st.tuples(st.just("common"), _COMMON),
    st.tuples(st.just("paces"), _PACES),
    st.tuples(st.sampled_from(["generation", "batches", "calm", "hold"]),
              st.sampled_from([0, 1, 2**31 - 1, -(2**31 - 1)])),
)  # fmt: skip


@trials(35)
@example({"paces": _TINY})
@given(st.lists(_HEADERS, min_size=1, max_size=3).map(dict))
def test_every_accepted_state_can_be_planned_with(changes):
    """Otherwise one file in a checkpoint would make Spark plan every batch of a query."""
    try:
        text = forged(changes)
    except (ValueError, OverflowError):  # no JSON
        return
    try:
        decode(text)
    except StateError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017
        return
    members = (Executor("1", "h1", 2), Executor("2", "h2", 1))
    for batch in range(2):
        asked = tuple(OffsetRange("b", p, 100 * batch, 100 * batch + 100) for p in range(4))
        seen = tuple(Observation("b", p, "1", 100, 1000, 0.5, 100) for p in range(4))
        made = plan(Snapshot(members, asked, observed=seen, state=text))
        assert sum(task.size for task in made.tasks) == 400
        text = made.state or ""
