package io.assignorbridge.source;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Says that a stream which asks for an assignor is read as Spark reads it; or fails its query. */
final class NoEffect {
  private static final Logger LOG = LoggerFactory.getLogger(NoEffect.class);

  private NoEffect() {}

  static void of(String why, boolean failOnError) {
    if (failOnError) {
      throw new IllegalArgumentException(
          "option 'assignor' cannot take effect (assignor.onError=fail): " + why);
    }
    LOG.warn("option 'assignor' has no effect: {}", why);
  }
}
