"""Translate settings of Kafka's Java client to librdkafka, for the same brokers and the same user.

Spark's `kafka.*` options and a `--command-config` file are written for the Java client. This module
translates addresses, trust and authentication; tuning keeps librdkafka's defaults. A setting
without a counterpart is rejected with one line that names it and an alternative. Messages and
`repr` never contain a value, because any value may be a secret.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from streaming.kafka.jaas import JaasError, LoginModule, parse_jaas
from streaming.kafka.utf8 import is_utf8
from streaming.redaction import Redactor

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Settings with the same name and meaning in both clients.
_SAME_IN_BOTH = ("bootstrap.servers", "client.id", "client.dns.lookup")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_CLASS_SETTINGS = {
    "SSL": ("ssl.engine.factory.class", "security.providers"),
    "SASL": ("sasl.login.class", "sasl.client.callback.handler.class"),
}
#: Login modules with a user and a password, and the mechanisms of each.
_MECHANISMS_BY_MODULE = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": ("PLAIN",),
    "org.apache.kafka.common.security.scram.ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
}
_OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_OAUTH_HANDLERS = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)
_ALTERNATIVES = "use SASL/SCRAM, SASL/PLAIN, OAUTHBEARER (OIDC) or TLS certificates"
#: `${provider:path:key}`, or without a path.
_REFERENCE = re.compile(r"\$\{[^}:]+:[^}]*\}")


class SettingsError(ValueError):
    """The Java client's settings cannot be translated; the message omits their values."""


