"""Keep secrets out of every text: messages, logs, metrics, dry runs.

Three rules: the value of a setting whose name looks secret is hidden; so is each value that came
from the environment (the variable's name takes its place); and so is what has the shape of a
secret wherever it stands, such as a password in a URL.
"""

from __future__ import annotations

import base64
import html
import json
import re
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from collections.abc import Callable

_WORDS = (
    r"secret|passw|pwd|passphrase|credential|jaas|username|user\.info|authorization"
    r"|token(?!\.endpoint)|oauthbearer\.(?:client|config|extensions)"
    r"|(?:access|account|private|api|shared|encryption|signing)[._-]?key|key\.pem|keystore\.key"
    r"|connection[._-]?string|(?:^|[._-])sas(?:$|[._-])"
)
#: Names of settings with secret values, and such settings in a text (`name -> value`), as patterns
#: that Java knows, too.
SECRET_KEYS = f"(?i){_WORDS}"
#: An address with a login in it, whatever its setting is called, as a pattern of Java's, too.
LOGINS = r"://[^\s/@:'\"]*:[^\s'\"]+@"
SECRET_OPTIONS = (  # a value may have lines, as keys in PEM do, and brackets
    rf"(?is)(?:{_WORDS})[\w.-]* -> .*?(?=, [\w.-]+ -> |\),(?:None|Some\()|\)\s*\n|$)"
)
_SECRET_KEY = re.compile(SECRET_KEYS)
#: Shorter ones are part of ordinary words: hiding them would garble every text.
_SHORTEST = 3
#: Words shorter than this are hidden as whole words only.
_WORD = 8
#: What a variable may hold without being a secret: `true`, `kafka`, `9092`, `orders`. Hidden, it
#: would be missing in every message. Where a key or the variable says that it is one, it is hidden.
_PLAIN = re.compile(r"[A-Z]?[a-z]{0,6}|[A-Z]{0,7}|\d{0,7}")
HIDDEN = "***"

