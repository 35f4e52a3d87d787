package io.assignorbridge;

import io.assignorbridge.source.KafkaRelationRule;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.SparkSessionExtensionsProvider;
import scala.runtime.BoxedUnit;

/**
 * The entry point, which Spark discovers on the class path (META-INF/services). You can also name
 * it in {@code spark.sql.extensions}; registering it twice is harmless.
 */
public final class AssignorExtensions implements SparkSessionExtensionsProvider {

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectResolutionRule(KafkaRelationRule::new);
    return BoxedUnit.UNIT;
  }
}
