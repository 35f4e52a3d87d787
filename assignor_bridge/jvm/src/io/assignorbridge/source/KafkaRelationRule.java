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
 * Puts our table in the place of Spark's in a streaming Kafka relation that asks for an assignor.
 * Each session runs this rule over all its queries, whether the Kafka connector is there or not: no
 * class of the connector may be needed here, and no query may fail that does not ask for us.
 */
public final class KafkaRelationRule extends Rule<LogicalPlan> {
  private static final String PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider";
  private static final String SAME_WAY =
      "give Spark both jars in the same way, both with --packages, or both on the class path";
  private static final String V1_READERS = "spark.sql.streaming.disabledV2MicroBatchReaders";

  private final SparkSession session;
  private final KillSwitch killSwitch;
  private final Set<String> warned = ConcurrentHashMap.newKeySet();

  public KafkaRelationRule(SparkSession session) {
    this.session = session;
    this.killSwitch = new KillSwitch(session);
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    try {
      return plan.resolveOperators(PartialFunction$.MODULE$.fromFunction(this::replaced));
    } catch (LinkageError e) { // even the relation is another one
      noEffect(PlannerException.unexpected(e, session.version()).getMessage(), false);
      return plan;
    }
  }

  private LogicalPlan replaced(LogicalPlan node) {
    if (node instanceof WriteToStream query) {
      CollectionConverters.asJava(query.collectLeaves()).forEach(this::passedThrough);
    }
    return node instanceof StreamingRelationV2 relation
            && !(relation.table() instanceof AssignedTable)
            && nameAssignor(relation.extraOptions())
        ? replaced(relation)
        : node;
  }

  /** The relation with our table; the relation as it is, and a warning, if that cannot be. */
  private LogicalPlan replaced(StreamingRelationV2 relation) {
    Object source = relation.source().isDefined() ? relation.source().get() : null;
    if (source == null || !isKafka(source.getClass())) {
      if (relation.extraOptions().get(AssignorOptions.NAME) != null) {
        noEffect(
            "it is given to '" + relation.sourceName() + "', which is not Spark's Kafka source", false);
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
    noEffect(obstacle, relation.extraOptions());
    return relation;
  }

  /** A query begins: its session asked for an assignor too late for this source. */
  private void passedThrough(LogicalPlan source) {
    if (source instanceof StreamingRelationV2 relation
        && !(relation.table() instanceof AssignedTable)
        && relation.extraOptions().get(AssignorOptions.NAME) == null // else it was told at load()
        && nameAssignor(relation.extraOptions())
        && relation.source().isDefined()
        && isKafka(relation.source().get().getClass())
        && obstacle(relation.source().get()) == null) {
      noEffect(
          AssignorOptions.SESSION_NAME + " was set after load(): set it before",
          relation.extraOptions());
    }
  }

  private boolean nameAssignor(CaseInsensitiveStringMap options) {
    return AssignorOptions.hasAssignor(options, session.conf().getAll());
  }

  /**
   * Looks at the provider, not at the name: users may give the provider's class instead of "kafka".
   * Compares names: the connector may be missing, or in a class loader that ours does not see.
   */
  private static boolean isKafka(Class<?> source) {
    for (Class<?> c = source; c != null; c = c.getSuperclass()) {
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
    String missing = SparkMembers.missing();
    return missing == null
        ? null
        : "assignor-bridge "
            + JarVersion.HERE
            + " is incompatible with Spark "
            + session.version()
            + ", which lacks "
            + missing;
  }

  private void noEffect(String why, CaseInsensitiveStringMap options) {
    var settings = CollectionConverters.asJava(session.conf().getAll());
    noEffect(why, AssignorOptions.of(options, settings).failOnError());
  }

  private void noEffect(String why, boolean failOnError) {
    if (failOnError || warned.add(why)) { // the rule sees a relation many times
      NoEffect.of(why, failOnError);
    }
  }

  /** The case class gained a parameter in Spark 4.2, so the copy goes through its product. */
  private LogicalPlan withOurTable(StreamingRelationV2 relation) {
    AssignedTable table = new AssignedTable((SupportsRead) relation.table(), killSwitch);
    Object[] arguments = new Object[relation.productArity()];
    for (int i = 0; i < arguments.length; i++) {
      Object argument = relation.productElement(i);
      arguments[i] = argument == relation.table() ? table : argument;
    }
    return relation.makeCopy(arguments);
  }
}
