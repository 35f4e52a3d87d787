"""Keep secrets out of every text: messages, logs, metrics, dry runs.

1. The value of a setting with a secret-looking name is hidden.
2. A value from the environment is replaced by the name of its variable.
3. Text in the shape of a secret, such as a password in a URL, is hidden anywhere.
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

_SETTING_NAMES = (
    r"secret|passw|pwd|passphrase|credential|jaas|username|user\.info|authorization"
    r"|token(?!\.endpoint)|oauthbearer\.(?:client|config|extensions)"
    r"|(?:access|account|private|api|shared|encryption|signing)[._-]?key|key\.pem|keystore\.key"
    r"|connection[._-]?string|(?:^|[._-])sas(?:$|[._-])"
)
#: Patterns, valid in Python and Java: names of settings with secret values, and below such settings
#: in a text (`name -> value`).
SECRET_KEYS = f"(?i){_SETTING_NAMES}"
#: An address with a password in it, whatever the name of its setting; also valid in Java.
PASSWORDS = r"://[^\s/@:'\"]*:[^\s'\"]+@"
SECRET_OPTIONS = (  # a value may span lines, as PEM keys do, and have brackets
    rf"(?is)(?:{_SETTING_NAMES})[\w.-]* -> .*?(?=, [\w.-]+ -> |\),(?:None|Some\()|\)\s*\n|$)"
)
_SECRET_KEY = re.compile(SECRET_KEYS)
#: Values shorter than this are not hidden: they are part of ordinary words.
_MIN_LENGTH = 3
#: Words shorter than this are hidden as whole words only.
_MIN_SUBSTRING = 8
#: Values too ordinary to hide, because many messages have them: `true`, `kafka`, `9092`, `orders`.
#: They are hidden only if the name of the key or variable looks secret.
_PLAIN = re.compile(r"[A-Z]?[a-z]{0,6}|[A-Z]{0,7}|\d{0,7}")
HIDDEN = "***"

#: `user:password@` of an address; a password may hold a slash, as those of S3 do. An address that
#: was turned into a path has only one of its two slashes.
_USER_INFO = re.compile(
    r"(\b[a-z][a-z0-9+.-]{0,20}:/{1,2})([^\s/@:'\"]{0,200}):([^\s'\"]{1,500}?)@(?![^\s'\"/,;]*@)",
    re.IGNORECASE,
)
#: A token before the host; in other schemes a container's name is there (abfss://C@HOST).
_WEB_USER = re.compile(r"(\bhttps?:/{1,2})([^\s/@'\"]{1,500})@", re.IGNORECASE)
#: Names of secrets in free text, and how they may continue; the weak ones are ordinary words, too.
_KEY_NAMES = r"(?:access|account|private|api|shared|encryption|signing|secret)[._-]?key"
_STRONG = rf"passw(?:or)?d|pwd|passphrase|{_KEY_NAMES}|user\.info|connection[._-]?string"
_WEAK = r"secret|token(?!\.endpoint)|credentials?|signature"  # `unexpected token: EOF`
_SUFFIX = r"(?:[._-][\w.-]{0,100})?"
#: A value: in quotes, in the quotes of JSON that is itself quoted, or a word.
_VALUE = r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|\\\"[^\"]*\"|[^\s&;,'\")]+"
#: `password=…` in addresses, JAAS, connection strings; `{"password": …}` in JSON; `a.password: …`
#: and `a.password -> …` in settings, unless a sentence follows; a header of HTTP.
_ASSIGNED = re.compile(
    rf"((?:{_STRONG}|{_WEAK}){_SUFFIX}(?:=|\\?[\"'][ \t]?(?:=|:|->)[ \t]?)"
    rf"|(?<=[?&;])sig="
    rf"|(?:{_STRONG}|(?<=[._-])(?:{_WEAK})){_SUFFIX}[ \t]?(?:=|:|->)[ \t]?"
    rf"(?![A-Z]?[a-z']+[ ][a-z])"
    rf"|authorization\\?[\"']?[ \t]?[:=][ \t]?\\?[\"']?(?:basic|bearer|digest|token|apikey)[ ])"
    rf"(?!(?:true|false|null|none)\b)({_VALUE})",
    re.IGNORECASE,
)
#: Files and the environment may hold bytes that are not valid text.
_ON_ERROR = "surrogatepass"
_PLACEHOLDER = re.compile(r"(?:\$\{\w+\}|\*\*\*)(?::(?:\$\{\w+\}|\*\*\*))?@?")
#: Parts of a secret value that are secrets themselves: quoted text, a value after `=`, a password
#: after its user, and the credentials of an HTTP authorization header.
_SECRET_PARTS = re.compile(
    r"\"((?:\\.|[^\"\\])+)\"|'((?:\\.|[^'\\])+)'|=\s*([^\s;\"'=]+)"
    r"|\A\s*[^\s:\"'=]+:(\S+)\s*\Z|\A\s*(?:Basic|Bearer)\s+(\S+)",
    re.IGNORECASE,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED_CHARACTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def unescape_jaas(quoted: str) -> str:
    r"""Return the value of a quoted JAAS text as Kafka's Java client reads it.

    >>> unescape_jaas(r"ab\"cd")
    'ab"cd'
    """
    return _ESCAPE.sub(_unescape_character, quoted)


def _unescape_character(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPED_CHARACTERS.get(code, code)


def is_secret_key(key: str) -> bool:
    """Return whether the value of this key must not be shown.

    >>> is_secret_key("kafka.sasl.jaas.config"), is_secret_key("kafka.bootstrap.servers")
    (True, False)
    """
    return _SECRET_KEY.search(key) is not None


def has_password(value: str) -> bool:
    """Return whether the value contains an address with a password."""
    return _USER_INFO.search(value) is not None


class Redactor:
    """Replaces secrets in texts, after learning their values from the settings."""

    def __init__(self) -> None:
        self._placeholders: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled."""
        raise TypeError("a redactor holds secrets and cannot be pickled")

    def learn_variable(self, name: str, value: str) -> None:
        """Hide a value from the environment, unless it is an ordinary word or number."""
        is_plain = _PLAIN.fullmatch(value) or not re.search(r"\w", value)
        if is_secret_key(name) or not is_plain:
            self._learn(value, "${" + name + "}")

    def learn_secrets(self, value: Any, key: str = "") -> None:
        """Hide the values of settings with secret-looking keys, and passwords in addresses."""
        if isinstance(value, dict):
            for name, nested in value.items():
                self.learn_secrets(nested, f"{key}.{name}")
        elif isinstance(value, list):
            for nested in value:
                self.learn_secrets(nested, key)
        elif value is not None and not isinstance(value, bool):
            text = str(value)
            if is_secret_key(key):
                self._learn(text, HIDDEN)
                for match in _SECRET_PARTS.finditer(text):
                    part = match[match.lastindex or 0]
                    self._learn(part, HIDDEN)
                    self._learn(unescape_jaas(part), HIDDEN)
            for match in _USER_INFO.finditer(text):
                self._learn(match[3], HIDDEN)

    def __call__(self, text: str) -> str:
        """Return the text with its secrets hidden."""
        if self._pattern is None:
            longest_first = sorted(self._placeholders, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(_build_pattern, longest_first)) or "(?!)")
        text = self._pattern.sub(lambda match: self._placeholders[match[0]], text)
        text = _USER_INFO.sub(_hide_user, text)
        text = _WEB_USER.sub(_hide_user, text)
        return _ASSIGNED.sub(_hide_value, text)

    def _learn(self, value: str, placeholder: str) -> None:
        """Hide a value, its encodings in URLs, JSON, HTML and headers, and each of its lines.

        Logs are redacted line by line, and PEM keys have many lines.
        """
        lines = [line.strip() for line in value.splitlines() if len(line.strip()) >= _MIN_SUBSTRING]
        encodings = (
            value, value.strip(), quote(value, errors=_ON_ERROR),
            quote(value, safe="", errors=_ON_ERROR), quote_plus(value, errors=_ON_ERROR),
            html.escape(value), html.escape(value, quote=False),
            json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1],
            base64.b64encode(value.encode("utf-8", _ON_ERROR)).decode(),
        )  # fmt: skip
        for secret in (*encodings, *lines):
            if len(secret) >= _MIN_LENGTH:
                self._placeholders.setdefault(secret, placeholder)
        self._pattern = None


#: Hides text in the shape of a secret, without knowing any secret value.
redact: Callable[[str], str] = Redactor()


def _build_pattern(value: str) -> str:
    """Return a pattern that matches a value anywhere, but a short word only as a whole word."""
    literal = re.escape(value)
    is_word = len(value) < _MIN_SUBSTRING and re.fullmatch(r"\w+", value)
    return rf"(?<!\w){literal}(?!\w)" if is_word else literal


def _hide_user(match: re.Match[str]) -> str:
    """Hide a user and password, but keep placeholders, which are not secret."""
    user_info = match[0].removeprefix(match[1])
    return match[0] if _PLACEHOLDER.fullmatch(user_info) else f"{match[1]}{HIDDEN}@"


def _hide_value(match: re.Match[str]) -> str:
    return match[0] if _PLACEHOLDER.fullmatch(match[2].strip("\\\"'")) else f"{match[1]}{HIDDEN}"
