package io.assignorbridge.source;

import io.assignorbridge.model.JarVersion;
import io.assignorbridge.model.PlannerException;
import io.assignorbridge.settings.AssignorOptions;
import io.assignorbridge.settings.KillSwitch;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.catalyst.streaming.WriteToStream;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.PartialFunction$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Replaces Spark's table with ours in each streaming Kafka relation that names an assignor. Spark
 * applies this rule to all queries of a session, even without the Kafka connector. The rule must
 * therefore not load the connector's classes, nor fail a query that names no assignor.
 */
public final class KafkaRelationRule extends Rule<LogicalPlan> {
  private static final String PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider";
  private static final String CLASS_LOADER_ADVICE =
      "give Spark both jars in the same way, both with --packages, or both on the class path";
  private static final String V1_READERS_SETTING = "spark.sql.streaming.disabledV2MicroBatchReaders";

  private final SparkSession session;
  private final KillSwitch killSwitch;
  private final Set<String> warnedReasons = ConcurrentHashMap.newKeySet();

  public KafkaRelationRule(SparkSession session) {
    this.session = session;
    this.killSwitch = new KillSwitch(session);
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    try {
      return plan.resolveOperators(PartialFunction$.MODULE$.fromFunction(this::replaceTable));
    } catch (LinkageError e) { // this Spark has a different relation class
      reportNoEffect(PlannerException.fromUnexpected(e, session.version()).getMessage(), false);
      return plan;
    }
  }

  private LogicalPlan replaceTable(LogicalPlan node) {
    if (node instanceof WriteToStream query) {
      CollectionConverters.asJava(query.collectLeaves()).forEach(this::checkLateOption);
    }
    return node instanceof StreamingRelationV2 relation
            && !(relation.table() instanceof AssignedTable)
            && hasAssignor(relation.extraOptions())
        ? replaceTable(relation)
        : node;
  }

  /** Returns the relation with our table; if that is impossible, warns and returns it unchanged. */
  private LogicalPlan replaceTable(StreamingRelationV2 relation) {
    Object source = relation.source().isDefined() ? relation.source().get() : null;
    if (source == null || !isKafka(source.getClass())) {
      if (relation.extraOptions().get(AssignorOptions.NAME) != null) {
        reportNoEffect("source '" + relation.sourceName() + "' is not Spark's Kafka source", false);
      }
      return relation;
    }
    String obstacle = findObstacle(source);
    if (obstacle == null) {
      try {
        return copyWithOurTable(relation);
      } catch (RuntimeException | LinkageError e) {
        obstacle = PlannerException.fromUnexpected(e, session.version()).getMessage();
      }
    }
    reportNoEffect(obstacle, relation.extraOptions());
    return relation;
  }

  /** When a query starts, reports if the session option was set too late for this source. */
  private void checkLateOption(LogicalPlan source) {
    if (source instanceof StreamingRelationV2 relation
        && !(relation.table() instanceof AssignedTable)
        && relation.extraOptions().get(AssignorOptions.NAME) == null // otherwise reported at load()
        && hasAssignor(relation.extraOptions())
        && relation.source().isDefined()
        && isKafka(relation.source().get().getClass())
        && findObstacle(relation.source().get()) == null) {
      reportNoEffect(
          AssignorOptions.SESSION_NAME + " was set after load(): set it before",
          relation.extraOptions());
    }
  }

  private boolean hasAssignor(CaseInsensitiveStringMap options) {
    return AssignorOptions.hasAssignor(options, session.conf().getAll());
  }

  /**
   * Returns whether this is Spark's Kafka provider or extends it. Compares class names, because
   * the connector may be missing or invisible to our class loader.
   */
  private static boolean isKafka(Class<?> source) {
    for (Class<?> c = source; c != null; c = c.getSuperclass()) {
      if (c.getName().equals(PROVIDER)) {
        return true;
      }
    }
    return false;
  }

  /** Returns why assignor-bridge cannot read this source, or null if it can. */
  private String findObstacle(Object source) {
    try {
      if (!Class.forName(PROVIDER, false, getClass().getClassLoader()).isInstance(source)) {
        return "there are two Kafka connectors, and the stream does not use the one that the"
            + " assignor-bridge jar sees: " + CLASS_LOADER_ADVICE;
      }
    } catch (ClassNotFoundException e) {
      return "the assignor-bridge jar does not see the Kafka connector: " + CLASS_LOADER_ADVICE;
    }
    for (String reader : session.conf().get(V1_READERS_SETTING, "").split(",")) {
      if (reader.strip().equals(PROVIDER)) {
        return V1_READERS_SETTING + " forces the V1 Kafka source: remove " + PROVIDER + " from it";
      }
    }
    String missingMembers = SparkMembers.findMissing();
    return missingMembers == null
        ? null
        : "assignor-bridge " + JarVersion.CURRENT + " is incompatible with Spark " + session.version()
            + ", which lacks " + missingMembers;
  }

  private void reportNoEffect(String reason, CaseInsensitiveStringMap options) {
    var settings = CollectionConverters.asJava(session.conf().getAll());
    reportNoEffect(reason, AssignorOptions.of(options, settings).failOnError());
  }

  private void reportNoEffect(String reason, boolean failOnError) {
    if (failOnError || warnedReasons.add(reason)) { // Spark applies the rule several times
      NoEffect.report(reason, failOnError);
    }
  }

  /** Copies the relation field by field, because Spark 4.2 added a parameter to the case class. */
  private LogicalPlan copyWithOurTable(StreamingRelationV2 relation) {
    AssignedTable table = new AssignedTable((SupportsRead) relation.table(), killSwitch);
    Object[] arguments = new Object[relation.productArity()];
    for (int i = 0; i < arguments.length; i++) {
      Object argument = relation.productElement(i);
      arguments[i] = argument == relation.table() ? table : argument;
    }
    return relation.makeCopy(arguments);
  }
}
