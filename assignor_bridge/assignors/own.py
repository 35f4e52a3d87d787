"""Adapt a custom assignor to `protocol.Assignor`.

Its methods may raise any error, even `SystemExit`, or return a value of a wrong type. Each such
fault becomes an error that names the assignor; the planner process continues, and so does a command
with its next line of input. `check_assignment` checks its answers, as for built-in assignors.
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
    """An assignor that calls a user's class, object or function, and checks each result.

    `reference` is the user's name for it: a path (`package.module:Class`) or an entry point.
    `user_object` is a class (called without arguments), an object with `assign(group)`, or a
    function of a group.

    Raises OptionError if the class or an attribute raises an error, if there is no `assign`, or if
    the name or the protocols are invalid.
    """

    def __init__(self, reference: str, user_object: Any) -> None:
        self.name = reference  # in messages until `_read_name` has read the name
        self._reference = reference
        self._user_object = user_object
        self._assignor = user_object
        self._variants: dict[frozenset[tuple[str, str]], CustomAssignor] = {}  # by options
        if inspect.isclass(user_object):
            with convert_errors(
                OptionError,
                f"assignor {reference!r} could not be created: {{}}. Its class is called without "
                "arguments",
            ):
                self._assignor = user_object()
        self._function = self._read_attribute("assign", self._assignor)
        if not callable(self._function):
            raise OptionError(
                f"assignor {reference!r} is a {type(self._assignor).__name__} without "
                "`assign(group)`: use a class, an instance or a function that assigns a group"
            )
        self.name = self._read_name()
        self.protocols = self._read_protocols()

    def refusal(self, group: Group) -> str | None:
        """Return why the user's assignor refuses the group, or None (`Assignor.refusal`)."""
        return self._call_for_reason("refusal", group)

    def reservation(self, group: Group) -> str | None:
        """Return why another assignor is preferable, or None (`Assignor.reservation`)."""
        return self._call_for_reason("reservation", group)

    def assign(self, group: Group) -> Assignment:
        """Return the answer of the user's assignor, which `assign_checked` checks."""
        with convert_errors(PlanError, f"assignor {self.name!r} raised {{}}"):
            return cast("Assignment", self._function(group))

    def user_data(self, member: Member) -> bytes | None:
        """Return the bytes that it adds to a subscription, or None (`Assignor.user_data`)."""
        data = self._call("user_data", (bytes, bytearray), "bytes or None", member)
        return None if data is None else bytes(data)

    def on_assignment(
        self, member: Member, owned: Mapping[str, Sequence[int]], generation: int
    ) -> Member:
        """Return the member as it joins next time (`Assignor.on_assignment` or `Member.rejoin`)."""
        expected = f"the member {member.id!r} or None"
        result = self._call("on_assignment", Member, expected, member, owned, generation)
        if result is not None and result.id != member.id:
            raise self._make_type_error("on_assignment", result, expected)
        return cast("Member", result) if result is not None else member.rejoin(owned, generation)

    @property
    def has_on_assignment(self) -> bool:
        """Whether it has `on_assignment`."""
        return self._read_attribute("on_assignment") is not None

    def with_options(self, options: Mapping[str, str]) -> CustomAssignor:
        """Return the assignor for `options`, cached by them; OptionError if it rejects them."""
        key = frozenset(options.items())
        if key in self._variants:
            return self._variants[key]
        assignor = CustomAssignor(self._reference, self._user_object) if self._variants else self
        if (configure := assignor._read_attribute("configure")) is not None:
            keys = ", ".join(options) or "none are given"
            with convert_errors(
                OptionError, f"assignor {self.name!r} does not accept its options ({keys}): {{}}"
            ):
                configure(dict(options))
        elif options:
            raise OptionError(
                f"option '{PREFIX}{self.name}.{min(options)}' is for assignor {self.name!r}, "
                "which has no `configure(options)`: remove the option, or add that method"
            )
        self._variants[key] = assignor._variants[key] = assignor
        return assignor

    @property
    def is_configured(self) -> bool:
        """Whether `with_options` has succeeded, with or without options."""
        return bool(self._variants)

    def _read_attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute of the user's object, or the default; reading it may run any code."""
        with convert_errors(OptionError, f"assignor {self.name!r} raised {{}} (reading `{name}`)"):
            return getattr(self._assignor, name, default)

    def _call(self, method: str, expected_type: Any, expected: str, *arguments: Any) -> Any:
        """Call a method, if it exists; raise PlanError for an error or a value of a wrong type."""
        if (function := self._read_attribute(method)) is None:
            return None
        with convert_errors(PlanError, f"assignor {self.name!r} raised {{}} (in `{method}`)"):
            answer = function(*arguments)
        if answer is not None and not isinstance(answer, expected_type):
            raise self._make_type_error(method, answer, expected)
        return answer

    def _call_for_reason(self, method: str, group: Group) -> str | None:
        reason = self._call(method, str, "a line of text or None", group)
        return None if reason is None else to_one_line(reason)

    def _make_type_error(self, method: str, answer: Any, expected: str) -> PlanError:
        return PlanError(
            f"assignor {self.name!r} returned {type(answer).__name__} from {method}: "
            f"expected {expected}"
        )

    def _read_name(self) -> str:
        if (name := self._read_attribute("name")) is None:
            return self._reference
        if not isinstance(name, str) or not name.isprintable() or not name.strip() or "," in name:
            raise OptionError(
                f"assignor {self._reference!r} has an invalid name "
                f"(a {type(name).__name__}): use one line of text, not empty, without commas"
            )
        if name in ASSIGNORS or name.lower() == NONE:
            raise OptionError(
                f"assignor {self._reference!r} has the reserved name {name!r}: give it another name"
            )
        return str.__str__(name)  # flatten subclasses: msgspec encodes only plain str

    def _read_protocols(self) -> tuple[RebalanceProtocol, ...]:
        protocols = self._read_attribute("protocols", ("EAGER",))
        is_sequence = isinstance(protocols, (tuple, list))
        if not is_sequence or not protocols or any(p not in _PROTOCOLS for p in protocols):
            raise OptionError(
                f"assignor {self._reference!r} has invalid protocols "
                f"(a {type(protocols).__name__}): expected a tuple of EAGER, COOPERATIVE, or both"
            )
        return tuple(protocols)


