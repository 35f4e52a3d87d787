"""Settings of Kafka's Java client as settings of librdkafka, for the same broker and the same user.

Spark's `kafka.*` options and a `--command-config` file are written for the Java client. Here are
the ones that say which broker, how it is trusted and who asks; tuning stays librdkafka's. What has
no counterpart is refused with one line that names the setting and says what to do instead. No
value of a setting is ever part of a message or of a `repr`: any of them may be a secret.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from streaming.kafka.jaas import JaasError, LoginModule, read_jaas
from streaming.kafka.utf8 import is_utf8
from streaming.redaction import Redactor

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The same name and meaning in both.
_SAME_IN_BOTH = ("bootstrap.servers", "client.id", "client.dns.lookup")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
#: Classes of the user's own: they run in a JVM only.
_CLASSES = {
    "SSL": ("ssl.engine.factory.class", "security.providers"),
    "SASL": ("sasl.login.class", "sasl.client.callback.handler.class"),
}
_PASSWORD_MODULES = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": ("PLAIN",),
    "org.apache.kafka.common.security.scram.ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
}
_OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_OAUTH_HANDLERS = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)
_TO_PEM = "give it as PEM: keytool -exportcert -rfc, then {kind}.type=PEM"
_USE_OTHERS = "use SASL/SCRAM, SASL/PLAIN, OAUTHBEARER (OIDC) or TLS certificates"
_KEY_PASSWORD = ("ssl.key.password",)
#: `${provider:path:key}`, or without a path.
_REFERENCE = re.compile(r"\$\{[^}:]+:[^}]*\}")


class SettingsError(ValueError):
    """A setting of the Java client without a counterpart here; named without its value."""


class ClientSettings:
    """What a librdkafka client is made with; its `repr` has the names only."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)
        #: Blots out whatever value of a secret setting a message should hold.
        self.redact = Redactor()
        self.redact.learn_secrets(self._values)

    def __repr__(self) -> str:
        return f"ClientSettings({', '.join(sorted(self._values))})"

    def to_client_config(self, **more: Any) -> dict[str, Any]:
        """Return the settings with secrets, for a client to get at once; `_` stands for `.`."""
        # librdkafka writes to stderr, about its settings too: what matters comes as an exception.
        added = {name.replace("_", "."): value for name, value in more.items()}
        return {"log_level": 0, **self._values, **added}


def translate_settings(java: Mapping[str, str]) -> ClientSettings:
    """Translate the settings of a Java client.

    Parameters
    ----------
    java
        Names as in Kafka's documentation, without Spark's prefix `kafka.`. Those that are about
        consuming, producing or tuning are left out.

    Raises
    ------
    SettingsError
        When one of them has no counterpart, or one is missing.
    """
    given = {name: str(value).strip() for name, value in java.items() if value is not None}
    if not given.get("bootstrap.servers"):
        raise SettingsError("setting 'bootstrap.servers' is missing: give the brokers' host:port")
    for name, value in given.items():
        if not is_utf8(value):
            raise SettingsError(
                f"setting {name!r} has half of a character (an unpaired surrogate): write the "
                "character itself, or both of its \\u escapes"
            )
        if given.get("config.providers") and _REFERENCE.search(value):
            raise SettingsError(
                f"setting {name!r} refers to one of 'config.providers', which only Kafka's Java "
                "client asks: give the value itself"
            )
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise SettingsError(
            f"setting 'security.protocol' has an unknown value: {', '.join(_PROTOCOLS)} are known"
        )
    values = {name: given[name] for name in _SAME_IN_BOTH if given.get(name)}
    values["security.protocol"] = protocol.lower()
    for part in ("SSL", "SASL"):
        if part in protocol:
            _reject_java_classes(given, _CLASSES[part])
    if "SSL" in protocol.split("_"):
        values |= _translate_tls(given)
    if protocol.startswith("SASL"):
        values |= _translate_sasl(given)
    return ClientSettings(values)


def _reject_java_classes(given: Mapping[str, str], names: tuple[str, ...]) -> None:
    for name in names:
        if given.get(name):
            raise SettingsError(
                f"setting {name!r} names a Java class, which only a JVM can run: {_USE_OTHERS}"
            )


def _translate_tls(given: Mapping[str, str]) -> dict[str, str]:
    if given.get("ssl.cipher.suites"):
        raise SettingsError(
            "setting 'ssl.cipher.suites' has Java's names of ciphers, which OpenSSL does not know: "
            "leave it out, and the broker's own list applies"
        )
    values = _translate_truststore(given, "ssl.ca.location", "ssl.ca.pem") | _translate_keystore(
        given
    )
    algorithm = given.get("ssl.endpoint.identification.algorithm", "https").lower()
    if algorithm not in ("", "https"):
        raise SettingsError(
            "setting 'ssl.endpoint.identification.algorithm' has an unknown value: "
            "https and nothing are known"
        )
    return {**values, "ssl.endpoint.identification.algorithm": algorithm or "none"}


def _translate_truststore(given: Mapping[str, str], location: str, inline: str) -> dict[str, str]:
    if given.get("ssl.truststore.certificates"):
        return {inline: _wrap_pem(given["ssl.truststore.certificates"])}
    if not given.get("ssl.truststore.location"):
        return {}
    if given.get("ssl.truststore.type", "JKS").upper() != "PEM":
        raise SettingsError(
            "setting 'ssl.truststore.location' is a JKS or PKCS12 file, which librdkafka does not "
            f"read: {_TO_PEM.format(kind='ssl.truststore')}"
        )
    return {location: given["ssl.truststore.location"]}


