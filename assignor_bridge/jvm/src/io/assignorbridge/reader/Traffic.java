package io.assignorbridge.reader;

/** Bytes, by the metrics of Kafka's client: of records that were polled, and from the brokers. */
record Traffic(long consumedBytes, long networkBytes) {
  Traffic plus(Traffic other) {
    return new Traffic(consumedBytes + other.consumedBytes, networkBytes + other.networkBytes);
  }
}
