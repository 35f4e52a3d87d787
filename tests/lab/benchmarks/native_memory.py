"""Resident memory of a JVM by kind, from `/proc/PID/smaps`, with Native Memory Tracking (NMT).

The kinds add up to the resident memory. What NMT tracks is committed, not resident, and does not
include what native libraries allocate.
"""

from __future__ import annotations

import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from assignor_bridge.ivy import find_tool

HEAP, MALLOC, FILES, CODE = "Java heap", "C library's malloc", "mapped files", "compiled code"
STACKS, OTHER = "thread stacks", "class metadata, collector and other"
KINDS = (HEAP, MALLOC, OTHER, CODE, STACKS, FILES)
#: What the JVM has allocated by malloc and not freed, direct buffers included.
IN_USE = "NMT: all by malloc"
TRACKED = ("Metaspace", "Class", "Symbol", "Code", "Other", "Thread", "GC")
#: The most that compilations and other short work of the JVM held at a time.
PEAK = "NMT: Arena Chunk, peak"

#: glibc aligns each heap of an arena to its greatest size (HEAP_MAX_SIZE on 64 bits).
_ARENA = 64 << 20
#: With compressed pointers, a heap of 1 GB lies below the first and classes below the second.
_HEAP_LIMIT, _CLASS_LIMIT = 1 << 32, 1 << 40
_MAX_GUARD, _MAX_STACK = 64 << 10, 9 << 20
_HEADER = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ (\d+)\s*(.*)")
_TRACKED = re.compile(r"^-\s+(.*?) \(reserved=\d+KB, committed=(\d+)KB", re.MULTILINE)
_MALLOC = re.compile(r"\(malloc=(\d+)KB")
_PEAK = re.compile(r"Arena Chunk .*\n\s+\(malloc=(\d+)KB #\d+\) \((?:peak=(\d+)KB|at peak)")


@dataclass(slots=True)
class Mapping:
    """One range of addresses of a process."""

    start: int
    end: int
    permissions: str
    is_file: bool
    name: str
    resident_mb: float = 0.0


@dataclass(frozen=True)
class NativeMemory:
    """What one JVM holds at one time: MB of each part."""

    time_s: float
    mb: dict[str, float]


def look_at(pid: int) -> str:
    """Return what `parse_look` reads: the time, the mappings of a JVM and what NMT reports."""
    smaps = Path(f"/proc/{pid}/smaps").read_text()
    return f"{time.time()}\n{smaps}{run_jcmd(pid, 'VM.native_memory', 'summary')}"


def run_jcmd(pid: int, *command: str) -> str:
    """Return the output of a diagnostic command of a JVM."""
    words = [find_tool("jcmd"), str(pid), *command]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def parse_look(text: str) -> NativeMemory:
    """Read what `look_at` returned."""
    resident = dict.fromkeys(KINDS, 0.0)
    for mapping, kind in classify(parse_mappings(text)):
        resident[kind] += mapping.resident_mb
    tracked = {name: int(kb) / 1024 for name, kb in _TRACKED.findall(text)}
    mb = {"resident": sum(resident.values())} | resident
    mb[IN_USE] = sum(map(int, _MALLOC.findall(text))) / 1024
    mb |= {f"NMT: {name}": tracked.get(name, 0.0) for name in TRACKED}
    peak = _PEAK.search(text)
    mb[PEAK] = int(peak[2] or peak[1]) / 1024 if peak else 0.0
    return NativeMemory(float(text.split("\n", 1)[0]), mb)


def parse_mappings(text: str) -> list[Mapping]:
    """Read the mappings of `/proc/PID/smaps`, by address."""
    mappings: list[Mapping] = []
    for line in text.splitlines():
        if header := _HEADER.fullmatch(line):
            start, end, permissions, inode, name = header.groups()
            mappings.append(Mapping(int(start, 16), int(end, 16), permissions, inode != "0", name))
        elif line.startswith("Rss:"):
            mappings[-1].resident_mb = int(line.split()[1]) / 1024
    return mappings


def classify(mappings: list[Mapping]) -> list[tuple[Mapping, str]]:
    """Return each mapping with its kind."""
    arenas = arena_starts(mappings)
    classified, guard_end = [], 0
    for one in mappings:
        size = one.end - one.start
        if one.is_file:
            kind = FILES
        elif one.end <= _HEAP_LIMIT:
            kind = HEAP
        elif one.name == "[heap]" or one.start // _ARENA * _ARENA in arenas:
            kind = MALLOC
        elif "x" in one.permissions:
            kind = CODE
        elif one.start == guard_end and size <= _MAX_STACK:
            kind = STACKS
        else:
            kind = OTHER
        classified.append((one, kind))
        is_guard = one.permissions == "---p" and size <= _MAX_GUARD
        guard_end = one.end if is_guard else 0
    return classified


def arena_starts(mappings: list[Mapping]) -> set[int]:
    """Find the heaps of malloc's arenas: aligned, used from the start and reserved to the end."""
    ends = {one.end for one in mappings}
    reserved = {one.start for one in mappings if one.permissions == "---p"}
    return {
        one.start
        for one in mappings
        if one.start % _ARENA == 0
        and one.start > _CLASS_LIMIT
        and one.permissions == "rw-p"
        and not one.is_file
        and one.end <= one.start + _ARENA in ends
        and (one.end == one.start + _ARENA or one.end in reserved)
    }
