"""Hide secrets in messages, logs, metrics, and dry runs.

1. The value of a setting with a secret-looking name is hidden.
2. An environment variable's value becomes `${NAME}`, unless the value and the name look ordinary.
3. Text that looks like a secret, such as a password in a URL, is hidden in every text.
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

_SENSITIVE_NAMES = (
    r"secret|passw|pwd|passphrase|credential|jaas|username|user\.info|authorization"
    r"|token(?!\.endpoint)|oauthbearer\.(?:client|config|extensions)"
    r"|(?:access|account|private|api|shared|encryption|signing)[._-]?key|key\.pem|keystore\.key"
    r"|connection[._-]?string|(?:^|[._-])sas(?:$|[._-])"
)
#: Names of settings with secret values. Java uses this pattern and the next two, too.
SECRET_KEYS = f"(?i){_SENSITIVE_NAMES}"
#: An address with a password, in a setting of any name.
PASSWORDS = r"://[^\s/@:'\"]*:[^\s'\"]+@"
#: Secret settings in a text, as `name -> value`. A value may span lines and contain brackets.
SECRET_OPTIONS = (
    rf"(?is)(?:{_SENSITIVE_NAMES})[\w.-]* -> .*?(?=, [\w.-]+ -> |\),(?:None|Some\()|\)\s*\n|$)"
)
_SECRET_KEY_PATTERN = re.compile(SECRET_KEYS)
#: Minimum length of a hidden value; shorter values occur inside ordinary words.
_MIN_HIDDEN_CHARS = 3
#: Shorter words are hidden only as whole words; shorter lines of a value are not hidden alone.
_MIN_SUBSTRING_CHARS = 8
#: Ordinary values, which many messages contain: words and numbers of at most seven characters. They
#: are hidden only if the name of their variable looks secret.
_ORDINARY_VALUE = re.compile(r"[A-Z]?[a-z]{0,6}|[A-Z]{0,7}|\d{0,7}")
HIDDEN = "***"

#: `user:password@` in an address. S3 passwords may contain slashes. An address that was converted
#: to a path has only one slash after the scheme.
_USER_INFO = re.compile(
    r"(\b[a-z][a-z0-9+.-]{0,20}:/{1,2})([^\s/@:'\"]{0,200}):([^\s'\"]{1,500}?)@(?![^\s'\"/,;]*@)",
    re.IGNORECASE,
)
#: A token before an HTTP host. Other schemes have a container name there (abfss://C@HOST).
_WEB_USER = re.compile(r"(\bhttps?:/{1,2})([^\s/@'\"]{1,500})@", re.IGNORECASE)
_KEY_NAMES = r"(?:access|account|private|api|shared|encryption|signing|secret)[._-]?key"
#: Names of secrets that are not ordinary words.
_UNAMBIGUOUS_NAMES = rf"passw(?:or)?d|pwd|passphrase|{_KEY_NAMES}|user\.info|connection[._-]?string"
#: Names of secrets that are also ordinary words, as in `unexpected token: EOF`.
_AMBIGUOUS_NAMES = r"secret|token(?!\.endpoint)|credentials?|signature"
#: Rest of a setting's name after one of these names.
_SUFFIX = r"(?:[._-][\w.-]{0,100})?"
#: A value: quoted text, text in escaped quotes (JSON inside JSON), or a word.
_VALUE = r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|\\\"[^\"]*\"|[^\s&;,'\")]+"
#: `password=…` in addresses, JAAS, connection strings; `{"password": …}` in JSON; `a.password: …`
#: and `a.password -> …` in settings, unless a sentence follows; `?sig=…` in a signed URL;
#: `Authorization: Bearer …` (or Basic, Digest, Token, ApiKey). Not `true`, `false`, null, or none.
_ASSIGNMENT = re.compile(
    rf"((?:{_UNAMBIGUOUS_NAMES}|{_AMBIGUOUS_NAMES}){_SUFFIX}(?:=|\\?[\"'][ \t]?(?:=|:|->)[ \t]?)"
    rf"|(?<=[?&;])sig="
    rf"|(?:{_UNAMBIGUOUS_NAMES}|(?<=[._-])(?:{_AMBIGUOUS_NAMES})){_SUFFIX}[ \t]?(?:=|:|->)[ \t]?"
    rf"(?![A-Z]?[a-z']+[ ][a-z])"
    rf"|authorization\\?[\"']?[ \t]?[:=][ \t]?\\?[\"']?(?:basic|bearer|digest|token|apikey)[ ])"
    rf"(?!(?:true|false|null|none)\b)({_VALUE})",
    re.IGNORECASE,
)
#: Error handler for encoding, because files and variables may contain invalid UTF-8.
_ENCODING_ERRORS = "surrogatepass"
_PLACEHOLDER = re.compile(r"(?:\$\{\w+\}|\*\*\*)(?::(?:\$\{\w+\}|\*\*\*))?@?")
#: Parts of a secret value that are secrets themselves: quoted text, a value after `=`, a password
#: after its user, and the credentials of an HTTP authorization header.
_SECRET_PARTS = re.compile(
    r"\"((?:\\.|[^\"\\])+)\"|'((?:\\.|[^'\\])+)'|=\s*([^\s;\"'=]+)"
    r"|\A\s*[^\s:\"'=]+:(\S+)\s*\Z|\A\s*(?:Basic|Bearer)\s+(\S+)",
    re.IGNORECASE,
)
_JAAS_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[0-7]{1,2}|.)", re.DOTALL)
_CHARACTER_BY_ESCAPE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def unescape_jaas(quoted: str) -> str:
    r"""Unescape quoted JAAS text as Kafka's Java client does.

    >>> unescape_jaas(r"ab\"cd")
    'ab"cd'
    """
    return _JAAS_ESCAPE.sub(_unescape_character, quoted)


def _unescape_character(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _CHARACTER_BY_ESCAPE.get(code, code)


def is_secret_key(key: str) -> bool:
    """Return whether a key's value must be hidden.

    >>> is_secret_key("kafka.sasl.jaas.config"), is_secret_key("kafka.bootstrap.servers")
    (True, False)
    """
    return _SECRET_KEY_PATTERN.search(key) is not None


def has_password(value: str) -> bool:
    """Return whether the value contains an address with a password."""
    return _USER_INFO.search(value) is not None


class Redactor:
    """Replaces secrets in texts; it learns the secret values from settings and variables."""

    def __init__(self) -> None:
        self._placeholder_by_secret: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled."""
        raise TypeError("a redactor holds secrets and cannot be pickled")

    def learn_variable(self, name: str, value: str) -> None:
        """Register a variable's value, unless it is ordinary and `name` does not look secret."""
        is_ordinary = _ORDINARY_VALUE.fullmatch(value) or not re.search(r"\w", value)
        if is_secret_key(name) or not is_ordinary:
            self._add_secret(value, "${" + name + "}")

    def learn_secrets(self, value: Any, key: str = "") -> None:
        """Register the values of secret-looking keys, and passwords in addresses."""
        if isinstance(value, dict):
            for name, nested in value.items():
                self.learn_secrets(nested, f"{key}.{name}")
        elif isinstance(value, list):
            for nested in value:
                self.learn_secrets(nested, key)
        elif value is not None and not isinstance(value, bool):
            text = str(value)
            if is_secret_key(key):
                self._add_secret(text, HIDDEN)
                for match in _SECRET_PARTS.finditer(text):
                    part = match[match.lastindex or 0]
                    self._add_secret(part, HIDDEN)
                    self._add_secret(unescape_jaas(part), HIDDEN)
            for match in _USER_INFO.finditer(text):
                self._add_secret(match[3], HIDDEN)

    def __call__(self, text: str) -> str:
        """Return the text with its secrets hidden."""
        if self._pattern is None:
            sorted_secrets = sorted(self._placeholder_by_secret, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(_build_pattern, sorted_secrets)) or "(?!)")
        text = self._pattern.sub(lambda match: self._placeholder_by_secret[match[0]], text)
        text = _USER_INFO.sub(_hide_user, text)
        text = _WEB_USER.sub(_hide_user, text)
        return _ASSIGNMENT.sub(_hide_value, text)

    def _add_secret(self, value: str, placeholder: str) -> None:
        """Register a value to hide, its encodings in URLs, JSON, HTML, and headers, and its lines.

        Logs are redacted line by line, and PEM keys have many lines. Short texts are not hidden.
        """
        lines = [
            line.strip() for line in value.splitlines() if len(line.strip()) >= _MIN_SUBSTRING_CHARS
        ]
        encodings = [value, value.strip(), quote_plus(value, errors=_ENCODING_ERRORS)]
        encodings += (quote(value, safe=safe, errors=_ENCODING_ERRORS) for safe in ("/", ""))
        encodings += (html.escape(value, quote=with_quotes) for with_quotes in (True, False))
        encodings += (json.dumps(value, ensure_ascii=escapes)[1:-1] for escapes in (True, False))
        encodings.append(base64.b64encode(value.encode("utf-8", _ENCODING_ERRORS)).decode())
        for secret in (*encodings, *lines):
            if len(secret) >= _MIN_HIDDEN_CHARS:
                self._placeholder_by_secret.setdefault(secret, placeholder)
        self._pattern = None


#: Hides text that looks like a secret; it has not learned any secret value.
redact: Callable[[str], str] = Redactor()


def _build_pattern(value: str) -> str:
    """Return a pattern that matches a value anywhere, but a short word only as a whole word."""
    literal = re.escape(value)
    is_word = len(value) < _MIN_SUBSTRING_CHARS and re.fullmatch(r"\w+", value)
    return rf"(?<!\w){literal}(?!\w)" if is_word else literal


def _hide_user(match: re.Match[str]) -> str:
    """Hide the credentials in an address, but keep placeholders, which may name a variable."""
    user_info = match[0].removeprefix(match[1])
    return match[0] if _PLACEHOLDER.fullmatch(user_info) else f"{match[1]}{HIDDEN}@"


def _hide_value(match: re.Match[str]) -> str:
    return match[0] if _PLACEHOLDER.fullmatch(match[2].strip("\\\"'")) else f"{match[1]}{HIDDEN}"
