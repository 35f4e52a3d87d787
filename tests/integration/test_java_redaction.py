"""What the Java side hides of a login in the errors of Kafka's clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.java_program import compile_programs, run_java

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.integration

JAAS = "sasl.jaas.config"
CASES = [
    (JAAS, 'M required password="ab\\"cd-efgh";', 'login with ab"cd-efgh failed'),
    (JAAS, 'M required password="p\\"!!";', 'login with p"!! failed'),
    (JAAS, "M required password='p \"! a';", 'login with p "! a failed'),
    (JAAS, 'M required password="does not end;', "login with does not end; failed"),
    ("basic.auth.user.info", "u:hunter!2+", "login with hunter!2+ failed"),
    ("ssl.key.pem", "MIIEvgIBADAN", "login with MIIEvgIBADAN failed"),
    ("fs.azure.sas.box", "x1y2z3", "login with x1y2z3 failed"),
]


def test_parts_of_a_login_are_hidden_as_kafka_reads_them(tmp_path: Path) -> None:
    class_path = compile_programs(tmp_path, "Redacted", connector=True)
    done = run_java(class_path, "kafka.Redacted", *(word for case in CASES for word in case))
    assert done.stdout.splitlines() == ["login with *** failed"] * len(CASES)
