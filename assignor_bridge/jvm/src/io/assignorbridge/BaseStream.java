package io.assignorbridge;

import java.lang.reflect.Field;
import java.util.Map;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.kafka010.KafkaMicroBatchStream;
import org.apache.spark.sql.kafka010.KafkaOffsetRangeLimit;
import org.apache.spark.sql.kafka010.KafkaOffsetReader;

/**
 * What Spark's scan gave its Kafka stream, so that ours can be built from the same parts. The five
 * values are private; their field names and the constructor are the same from Spark 3.5 to 4.2.
 */
record BaseStream(
    KafkaOffsetReader offsetReader,
    Map<String, Object> executorKafkaParams,
    String metadataPath,
    KafkaOffsetRangeLimit startingOffsets,
    boolean failOnDataLoss) {

  @SuppressWarnings("unchecked") // the field is a java.util.Map<String, Object>
  static BaseStream of(MicroBatchStream stream) {
    return new BaseStream(
        (KafkaOffsetReader) field(stream, "kafkaOffsetReader"),
        (Map<String, Object>) field(stream, "executorKafkaParams"),
        (String) field(stream, "metadataPath"),
        (KafkaOffsetRangeLimit) field(stream, "startingOffsets"),
        (Boolean) field(stream, "failOnDataLoss"));
  }

  private static Object field(MicroBatchStream stream, String name) {
    try {
      Field field = KafkaMicroBatchStream.class.getDeclaredField(name);
      field.setAccessible(true);
      return field.get(stream);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("KafkaMicroBatchStream has no field '" + name + "'", e);
    }
  }
}
