"""The `metrics:` section of a job."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

if TYPE_CHECKING:
    from typing_extensions import Self


def _reject_flag(value: Any) -> Any:
    if value is True or value is False:
        raise ValueError("a whole number is expected, not true or false")
    return value


#: Rejects booleans, which pydantic would accept as 0 and 1.
NOT_A_FLAG = BeforeValidator(_reject_flag)


class MetricsConfig(BaseModel):
    """The outlets for a job's metrics and log; none by default."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    port: Annotated[int | None, NOT_A_FLAG] = Field(
        default=None,
        ge=0,
        le=65535,
        description="Serve Prometheus metrics on this port; 0 takes any free one.",
    )
    address: str = Field(
        default="127.0.0.1",
        description="Address that the endpoint listens on; `0.0.0.0` allows other machines to "
        "connect, without authentication.",
    )
    textfile: Path | None = Field(
        default=None,
        description="Write metrics to this .prom file after each batch, for node exporter.",
    )
    cluster_name: str = Field(
        default="kafka", description="Value of the label `cluster_name` of the `kafka_*` metrics."
    )
    log: Literal["json"] | None = Field(
        default=None, description="`json` logs batches and ends of queries to stderr or `log_file`."
    )
    log_file: Path | None = Field(
        default=None,
        description="Append the log to this file, including each batch's full progress; above "
        "256 MiB, the file is renamed to FILE.1.",
    )
    readable_by: Literal["owner", "group", "all"] = Field(
        default="owner",
        description="Who may read new files: `owner`, `group` or `all` (mode 0600, 0640 or 0644).",
    )

    @field_validator("address")
    @classmethod
    def _check_host(cls, address: str) -> str:
        """Reject an address with more than a host, such as a port or brackets."""
        try:
            if ":" in address:
                ipaddress.IPv6Address(address)
            is_host = address != "" and address.isprintable() and not set(address) & set(" []")
            address.encode("idna")
        except ValueError:
            is_host = False
        if not is_host:
            raise ValueError(
                "only a host is expected, such as 127.0.0.1 or ::1; set the port in metrics.port"
            )
        return address

    @field_validator("textfile")
    @classmethod
    def _check_suffix(cls, path: Path | None) -> Path | None:
        if path is not None and path.suffix != ".prom":
            raise ValueError(f"{path} must end in .prom: node exporter reads only such files")
        return path

    @model_validator(mode="after")
    def _check_port(self) -> Self:
        if self.port is None and "address" in self.model_dump(exclude_defaults=True):
            raise ValueError("'address' needs a 'port': set metrics.port")
        return self

    @property
    def file_mode(self) -> int:
        """Permission bits of new files."""
        return {"owner": 0o600, "group": 0o640, "all": 0o644}[self.readable_by]

    @property
    def exports(self) -> bool:
        """Whether the endpoint, the textfile, or the log is configured."""
        return any(part is not None for part in (self.port, self.textfile, self.log, self.log_file))
