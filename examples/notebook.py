# %%
"""From a topic to a Delta table, cell by cell.

Start a local broker, fill a topic with orders, run a job given as a dict, look at its table.
"""

# %%
import tempfile
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from assignor_bridge import configure_spark
from streaming import EmbeddedBroker, configure_delta, run_job

broker = EmbeddedBroker()
broker.start()
spark = configure_spark(configure_delta(SparkSession.builder.appName("notebook"))).getOrCreate()

# %% A topic of your own, with 1,000 orders; every fourth one from customer 7.
broker.create_topic("notebook-orders", partitions=4)
producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
for number in range(1_000):
    customer = 7 if number % 4 == 0 else number % 50
    order = f'{{"id": {number}, "customer": {customer}, "amount": {number % 9}.5}}'
    producer.produce("notebook-orders", order, key=str(customer))
producer.flush()

# %% The job, with the same keys as in YAML.
folder = Path(tempfile.mkdtemp(prefix="assignor-notebook-"))
job = {
    "name": "notebook-orders",
    "source": {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "subscribe": "notebook-orders",
        "records": {"format": "json", "schema": "id BIGINT, customer BIGINT, amount DOUBLE"},
    },
    "sink": {"path": str(folder / "orders")},
    "checkpoint": str(folder / "checkpoint"),
}
done = run_job(spark, job)

# %% The result, and which assignor planned the last batch.
orders = spark.read.format("delta").load(str(folder / "orders"))
orders.groupBy("customer").count().orderBy("count", ascending=False).show(3)
print(orders.count(), "rows in", folder / "orders")
print(done.queries[0].lastProgress["sources"][0]["metrics"]["assignor.strategy"])

# %% The end. The session stays open for further cells.
broker.close()
