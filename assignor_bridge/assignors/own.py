"""An assignor of the user's own, in the shape of `protocol.Assignor`.

Whatever it does wrong, in whichever of its methods, becomes an error of ours that names it: it may
raise anything (`SystemExit` included) and return anything, and neither the planner process nor the
next line of a command's input must suffer. Its answers go through `check_assignment` like ours.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from assignor_bridge.assignors.group import Assignment, Group, Member
from assignor_bridge.assignors.registry import ASSIGNORS
from assignor_bridge.errors import OptionError, PlanError, blaming, one_line
from assignor_bridge.options import NONE, PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from assignor_bridge.assignors.protocol import Assignor, RebalanceProtocol

_PROTOCOLS = ("EAGER", "COOPERATIVE")
_MISSING = object()


class Own:
    """What the user gave, made into an object, asked with care.

    Parameters
    ----------
    written
        How the user named it: a path (`package.module:Class`) or an entry point.
    given
        A class (made without arguments), an object with `assign(group)`, or a function of a group.

    Raises
    ------
    OptionError
        When it cannot be made, has no `assign`, or a name or protocols that cannot be used.
    """

    def __init__(self, written: str, given: Any) -> None:
        self.name = written  # until it says another one
        self._written = written
        self._given = given
        self._configured: dict[tuple[tuple[str, str], ...], Own] = {}
        self._target = self._made() if inspect.isclass(given) else given
        assign = self._method("assign")
        self._function = self._target if assign is None else assign
        if not callable(self._function):
            raise OptionError(
                f"assignor {written!r} is a {type(self._target).__name__} without `assign(group)`: "
                "give a class, an instance or a function that assigns a group"
            )
        self.name = self._own_name()
        self.protocols = self._own_protocols()

    def refusal(self, group: Group) -> str | None:
        """See `Assignor.refusal`."""
        return self._reason("refusal", group)

    def reservation(self, group: Group) -> str | None:
        """See `Assignor.reservation`."""
        return self._reason("reservation", group)

    def assign(self, group: Group) -> Assignment:
        """See `Assignor.assign`; what it answers is checked by `check_assignment`."""
        return cast("Assignment", self._asked(self._function, "assign", group))

    def user_data(self, member: Member) -> bytes | None:
        """See `Assignor.user_data`."""
        method = self._method("user_data")
        data = None if method is None else self._asked(method, "user_data", member)
        if data is not None and not isinstance(data, (bytes, bytearray)):
            raise self._wrong("user_data", data, "bytes or None")
        return None if data is None else bytes(data)

    def on_assignment(
        self, member: Member, owned: Mapping[str, Sequence[int]], generation: int
    ) -> Member:
        """See `Assignor.on_assignment`; an answer of None leaves the member as it would be."""
        method = self._method("on_assignment")
        usual = replace(member, owned=owned, generation=generation)
        if method is None:
            return usual
        after = self._asked(method, "on_assignment", member, owned, generation)
        if after is None:
            return usual
        if not isinstance(after, Member) or after.id != member.id:
            raise self._wrong("on_assignment", after, f"the member {member.id!r} or None")
        return after

    @property
    def listens(self) -> bool:
        """Whether it wants to know what members got."""
        return self._method("on_assignment") is not None

    def configured(self, options: Mapping[str, str]) -> Own:
        """Give it its options; each distinct set of them configures an object of its own, once.

        Parameters
        ----------
        options
            What was written as `assignor.<name>.<key>`, by key.
        """
        key = tuple(sorted(options.items()))
        known = self._configured.get(key)
        if known is not None:
            return known
        fresh = Own(self._written, self._given) if self._configured else self
        configure = fresh._method("configure")
        if configure is not None:
            keys = ", ".join(options) or "none are given"
            with blaming(
                OptionError, f"assignor {self.name!r} does not take its options ({keys}): {{}}"
            ):
                configure(dict(options))
        elif options:
            raise OptionError(
                f"option '{PREFIX}{self.name}.{min(options)}' is for assignor {self.name!r}, "
                "which has no `configure(options)`: leave it out, or give it that method"
            )
        self._configured[key] = fresh._configured[key] = fresh
        return fresh

    @property
    def is_configured(self) -> bool:
        """Whether it has its options."""
        return bool(self._configured)

    def _made(self) -> Any:
        with blaming(
            OptionError,
            f"assignor {self._written!r} could not be made: {{}}. "
            "Its class is called without arguments",
        ):
            return self._given()

    def _method(self, name: str, default: Any = None) -> Any:
        """Give an attribute; to look at it may run code of the user's."""
        with blaming(OptionError, f"assignor {self.name!r} raised {{}} when asked for its {name}"):
            return getattr(self._target, name, default)

    def _asked(self, method: Callable[..., Any], what: str, *values: Any) -> Any:
        where = "" if what == "assign" else f" in {what}"
        with blaming(PlanError, f"assignor {self.name!r} raised {{}}{where}"):
            return method(*values)

    def _reason(self, what: str, group: Group) -> str | None:
        method = self._method(what)
        reason = None if method is None else self._asked(method, what, group)
        if reason is not None and not isinstance(reason, str):
            raise self._wrong(what, reason, "a line of text or None")
        return None if reason is None else one_line(reason)

    def _wrong(self, what: str, answer: Any, expected: str) -> PlanError:
        kind = type(answer).__name__
        return PlanError(f"assignor {self.name!r} answered a {kind} in {what}: {expected} expected")

    def _own_name(self) -> str:
        name = self._method("name")
        if name is None:
            return self._written
        if not isinstance(name, str) or not name.isprintable() or not name.strip() or "," in name:
            raise OptionError(
                f"assignor {self._written!r} has a name that cannot be used "
                f"(a {type(name).__name__}): one line of text without commas is expected"
            )
        if name in ASSIGNORS or name.lower() == NONE:
            raise OptionError(
                f"assignor {self._written!r} calls itself {name!r}, which means one of ours: "
                "give it another name"
            )
        return name

    def _own_protocols(self) -> tuple[RebalanceProtocol, ...]:
        given = self._method("protocols", _MISSING)
        if given is _MISSING:
            return ("EAGER",)
        if (
            not isinstance(given, (tuple, list))
            or not given
            or any(each not in _PROTOCOLS for each in given)
        ):
            raise OptionError(
                f"assignor {self._written!r} has protocols that cannot be used "
                f"(a {type(given).__name__}): a tuple of {' and '.join(_PROTOCOLS)} is expected"
            )
        return tuple(given)