def _translate_keystore(given: Mapping[str, str]) -> dict[str, str]:
    password = {name: given[name] for name in _KEY_PASSWORD if given.get(name)}
    if given.get("ssl.keystore.key"):
        if not given.get("ssl.keystore.certificate.chain"):
            raise SettingsError(
                "setting 'ssl.keystore.certificate.chain' is missing: 'ssl.keystore.key' needs it"
            )
        chain = _wrap_pem(given["ssl.keystore.certificate.chain"])
        key = _wrap_pem(given["ssl.keystore.key"])
        return {"ssl.key.pem": key, "ssl.certificate.pem": chain, **password}
    store = given.get("ssl.keystore.location")
    if not store:
        return {}
    kind = given.get("ssl.keystore.type", "JKS").upper()
    if kind == "PEM":
        return {"ssl.key.location": store, "ssl.certificate.location": store, **password}
    if kind != "PKCS12":
        raise SettingsError(
            "setting 'ssl.keystore.location' is a JKS file, which librdkafka does not read: "
            "keytool -importkeystore -deststoretype PKCS12, then ssl.keystore.type=PKCS12"
        )
    return {
        "ssl.keystore.location": store,
        "ssl.keystore.password": given.get("ssl.keystore.password", ""),
    }


def _wrap_pem(pem: str) -> str:
    """Break PEM that is written in one line, as Java's client allows, into OpenSSL's lines."""

    def block(match: re.Match[str]) -> str:
        body = re.sub(r"\s+", "", match[2])
        lines = [body[i : i + 64] for i in range(0, len(body), 64)]
        return "\n".join((f"-----BEGIN {match[1]}-----", *lines, f"-----END {match[1]}-----", ""))

    return re.sub(r"-+BEGIN ([A-Z0-9 ]+?)-+(.*?)-+END \1-+\s*", block, pem, flags=re.DOTALL)


def _translate_sasl(given: Mapping[str, str]) -> dict[str, str]:
    mechanism = given.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism == "GSSAPI":
        raise SettingsError(
            "setting 'sasl.mechanism' is GSSAPI (its default): Kerberos logins of a JVM cannot be "
            f"used here; {_USE_OTHERS}"
        )
    if mechanism == "OAUTHBEARER":
        return {"sasl.mechanisms": mechanism, **_translate_oauth(given, _read_login_module(given))}
    module = _read_login_module(given)
    if mechanism not in _PASSWORD_MODULES.get(module.name, ()):
        raise SettingsError(
            "setting 'sasl.mechanism' and the login module of 'sasl.jaas.config' are no pair that "
            f"is known here: {_USE_OTHERS}"
        )
    if module.options.get("tokenauth", "").lower() == "true":
        raise SettingsError(
            "setting 'sasl.jaas.config' has a delegation token (tokenauth), which librdkafka "
            "cannot use: give a user and a password"
        )
    missing = [name for name in ("username", "password") if name not in module.options]
    if missing:
        raise SettingsError(f"setting 'sasl.jaas.config' has no {missing[0]}: it is needed")
    return {
        "sasl.mechanisms": mechanism,
        "sasl.username": module.options["username"],
        "sasl.password": module.options["password"],
    }


def _read_login_module(given: Mapping[str, str]) -> LoginModule:
    if not given.get("sasl.jaas.config"):
        raise SettingsError(
            "setting 'sasl.jaas.config' is missing: a JAAS file of the JVM and Spark's delegation "
            "tokens are not seen here, give the login in this setting"
        )
    try:
        return read_jaas(given["sasl.jaas.config"])
    except JaasError as error:
        raise SettingsError(f"setting 'sasl.jaas.config' cannot be read: {error}") from None


def _translate_oauth(given: Mapping[str, str], module: LoginModule) -> dict[str, str]:
    """OIDC with client credentials, as of Kafka 3.1 (in JAAS) and 4.1 (as settings)."""
    handler = given.get("sasl.login.callback.handler.class")
    endpoint = given.get("sasl.oauthbearer.token.endpoint.url")
    if module.name != _OAUTH_MODULE or handler not in _OAUTH_HANDLERS or not endpoint:
        raise SettingsError(
            "setting 'sasl.mechanism' is OAUTHBEARER, which is known here with Kafka's own "
            "OAuthBearerLoginModule, OAuthBearerLoginCallbackHandler and "
            "'sasl.oauthbearer.token.endpoint.url' only"
        )
    prefix = "sasl.oauthbearer.client.credentials"
    identity = module.options.get("clientId") or given.get(f"{prefix}.client.id")
    secret = module.options.get("clientSecret") or given.get(f"{prefix}.client.secret")
    if not identity or not secret:
        raise SettingsError(
            "setting 'sasl.jaas.config' has no clientId and clientSecret: they are needed"
        )
    values = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": endpoint,
        "sasl.oauthbearer.client.id": identity,
        "sasl.oauthbearer.client.secret": secret,
        **_translate_truststore(module.options, "https.ca.location", "https.ca.pem"),
    }
    scope = module.options.get("scope") or given.get("sasl.oauthbearer.scope")
    if scope:
        values["sasl.oauthbearer.scope"] = scope
    extensions = [
        f"{name.removeprefix('extension_')}={value}"
        for name, value in sorted(module.options.items())
        if name.startswith("extension_")
    ]
    if extensions:
        values["sasl.oauthbearer.extensions"] = ",".join(extensions)
    return values