class ClientSettings:
    """Settings of a librdkafka client; their `repr` shows only names."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)
        #: Masks the values of secret settings in a message.
        self.redact = Redactor()
        self.redact.learn_secrets(self._values)

    def __repr__(self) -> str:
        return f"ClientSettings({', '.join(sorted(self._values))})"

    def to_client_config(self, **overrides: Any) -> dict[str, Any]:
        """Return the settings, with secrets, for a new client; `_` in `overrides` means `.`."""
        # Log nothing; librdkafka would log to stderr. Errors that matter are raised.
        override_settings = {name.replace("_", "."): value for name, value in overrides.items()}
        return {"log_level": 0, **self._values, **override_settings}


def translate_settings(java_settings: Mapping[str, str]) -> ClientSettings:
    """Translate the settings of a Java client, named as by Kafka (without Spark's `kafka.`).

    Settings for consuming, producing or tuning are ignored. Raises SettingsError if another setting
    has no counterpart or an invalid value, or if a required one is missing.
    """
    settings = {k: str(v).strip() for k, v in java_settings.items() if v is not None}
    if not settings.get("bootstrap.servers"):
        raise SettingsError("setting 'bootstrap.servers' is missing: give the brokers' host:port")
    for name, value in settings.items():
        if not is_utf8(value):
            raise SettingsError(
                f"setting {name!r} has half of a character (an unpaired surrogate): write the "
                "character itself, or both of its \\u escapes"
            )
        if settings.get("config.providers") and _REFERENCE.search(value):
            raise SettingsError(
                f"setting {name!r} refers to one of 'config.providers', which only Kafka's Java "
                "client supports: give the value itself"
            )
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise SettingsError(
            f"setting 'security.protocol' has an unknown value: use {', '.join(_PROTOCOLS)}"
        )
    values = {name: settings[name] for name in _SAME_IN_BOTH if settings.get(name)}
    values["security.protocol"] = protocol.lower()
    for part in ("SSL", "SASL"):
        if part in protocol:
            _reject_java_classes(settings, _CLASS_SETTINGS[part])
    if "SSL" in protocol.split("_"):
        values |= _map_tls(settings)
    if protocol.startswith("SASL"):
        values |= _map_sasl(settings)
    return ClientSettings(values)


def _reject_java_classes(settings: Mapping[str, str], names: tuple[str, ...]) -> None:
    for name in names:
        if settings.get(name):
            raise SettingsError(
                f"setting {name!r} names a Java class, which only a JVM can run: {_ALTERNATIVES}"
            )


def _map_tls(settings: Mapping[str, str]) -> dict[str, str]:
    if settings.get("ssl.cipher.suites"):
        raise SettingsError(
            "setting 'ssl.cipher.suites' has Java cipher names, which OpenSSL does not support: "
            "omit the setting to use OpenSSL's defaults"
        )
    values = _map_truststore(settings, "ssl.ca.location", "ssl.ca.pem") | _map_keystore(settings)
    algorithm = settings.get("ssl.endpoint.identification.algorithm", "https").lower()
    if algorithm not in ("", "https"):
        raise SettingsError(
            "setting 'ssl.endpoint.identification.algorithm' has an unknown value: "
            "set it to https or leave it empty"
        )
    return {**values, "ssl.endpoint.identification.algorithm": algorithm or "none"}


def _map_truststore(settings: Mapping[str, str], location_key: str, pem_key: str) -> dict[str, str]:
    """Return the truststore's file as `location_key` or its text as `pem_key`; empty if none."""
    if settings.get("ssl.truststore.certificates"):
        return {pem_key: _wrap_pem(settings["ssl.truststore.certificates"])}
    if not settings.get("ssl.truststore.location"):
        return {}
    if settings.get("ssl.truststore.type", "JKS").upper() != "PEM":
        raise SettingsError(
            "setting 'ssl.truststore.type' must be PEM for librdkafka (default: JKS): convert "
            "the file with keytool -exportcert -rfc, and set ssl.truststore.type=PEM"
        )
    return {location_key: settings["ssl.truststore.location"]}


def _map_keystore(settings: Mapping[str, str]) -> dict[str, str]:
    key_password = {k: settings[k] for k in ("ssl.key.password",) if settings.get(k)}
    if settings.get("ssl.keystore.key"):
        if not settings.get("ssl.keystore.certificate.chain"):
            raise SettingsError(
                "setting 'ssl.keystore.certificate.chain' is missing: 'ssl.keystore.key' needs it"
            )
        chain = _wrap_pem(settings["ssl.keystore.certificate.chain"])
        key = _wrap_pem(settings["ssl.keystore.key"])
        return {"ssl.key.pem": key, "ssl.certificate.pem": chain, **key_password}
    location = settings.get("ssl.keystore.location")
    if not location:
        return {}
    store_type = settings.get("ssl.keystore.type", "JKS").upper()
    if store_type == "PEM":
        return {"ssl.key.location": location, "ssl.certificate.location": location, **key_password}
    if store_type != "PKCS12":
        raise SettingsError(
            "setting 'ssl.keystore.type' must be PEM or PKCS12 for librdkafka (default: JKS): "
            "use keytool -importkeystore -deststoretype PKCS12, and set ssl.keystore.type=PKCS12"
        )
    return {
        "ssl.keystore.location": location,
        "ssl.keystore.password": settings.get("ssl.keystore.password", ""),
    }


def _wrap_pem(pem: str) -> str:
    """Split one-line PEM, which Java's client allows, into lines that OpenSSL can read."""

    def wrap_block(match: re.Match[str]) -> str:
        body = re.sub(r"\s+", "", match[2])
        lines = [body[i : i + 64] for i in range(0, len(body), 64)]
        return "\n".join((f"-----BEGIN {match[1]}-----", *lines, f"-----END {match[1]}-----", ""))

    return re.sub(r"-+BEGIN ([A-Z0-9 ]+?)-+(.*?)-+END \1-+\s*", wrap_block, pem, flags=re.DOTALL)


def _map_sasl(settings: Mapping[str, str]) -> dict[str, str]:
    mechanism = settings.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism == "GSSAPI":
        raise SettingsError(
            "setting 'sasl.mechanism' is GSSAPI (its default), but a JVM's Kerberos "
            f"authentication cannot be used here: {_ALTERNATIVES}"
        )
    if mechanism == "OAUTHBEARER":
        return {"sasl.mechanisms": mechanism, **_map_oauth(settings, _parse_login_module(settings))}
    module = _parse_login_module(settings)
    mechanisms = _MECHANISMS_BY_MODULE.get(module.name)
    if mechanisms is None or mechanism not in mechanisms:
        reason = f"the login module in 'sasl.jaas.config' is not supported here: {_ALTERNATIVES}"
        if mechanisms is not None:
            reason = (
                "setting 'sasl.mechanism' does not match the login module in 'sasl.jaas.config', "
                f"which works with {' and '.join(mechanisms)}: change one of them"
            )
        raise SettingsError(reason)
    if module.options.get("tokenauth", "").lower() == "true":
        raise SettingsError(
            "setting 'sasl.jaas.config' has a delegation token (tokenauth), which librdkafka "
            "cannot use: give a user and a password"
        )
    missing_options = [name for name in ("username", "password") if name not in module.options]
    if missing_options:
        raise SettingsError(f"setting 'sasl.jaas.config' has no {missing_options[0]}: add it")
    return {
        "sasl.mechanisms": mechanism,
        "sasl.username": module.options["username"],
        "sasl.password": module.options["password"],
    }


def _parse_login_module(settings: Mapping[str, str]) -> LoginModule:
    if not settings.get("sasl.jaas.config"):
        raise SettingsError(
            "setting 'sasl.jaas.config' is missing: give the credentials in this setting, because "
            "the JVM's JAAS file and Spark's delegation tokens cannot be used here"
        )
    try:
        return parse_jaas(settings["sasl.jaas.config"])
    except JaasError as error:
        raise SettingsError(f"setting 'sasl.jaas.config' cannot be read: {error}") from None


def _map_oauth(settings: Mapping[str, str], module: LoginModule) -> dict[str, str]:
    """Translate OIDC client credentials, from Kafka 3.1 (in JAAS) or 4.1 (separate settings)."""
    handler = settings.get("sasl.login.callback.handler.class")
    endpoint = settings.get("sasl.oauthbearer.token.endpoint.url")
    if module.name != _OAUTH_MODULE or handler not in _OAUTH_HANDLERS or not endpoint:
        raise SettingsError(
            "setting 'sasl.mechanism' is OAUTHBEARER, which is supported here only with Kafka's "
            "OAuthBearerLoginModule, OAuthBearerLoginCallbackHandler and "
            "'sasl.oauthbearer.token.endpoint.url'"
        )
    prefix = "sasl.oauthbearer.client.credentials"
    client_id = module.options.get("clientId") or settings.get(f"{prefix}.client.id")
    client_secret = module.options.get("clientSecret") or settings.get(f"{prefix}.client.secret")
    if not client_id or not client_secret:
        raise SettingsError("setting 'sasl.jaas.config' has no clientId or clientSecret: add both")
    values = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": endpoint,
        "sasl.oauthbearer.client.id": client_id,
        "sasl.oauthbearer.client.secret": client_secret,
        **_map_truststore(module.options, "https.ca.location", "https.ca.pem"),
    }
    scope = module.options.get("scope") or settings.get("sasl.oauthbearer.scope")
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
