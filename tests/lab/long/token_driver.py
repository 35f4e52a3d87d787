"""A driver that holds a Kafka delegation token and nothing else: run by test_delegation_token.py.

It fetches the token as Spark's token provider would (which needs Kerberos, or a JAAS file), puts it
where Spark keeps tokens, and reads a topic through a listener that lets nobody in without one. What
it has read it commits to a group, in the same way.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from assignor_bridge import configure_spark

LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="alice" password="alice-secret";'
)
CLUSTER = "secured"


def hold_token(spark: SparkSession, servers: str) -> None:
    """Have the broker issue a token and add it to the user's credentials."""
    jvm: Any = spark.sparkContext._jvm
    settings = jvm.java.util.Properties()
    settings.put("bootstrap.servers", servers)
    settings.put("security.protocol", "SASL_PLAINTEXT")
    settings.put("sasl.mechanism", "PLAIN")
    settings.put("sasl.jaas.config", LOGIN)
    admin = jvm.org.apache.kafka.clients.admin.Admin.create(settings)
    issued = admin.createDelegationToken().delegationToken().get()
    admin.close()
    service = jvm.org.apache.spark.kafka010.KafkaTokenUtil.getTokenService(CLUSTER)
    token = jvm.org.apache.hadoop.security.token.Token(
        issued.tokenInfo().tokenId().encode(),
        issued.hmacAsBase64String().encode(),  # as KafkaTokenUtil.obtainToken writes it
        jvm.org.apache.hadoop.io.Text("KAFKA_DELEGATION_TOKEN"),
        service,
    )
    user = jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser()
    user.addToken(service, token)


def main() -> None:
    """Read the topic once with the shared reader; print the last progress."""
    servers, topic, checkpoint = sys.argv[1:]
    cluster = f"spark.kafka.clusters.{CLUSTER}"
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config(f"{cluster}.auth.bootstrap.servers", servers)
        .config(f"{cluster}.security.protocol", "SASL_PLAINTEXT")
        .config(f"{cluster}.sasl.token.mechanism", "SCRAM-SHA-512")
    )
    spark = configure_spark(builder).getOrCreate()
    hold_token(spark, servers)
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("assignor", "lag-aware-sticky")
        .option("assignor.onError", "fail")
        .option("assignor.reader", "shared")
        .option("assignor.commitGroup", "by-token")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print("PROGRESS " + json.dumps(json.loads(query.recentProgress[-1].json)), flush=True)


if __name__ == "__main__":
    main()
