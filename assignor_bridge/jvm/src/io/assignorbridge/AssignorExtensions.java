package io.assignorbridge;

import io.assignorbridge.source.KafkaRelationRule;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.SparkSessionExtensionsProvider;
import scala.runtime.BoxedUnit;

/**
 * The entry point. Spark finds it by class path alone (META-INF/services); it can also be named in
 * {@code spark.sql.extensions}, and registering it twice does no harm.
 */
public final class AssignorExtensions implements SparkSessionExtensionsProvider {

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectResolutionRule(KafkaRelationRule::new);
    return BoxedUnit.UNIT;
  }
}
