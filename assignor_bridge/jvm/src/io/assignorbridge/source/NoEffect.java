package io.assignorbridge.source;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Reports that the option `assignor` has no effect on a stream, or fails the query. */
final class NoEffect {
  private static final Logger LOG = LoggerFactory.getLogger(NoEffect.class);

  private NoEffect() {}

  static void report(String reason, boolean failOnError) {
    if (failOnError) {
      throw new IllegalArgumentException(
          "option 'assignor' cannot take effect (assignor.onError=fail): " + reason);
    }
    LOG.warn("option 'assignor' has no effect: {}", reason);
  }
}