#: `user:password@` of an address; a password may hold a slash, as those of S3 do. Where a path was
#: made of an address it has one slash of two.
_USER_INFO = re.compile(
    r"(\b[a-z][a-z0-9+.-]{0,20}:/{1,2})([^\s/@:'\"]{0,200}):([^\s'\"]{1,500}?)@(?![^\s'\"/,;]*@)",
    re.IGNORECASE,
)
#: A token alone before the host; elsewhere that place holds a container's name (abfss://C@HOST).
_WEB_USER = re.compile(r"(\bhttps?:/{1,2})([^\s/@'\"]{1,500})@", re.IGNORECASE)
#: Names of secrets in a text of which nothing else is known, and how they go on.
_KEYS = r"(?:access|account|private|api|shared|encryption|signing|secret)[._-]?key"
_STRONG = rf"passw(?:or)?d|pwd|passphrase|{_KEYS}|user\.info|connection[._-]?string"
_WEAK = r"secret|token(?!\.endpoint)|credentials?|signature"  # `unexpected token: EOF`
_MORE = r"(?:[._-][\w.-]{0,100})?"
#: A value: in quotes, in quotes of a JSON that is itself in quotes, or a word.
_VALUE = r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|\\\"[^\"]*\"|[^\s&;,'\")]+"
#: `password=…` in addresses, JAAS, connection strings; `{"password": …}` in JSON; `a.password: …`
#: and `a.password -> …` in settings, unless a sentence follows; a header of HTTP.
_ASSIGNED = re.compile(
    rf"((?:{_STRONG}|{_WEAK}){_MORE}(?:=|\\?[\"'][ \t]?(?:=|:|->)[ \t]?)"
    rf"|(?<=[?&;])sig="
    rf"|(?:{_STRONG}|(?<=[._-])(?:{_WEAK})){_MORE}[ \t]?(?:=|:|->)[ \t]?(?![A-Z]?[a-z']+[ ][a-z])"
    rf"|authorization\\?[\"']?[ \t]?[:=][ \t]?\\?[\"']?(?:basic|bearer|digest|token|apikey)[ ])"
    rf"(?!(?:true|false|null|none)\b)({_VALUE})",
    re.IGNORECASE,
)
#: What a file or the environment holds need not be text.
_ANY = "surrogatepass"
_STANDS_IN = re.compile(r"(?:\$\{\w+\}|\*\*\*)(?::(?:\$\{\w+\}|\*\*\*))?@?")
#: The parts of a secret value that alone are secret: quoted words, what follows a `=`, a password
#: after its user, and what follows the kind of a login.
_PARTS = re.compile(
    r"\"((?:\\.|[^\"\\])+)\"|'((?:\\.|[^'\\])+)'|=\s*([^\s;\"'=]+)"
    r"|\A\s*[^\s:\"'=]+:(\S+)\s*\Z|\A\s*(?:Basic|Bearer)\s+(\S+)",
    re.IGNORECASE,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def unescaped(quoted: str) -> str:
    r"""Return what stands between the quotes of a JAAS text, as Kafka's Java client reads it.

    >>> unescaped(r"ab\"cd")
    'ab"cd'
    """
    return _ESCAPE.sub(_character, quoted)


def _character(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPED.get(code, code)


def is_secret_key(key: str) -> bool:
    """Whether the value under this key must not be shown.

    >>> is_secret_key("kafka.sasl.jaas.config"), is_secret_key("kafka.bootstrap.servers")
    (True, False)
    """
    return _SECRET_KEY.search(key) is not None


def has_login(value: str) -> bool:
    """Whether the value is, or holds, an address with a login in it."""
    return _USER_INFO.search(value) is not None


class Redactor:
    """Replaces secrets in texts; it learns their values while settings are read."""

    def __init__(self) -> None:
        self._stand_ins: dict[str, str] = {}
        self._known: re.Pattern[str] | None = None

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled."""
        raise TypeError("a redactor holds secrets, so it is not pickled")

    def learn_variable(self, name: str, value: str) -> None:
        """Hide a value that came from the environment, unless it is in every text anyway."""
        is_plain = _PLAIN.fullmatch(value) or not re.search(r"\w", value)
        if is_secret_key(name) or not is_plain:
            self._learn(value, "${" + name + "}")

    def learn_secrets(self, value: Any, key: str = "") -> None:
        """Hide all values of settings whose keys look secret, and the passwords in addresses."""
        if isinstance(value, dict):
            for name, below in value.items():
                self.learn_secrets(below, f"{key}.{name}")
        elif isinstance(value, list):
            for below in value:
                self.learn_secrets(below, key)
        elif value is not None and not isinstance(value, bool):
            text = str(value)
            if is_secret_key(key):
                self._learn(text, HIDDEN)
                for match in _PARTS.finditer(text):
                    part = match[match.lastindex or 0]
                    self._learn(part, HIDDEN)
                    self._learn(unescaped(part), HIDDEN)
            for match in _USER_INFO.finditer(text):
                self._learn(match[3], HIDDEN)

    def __call__(self, text: str) -> str:
        """Return the text without what must not be shown."""
        if self._known is None:
            longest_first = sorted(self._stand_ins, key=len, reverse=True)
            self._known = re.compile("|".join(map(_pattern, longest_first)) or "(?!)")
        text = self._known.sub(lambda match: self._stand_ins[match[0]], text)
        text = _USER_INFO.sub(_without_user, text)
        text = _WEB_USER.sub(_without_user, text)
        return _ASSIGNED.sub(_without_value, text)

    def _learn(self, value: str, stand_in: str) -> None:
        """Hide a value as it is, as addresses, JSON, HTML and headers write it, and its lines.

        Logs are looked at line by line, and keys in PEM have many.
        """
        lines = [line.strip() for line in value.splitlines() if len(line.strip()) >= _WORD]
        whole = (
            value, value.strip(), quote(value, errors=_ANY), quote(value, safe="", errors=_ANY),
            quote_plus(value, errors=_ANY),
            html.escape(value), html.escape(value, quote=False),
            json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1],
            base64.b64encode(value.encode("utf-8", _ANY)).decode(),
        )  # fmt: skip
        for written in (*whole, *lines):
            if len(written) >= _SHORTEST:
                self._stand_ins.setdefault(written, stand_in)
        self._known = None


#: Hides what has the shape of a secret, in a text of which nothing else is known.
redacted: Callable[[str], str] = Redactor()


def _pattern(value: str) -> str:
    """Match a value anywhere; a short word only where it is one, not within another."""
    literal = re.escape(value)
    is_word = len(value) < _WORD and re.fullmatch(r"\w+", value)
    return rf"(?<!\w){literal}(?!\w)" if is_word else literal


def _without_user(match: re.Match[str]) -> str:
    """Hide who asks; what stands in for known values stays, it says more."""
    user_info = match[0].removeprefix(match[1])
    return match[0] if _STANDS_IN.fullmatch(user_info) else f"{match[1]}{HIDDEN}@"


def _without_value(match: re.Match[str]) -> str:
    return match[0] if _STANDS_IN.fullmatch(match[2].strip("\\\"'")) else f"{match[1]}{HIDDEN}"
