package io.assignorbridge.reader;

import java.util.Map;
import org.apache.kafka.clients.CommonClientConfigs;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.deploy.security.HadoopDelegationTokenManager;
import org.apache.spark.kafka010.KafkaConfigUpdater;
import org.apache.spark.kafka010.KafkaTokenClusterConf;
import org.apache.spark.kafka010.KafkaTokenUtil;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Kafka parameters with the delegation token that Spark holds for their cluster, added by the same
 * classes as for Spark's own consumers. Never printed: they hold secrets.
 */
final class SecuredParams {
  private final Option<KafkaTokenClusterConf> cluster;
  private final Map<String, Object> params;
  private final boolean tokens;

  SecuredParams(Map<String, Object> sparkParams) {
    SparkConf conf = SparkEnv.get().conf();
    Object servers = sparkParams.get(CommonClientConfigs.BOOTSTRAP_SERVERS_CONFIG);
    this.cluster = KafkaTokenUtil.findMatchingTokenClusterConfig(conf, (String) servers);
    this.params =
        KafkaConfigUpdater.apply(
                "executor", Map$.MODULE$.from(CollectionConverters.asScala(sparkParams)))
            .setAuthenticationConfigIfNeeded(cluster)
            .build();
    this.tokens = HadoopDelegationTokenManager.isServiceEnabled(conf, "kafka");
  }

  Map<String, Object> params() {
    return params;
  }

  /** Whether Spark has a newer delegation token than the one in these parameters. */
  boolean isOutdated() {
    return tokens && KafkaTokenUtil.needTokenUpdate(params, cluster);
  }
}
