package io.assignorbridge;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.PartialFunction$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Puts our table in the place of Spark's in a streaming Kafka relation that asks for an assignor.
 * Each session runs this rule over all its queries, whether the Kafka connector is there or not: no
 * class of the connector may be needed here, and no query may fail that does not ask for us.
 */
final class KafkaRelationRule extends Rule<LogicalPlan> {
  private static final Logger LOG = LoggerFactory.getLogger(KafkaRelationRule.class);
  private static final String PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider";
  private static final String SAME_WAY =
      "give Spark both jars in the same way, both with --packages, or both on the class path";
  private static final String V1_READERS = "spark.sql.streaming.disabledV2MicroBatchReaders";

  private final SparkSession session;
  private final Set<String> warned = ConcurrentHashMap.newKeySet();

  KafkaRelationRule(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    try {
      return plan.resolveOperators(PartialFunction$.MODULE$.fromFunction(this::replaced));
    } catch (LinkageError e) { // even the relation is another one
      warn(PlannerException.unexpected(e, session.version()).getMessage());
      return plan;
    }
  }

  private LogicalPlan replaced(LogicalPlan node) {
    return node instanceof StreamingRelationV2 relation
            && !(relation.table() instanceof AssignedTable)
            && AssignorOptions.nameAssignor(relation.extraOptions(), session.conf().getAll())
        ? replaced(relation)
        : node;
  }

  /** The relation with our table; the relation as it is, and a warning, if that cannot be. */
  private LogicalPlan replaced(StreamingRelationV2 relation) {
    Object source = relation.source().isDefined() ? relation.source().get() : null;
    if (!isKafka(source)) {
      if (relation.extraOptions().containsKey(AssignorOptions.NAME)) {
        warn("it is given to '" + relation.sourceName() + "', which is not Spark's Kafka source");
      }
      return relation;
    }
    String obstacle = obstacle(source);
    if (obstacle == null) {
      try {
        return withOurTable(relation);
      } catch (RuntimeException | LinkageError e) {
        obstacle = PlannerException.unexpected(e, session.version()).getMessage();
      }
    }
    var settings = CollectionConverters.asJava(session.conf().getAll());
    if (AssignorOptions.of(relation.extraOptions(), settings).failOnError()) {
      throw new IllegalArgumentException(
          "option 'assignor' cannot take effect (assignor.onError=fail): " + obstacle);
    }
    warn(obstacle);
    return relation;
  }

  /**
   * Looks at the provider, not at the name: users may give the provider's class instead of "kafka".
   * Compares names: the connector may be missing, or in a class loader that ours does not see.
   */
  private static boolean isKafka(Object source) {
    for (Class<?> c = source == null ? null : source.getClass(); c != null; c = c.getSuperclass()) {
      if (c.getName().equals(PROVIDER)) {
        return true;
      }
    }
    return false;
  }

  /** Why we cannot read this source; null if nothing is in the way. */
  private String obstacle(Object source) {
    try {
      if (!Class.forName(PROVIDER, false, getClass().getClassLoader()).isInstance(source)) {
        return "there are two Kafka connectors, and the stream's is not the one that is seen by"
            + " the jar of assignor-bridge: " + SAME_WAY;
      }
    } catch (ClassNotFoundException e) {
      return "the jar of assignor-bridge does not see the Kafka connector: " + SAME_WAY;
    }
    for (String reader : session.conf().get(V1_READERS, "").split(",")) {
      if (reader.strip().equals(PROVIDER)) {
        return V1_READERS + " names the Kafka source, so Spark reads it the old way";
      }
    }
    return null;
  }

  private void warn(String obstacle) {
    if (warned.add(obstacle)) { // the rule sees a relation many times
      LOG.warn("option 'assignor' has no effect: {}", obstacle);
    }
  }

  /** The case class gained a parameter in Spark 4.2, so the copy goes through its product. */
  private static LogicalPlan withOurTable(StreamingRelationV2 relation) {
    AssignedTable table = new AssignedTable((SupportsRead) relation.table());
    Object[] arguments = new Object[relation.productArity()];
    for (int i = 0; i < arguments.length; i++) {
      Object argument = relation.productElement(i);
      arguments[i] = argument == relation.table() ? table : argument;
    }
    return relation.makeCopy(arguments);
  }
}
