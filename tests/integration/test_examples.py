"""The examples are run, not trusted."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer

from streaming import run_job
from streaming.pipeline import broker_checks
from streaming.pipeline.broker_checks import seed_topics
from streaming.pipeline.config.loading import load_job
from streaming.pipeline.config.referenced_files import read_seeds
from streaming.pipeline.job_errors import JobError
from tests.support import drivers
from tests.support.pipeline_tools import rows
from tests.support.spark_tools import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run_example(spark, broker, tmp_path) -> Callable[[str], Any]:
    """Seed the topics of an example and run it in the tests' session."""

    def run(name: str) -> Any:
        loaded = load_job(
            EXAMPLES / name, environment={"OUT": str(tmp_path)}, broker=broker.bootstrap_servers
        )
        made = seed_topics(loaded, read_seeds(loaded), broker.bootstrap_servers)
        assert all(made[topic] for topic in loaded.job.seed)
        return run_job(spark, loaded)

    return run


def test_a_topic_that_could_not_be_filled_whole_is_filled_by_the_next_run(
    broker, tmp_path, monkeypatch
):
    """The next run found the topic, and took a part of its records for all."""
    loaded = load_job(
        EXAMPLES / "orders.yaml", environment={"OUT": str(tmp_path)},
        broker=broker.bootstrap_servers,
    )  # fmt: skip
    [topic] = loaded.job.seed
    seeds = {f"{topic}-{uuid4().hex[:6]}": read_seeds(loaded)[topic]}
    uses = [("source", {}, list(seeds))]
    monkeypatch.setattr(type(loaded.job), "iterate_broker_uses", lambda _: uses)
    monkeypatch.setitem(vars(loaded.job), "seed", {})
    sent = broker_checks._send_records

    def fail(servers: str, name: str, records: list[Any]) -> int:
        sent(servers, name, records[:1])
        raise JobError("not delivered")

    with monkeypatch.context() as within:
        within.setattr(broker_checks, "_send_records", fail)
        with pytest.raises(JobError, match="not delivered"):
            seed_topics(loaded, seeds, broker.bootstrap_servers)
    admin = broker.admin()
    wait_until(lambda: not seeds.keys() & admin.list_topics(timeout=10).topics.keys(), "its end")
    assert seed_topics(loaded, seeds, broker.bootstrap_servers) == dict.fromkeys(seeds, 24)


@pytest.mark.long
def test_orders(spark, run_example, tmp_path):
    run_example("orders.yaml")
    found = rows(spark, tmp_path / "orders", "id", "day")
    assert [row[0] for row in found] == list(range(24))
    assert str(found[-1][1]) == "2026-05-03"


@pytest.mark.long
def test_customers(spark, run_example, tmp_path):
    run_example("customers.yaml")
    found = rows(spark, tmp_path / "customers", "id", "version", "city")
    assert found == [(1, 2, "London"), (2, 3, "Rouen"), (6, 1, "Erlangen")]
    [(key,)] = rows(spark, tmp_path / "customers_bad", "key")
    assert key == b"5"


@pytest.mark.long
def test_shop(spark, broker, run_example, tmp_path):
    run_example("shop.yaml")
    assert rows(spark, tmp_path / "sales", "id") == [(n,) for n in range(12)]
    found = {row[0]: row[1:] for row in rows(spark, tmp_path / "payments", "sale", "amount")}
    assert sorted(found) == list(range(10))
    assert found[3] == (12.5,)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "test-shop",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["paid"])
    messages = [m for m in consumer.consume(11, 30) if not m.error()]
    consumer.close()
    assert sorted(int(m.key()) for m in messages) == sorted([*range(10), 3])
    assert b'"amount":12.5' in b"".join(m.value() for m in messages)


@pytest.mark.long
@pytest.mark.drivers
def test_the_notebook(tmp_path):
    """Its cells as one program in a process of its own, as in a kernel: it makes the session."""
    notebook = json.loads((EXAMPLES / "quickstart.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    out = drivers.run_pasted("\n".join(cells), tmp_path)
    assert re.search(r"strategy +lag-aware-sticky", out)
    assert re.search(r"splitPartitions +[1-9]", out), "that of customer 7"
    assert re.search(r"fallbacks +0\n", out)
    assert "1000 rows in" in out


def start(tmp_path: Path, **environment: str) -> subprocess.Popen[str]:
    """Start `assignor run examples/readings.yaml --with-broker`, as its users do."""
    words = ["run", str(EXAMPLES / "readings.yaml"), "--with-broker"]
    with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
        return subprocess.Popen(
            [sys.executable, "-m", "streaming.cli.main", *words],
            cwd=tmp_path,
            env=os.environ
            | {
                "OUT": ".",
                "PYTHONPATH": str(EXAMPLES.parent),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "XDG_STATE_HOME": str(tmp_path / "logs"),
                **environment,
            },
            stdout=out,
            stderr=err,
            text=True,
            start_new_session=True,
        )


@pytest.mark.long
def test_readings_by_the_command_with_its_own_broker_until_sigterm(spark, tmp_path):
    process = start(tmp_path, TRIGGER="processingTime 1 second")
    try:
        written = tmp_path / "readings" / "_delta_log" / f"{1:020}.json"
        wait_until(lambda: written.exists() or process.poll(), "rows in the table", 240)
        wait_until(lambda: "Batch: 0" in (tmp_path / "out").read_text(), "rows on screen", 120)
        process.terminate()
        process.wait(120)
    finally:
        process.kill()
    errors = (tmp_path / "err").read_text()
    assert process.returncode == 128 + signal.SIGTERM, errors[-3000:]
    assert errors.splitlines()[-1].startswith("assignor: stopped by SIGTERM; the next run")
    told = errors.splitlines()
    log = Path(told[-1].partition("(Spark's log: ")[2].rstrip(")"))
    assert log == tmp_path / "logs/assignor-bridge/log/readings.log"
    assert "org.apache.spark" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600
    assert len(told) < 20, "what a person needs, and nothing of Ivy, log4j and the JVM"
    assert [line for line in told if line.startswith("WARN") or " WARN " in line] == []
    assert "starting Spark" in told
    assert any(line.startswith("running: readings") for line in told)
    assert any(re.match(r"readings[.\w]*: batch 0, \d+ rows in ", line) for line in told)
    found = rows(spark, tmp_path / "readings", "sensor", "celsius", "fahrenheit", "day")
    assert len(found) == 18, "20 readings, 2 of them repeated, and a bad one"
    assert all(row[2] == pytest.approx(row[1] * 1.8 + 32) for row in found)
    assert {path.name for path in (tmp_path / "readings").glob("day=*")} == {"day=2026-05-01"}


def test_ctrl_c_before_spark_is_up_ends_with_130_and_no_broker(tmp_path):
    process = start(tmp_path)
    try:
        wait_until(lambda: "topic readings: created, 21" in (tmp_path / "err").read_text()
                   or process.poll(), "a seeded topic", 180)  # fmt: skip
        process.send_signal(signal.SIGINT)
        process.wait(120)
    finally:
        process.kill()
    errors = (tmp_path / "err").read_text()
    assert process.returncode == 128 + signal.SIGINT, errors
    assert errors.splitlines()[-1].startswith("assignor: stopped by SIGINT")
    assert "Traceback" not in errors