def configure_without_options(assignor: Assignor) -> Assignor:
    """Return the assignor; configure a custom one with no options."""
    return assignor.with_options({}) if isinstance(assignor, CustomAssignor) else assignor


def configure_assignors(
    names: Iterable[str], options: Sequence[tuple[str, str]], find: Callable[[str], Assignor]
) -> dict[str, Assignor]:
    """Return the named assignors, keyed by name as written; configure the custom ones.

    `options` has the names (without `assignor.`) and values of the options that are not built in.
    Each belongs to the custom assignor with the longest name that it begins with, ignoring case:
    `mine.age` is the option `age` of the assignor `mine`.

    Raises OptionError if an assignor is unknown or fails, or an option belongs to no assignor.
    """
    assignors = {name: find(name) for name in names}
    custom_by_key = {a.name.lower(): a for a in assignors.values() if isinstance(a, CustomAssignor)}
    options_by_key: dict[str, dict[str, str]] = {key: {} for key in custom_by_key}
    for option, value in options:
        matching_keys = [key for key in custom_by_key if option.lower().startswith(f"{key}.")]
        assignor_key = max(matching_keys, key=len, default=None)
        if assignor_key is None:
            custom_names = ", ".join(repr(a.name) for a in custom_by_key.values()) or "none"
            raise OptionError(
                f"unknown option '{PREFIX}{option}': it does not begin with the name of a "
                f"custom assignor in use ({custom_names})"
            )
        options_by_key[assignor_key][option[len(assignor_key) + 1 :]] = value
    for name, assignor in assignors.items():
        if isinstance(assignor, CustomAssignor):
            assignors[name] = assignor.with_options(options_by_key[assignor.name.lower()])
    return assignors
