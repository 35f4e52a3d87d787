"""An assignor of the user's own, in the shape of `protocol.Assignor`.

Whatever it does wrong, in whichever of its methods, becomes an error of ours that names it: it may
raise anything (`SystemExit` included) and return anything, and neither the planner process nor the
next line of a command's input must suffer. Its answers go through `check_assignment` like ours.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, cast

from assignor_bridge.assignors.group import Assignment, Group, Member
from assignor_bridge.assignors.registry import ASSIGNORS
from assignor_bridge.errors import OptionError, PlanError, convert_errors, to_one_line
from assignor_bridge.options import NONE, PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from assignor_bridge.assignors.protocol import Assignor, RebalanceProtocol

_PROTOCOLS = ("EAGER", "COOPERATIVE")


class CustomAssignor:
    """What the user gave, made into an object, asked with care.

    `written` is how the user named it: a path (`package.module:Class`) or an entry point. `given`
    is a class (made without arguments), an object with `assign(group)`, or a function of a group.

    Raises
    ------
    OptionError
        When it cannot be made, has no `assign`, or a name or protocols that cannot be used.
    """

    def __init__(self, written: str, given: Any) -> None:
        self.name = written  # until it has another one
        self._written = written
        self._given = given
        self._target = given
        self._configured: dict[frozenset[tuple[str, str]], CustomAssignor] = {}
        if inspect.isclass(given):
            with convert_errors(
                OptionError,
                f"assignor {written!r} could not be made: {{}}. Its class is called without "
                "arguments",
            ):
                self._target = given()
        self._function = self._attribute("assign", self._target)
        if not callable(self._function):
            raise OptionError(
                f"assignor {written!r} is a {type(self._target).__name__} without `assign(group)`: "
                "give a class, an instance or a function that assigns a group"
            )
        self.name = self._checked_name()
        self.protocols = self._checked_protocols()

    def refusal(self, group: Group) -> str | None:
        """See `Assignor.refusal`."""
        return self._ask_reason("refusal", group)

    def reservation(self, group: Group) -> str | None:
        """See `Assignor.reservation`."""
        return self._ask_reason("reservation", group)

    def assign(self, group: Group) -> Assignment:
        """See `Assignor.assign`; what it answers is checked by `check_assignment`."""
        with convert_errors(PlanError, f"assignor {self.name!r} raised {{}}"):
            return cast("Assignment", self._function(group))

    def user_data(self, member: Member) -> bytes | None:
        """See `Assignor.user_data`."""
        data = self._ask("user_data", (bytes, bytearray), "bytes or None", member)
        return None if data is None else bytes(data)

    def on_assignment(
        self, member: Member, owned: Mapping[str, Sequence[int]], generation: int
    ) -> Member:
        """See `Assignor.on_assignment`; an answer of None leaves the member as it would be."""
        expected = f"the member {member.id!r} or None"
        after = self._ask("on_assignment", Member, expected, member, owned, generation)
        if after is not None and after.id != member.id:
            raise self._wrong("on_assignment", after, expected)
        return cast("Member", after) if after is not None else member.owning(owned, generation)

    @property
    def listens(self) -> bool:
        """Whether it wants to know what members got."""
        return self._attribute("on_assignment") is not None

    def configure_assignors(self, options: Mapping[str, str]) -> CustomAssignor:
        """Return it with its options, by key; each distinct set of them has an own object."""
        key = frozenset(options.items())
        if key in self._configured:
            return self._configured[key]
        own = CustomAssignor(self._written, self._given) if self._configured else self
        configure = own._attribute("configure")
        if configure is not None:
            keys = ", ".join(options) or "none are given"
            with convert_errors(
                OptionError, f"assignor {self.name!r} does not take its options ({keys}): {{}}"
            ):
                configure(dict(options))
        elif options:
            raise OptionError(
                f"option '{PREFIX}{self.name}.{min(options)}' is for assignor {self.name!r}, "
                "which has no `configure(options)`: leave it out, or give it that method"
            )
        self._configured[key] = own._configured[key] = own
        return own

    @property
    def is_configured(self) -> bool:
        """Whether it has its options."""
        return bool(self._configured)

    def _attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute of the user's object; to look at it may run code of the user's."""
        with convert_errors(
            OptionError, f"assignor {self.name!r} raised {{}} when asked for its {name}"
        ):
            return getattr(self._target, name, default)

    def _ask(self, method: str, kind: Any, expected: str, *values: Any) -> Any:
        """Call a method that it may lack; its answer is of that kind, or None."""
        function = self._attribute(method)
        if function is None:
            return None
        with convert_errors(PlanError, f"assignor {self.name!r} raised {{}} in {method}"):
            answer = function(*values)
        if answer is not None and not isinstance(answer, kind):
            raise self._wrong(method, answer, expected)
        return answer

    def _ask_reason(self, method: str, group: Group) -> str | None:
        reason = self._ask(method, str, "a line of text or None", group)
        return None if reason is None else to_one_line(reason)

    def _wrong(self, method: str, answer: Any, expected: str) -> PlanError:
        return PlanError(
            f"assignor {self.name!r} returned {type(answer).__name__} from {method}: "
            f"{expected} is expected"
        )

    def _checked_name(self) -> str:
        name = self._attribute("name")
        if name is None:
            return self._written
        if not isinstance(name, str) or not name.isprintable() or not name.strip() or "," in name:
            raise OptionError(
                f"assignor {self._written!r} has a name that cannot be used "
                f"(a {type(name).__name__}): one line of text without commas is expected"
            )
        if name in ASSIGNORS or name.lower() == NONE:
            raise OptionError(
                f"assignor {self._written!r} calls itself {name!r}, which is one of our names: "
                "give it another name"
            )
        return str.__str__(name)  # of a subclass only the text: an answer to Java holds no other

    def _checked_protocols(self) -> tuple[RebalanceProtocol, ...]:
        given = self._attribute("protocols", ("EAGER",))
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


def configure_assignors(
    names: Iterable[str],
    options: Sequence[tuple[str, str]],
    find: Callable[[str], Assignor],
) -> dict[str, Assignor]:
    """Find the listed assignors, by name as written, and hand the user's own ones their options.

    `options` are names, without `assignor.`, and values of those that no table of ours has. Each
    belongs to the own assignor with whose name it begins, compared without case: `age` of
    `mine.age` to the one that is called `mine`.

    Raises
    ------
    OptionError
        When one is not known or cannot be made or configured, or an option belongs to none.
    """
    assignors = {name: find(name) for name in names}
    own = {a.name.lower(): a for a in assignors.values() if isinstance(a, CustomAssignor)}
    options_of: dict[str, dict[str, str]] = {name: {} for name in own}
    for option, value in options:
        name = max((n for n in own if option.lower().startswith(f"{n}.")), key=len, default=None)
        if name is None:
            listed = ", ".join(repr(a.name) for a in own.values()) or "none"
            raise OptionError(
                f"unknown option '{PREFIX}{option}': it does not begin with the name of an "
                f"assignor of yours that is in use ({listed})"
            )
        options_of[name][option[len(name) + 1 :]] = value
    return {
        written: a.configured(options_of[a.name.lower()]) if isinstance(a, CustomAssignor) else a
        for written, a in assignors.items()
    }
