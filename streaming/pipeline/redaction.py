"""Keep secrets out of what is printed: dry runs, errors, logs.

Two rules: a value under a key that looks secret is hidden, and so is every value that came from
the environment (its place is taken by the name of the variable).
"""

from __future__ import annotations

import re
from typing import Any

_SECRET_KEY = re.compile(
    r"secret|passw|token|credential|jaas|access[._-]?key|private[._-]?key|api[._-]?key|"
    r"keystore\.key|sasl\.oauthbearer",
    re.IGNORECASE,
)
_SHORTEST = 3
HIDDEN = "***"


def is_secret_key(key: str) -> bool:
    """Whether the value under this key must not be shown.

    >>> is_secret_key("kafka.sasl.jaas.config"), is_secret_key("kafka.bootstrap.servers")
    (True, False)
    """
    return _SECRET_KEY.search(key) is not None


class Redactor:
    """Replaces known values in texts; it learns them while a config is read."""

    def __init__(self) -> None:
        self._stand_ins: dict[str, str] = {}

    def learn_variable(self, name: str, value: str) -> None:
        """Hide a value that came from the environment; too short ones would garble every text."""
        if len(value) >= _SHORTEST:
            self._stand_ins[value] = "${" + name + "}"

    def learn_secrets(self, value: Any, key: str = "") -> None:
        """Hide all values of a config whose keys look secret."""
        if isinstance(value, dict):
            for name, below in value.items():
                self.learn_secrets(below, f"{key}.{name}")
        elif isinstance(value, list):
            for below in value:
                self.learn_secrets(below, key)
        elif value is not None and is_secret_key(key):
            text = str(value)
            for part in (text, *re.findall(r'"([^"]+)"|\'([^\']+)\'', text)):
                for word in (part,) if isinstance(part, str) else part:
                    if word:
                        self._stand_ins.setdefault(word, HIDDEN)

    def __call__(self, text: str) -> str:
        """Give the text without the values that must not be shown, longest first."""
        for value in sorted(self._stand_ins, key=len, reverse=True):
            text = text.replace(value, self._stand_ins[value])
        return text
