package io.assignorbridge;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.kafka010.KafkaSourceProvider;
import scala.Function1;
import scala.runtime.AbstractPartialFunction;

/** Puts our table in the place of Spark's in a streaming Kafka relation that asks for an assignor. */
final class KafkaRelationRule extends Rule<LogicalPlan> {
  private final SparkSession session;

  KafkaRelationRule(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.resolveOperators(
        new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
          @Override
          public boolean isDefinedAt(LogicalPlan node) {
            return node instanceof StreamingRelationV2 relation && wantsAssignor(relation);
          }

          @Override
          public <A extends LogicalPlan, B> B applyOrElse(A node, Function1<A, B> otherwise) {
            if (!isDefinedAt(node)) {
              return otherwise.apply(node);
            }
            @SuppressWarnings("unchecked") // the function's result is a LogicalPlan
            B replaced = (B) withOurTable((StreamingRelationV2) node);
            return replaced;
          }
        });
  }

  /** Looks at the provider, not at the name: users may give the provider's class instead of "kafka". */
  private boolean wantsAssignor(StreamingRelationV2 relation) {
    return relation.source().isDefined()
        && relation.source().get() instanceof KafkaSourceProvider
        && !(relation.table() instanceof AssignedTable)
        && AssignorOptions.namesAssignor(relation.extraOptions(), session.conf().getAll());
  }

  /** The case class gained a parameter in Spark 4.2, so the copy goes through its product. */
  private static LogicalPlan withOurTable(StreamingRelationV2 relation) {
    Object[] arguments = new Object[relation.productArity()];
    for (int i = 0; i < arguments.length; i++) {
      Object argument = relation.productElement(i);
      arguments[i] = argument == relation.table() ? new AssignedTable(relation.table()) : argument;
    }
    return relation.makeCopy(arguments);
  }
}
