package io.assignorbridge.kafka;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.kafka010.KafkaSourceOffset;
import scala.jdk.javaapi.CollectionConverters;

/** Converts the offsets of Spark's Kafka source between Scala and Java. */
public final class SourceOffsets {
  private SourceOffsets() {}

  /** Returns a new map, which the caller may change. */
  public static Map<TopicPartition, Long> of(Offset offset) {
    return of(KafkaSourceOffset.apply(offset).partitionToOffsets());
  }

  public static Map<TopicPartition, Long> of(
      scala.collection.immutable.Map<TopicPartition, Object> offsets) {
    Map<TopicPartition, Long> javaOffsets = new HashMap<>();
    CollectionConverters.asJava(offsets).forEach((p, offset) -> javaOffsets.put(p, (Long) offset));
    return javaOffsets;
  }

  public static Set<TopicPartition> partitionsOf(Offset offset) {
    return CollectionConverters.asJava(KafkaSourceOffset.apply(offset).partitionToOffsets())
        .keySet();
  }

  public static Offset toOffset(Map<TopicPartition, Long> offsets) {
    Map<TopicPartition, Object> scalaOffsets = new HashMap<>(offsets);
    return new KafkaSourceOffset(
        scala.collection.immutable.HashMap.from(CollectionConverters.asScala(scalaOffsets)));
  }
}