def configured(
    names: Iterable[str],
    options: Sequence[tuple[str, str]],
    find: Callable[[str], Assignor],
) -> dict[str, Assignor]:
    """Find the listed assignors, and hand the user's own ones their options.

    An option belongs to the own assignor with whose name it begins, compared without case: `age` of
    `mine.age` to the one that is called `mine`.

    Parameters
    ----------
    names
        The list, as written.
    options
        Names, without `assignor.`, and values of those that no table of ours has.
    find
        Gives the assignor of a name.

    Raises
    ------
    OptionError
        When one is not known or cannot be made or configured, or an option belongs to none.
    """
    found = {name: find(name) for name in names}
    own = {a.name.lower(): a for a in found.values() if isinstance(a, Own)}
    theirs: dict[str, dict[str, str]] = {name: {} for name in own}
    for option, value in options:
        lowered = option.lower()
        name = max((n for n in own if lowered.startswith(f"{n}.")), key=len, default=None)
        if name is None:
            listed = ", ".join(repr(a.name) for a in own.values()) or "none"
            raise OptionError(
                f"unknown option '{PREFIX}{option}': it begins with the name of no assignor of "
                f"yours that is in use (there is {listed})"
            )
        theirs[name][option[len(name) + 1 :]] = value
    return {
        written: a.configured(theirs[a.name.lower()]) if isinstance(a, Own) else a
        for written, a in found.items()
    }
