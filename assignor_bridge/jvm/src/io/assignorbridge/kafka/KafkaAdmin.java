package io.assignorbridge.kafka;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;

/**
 * Kafka's admin client with the stream's own settings and Spark's delegation token. One thread
 * opens and uses it; any thread may close it.
 */
public final class KafkaAdmin implements AutoCloseable {
  private final Map<String, Object> kafkaSettings;
  private final AtomicReference<Admin> admin = new AtomicReference<>();
  private volatile boolean ended;
  private SecuredParams params; // the parameters of the open client

  public KafkaAdmin(Map<String, String> kafkaSettings) {
    this.kafkaSettings = new HashMap<>(kafkaSettings);
  }

  /**
   * Returns the client; opens one (slowly) if there is none or its token is outdated. Throws
   * InterruptedException after {@link #close}.
   */
  public Admin open() throws InterruptedException {
    Admin client = admin.get();
    if (client == null || params.isOutdated()) {
      closeClient();
      params = new SecuredParams(kafkaSettings);
      client = Admin.create(params.params());
      admin.set(client);
    }
    if (ended) { // close() ran meanwhile and may not have seen the new client
      closeClient();
      throw new InterruptedException();
    }
    return client;
  }

  public boolean isEnded() {
    return ended;
  }

  @Override
  public void close() {
    ended = true;
    closeClient();
  }

  /** Returns an error with its causes, on one line without the client's secrets. */
  public String describe(Throwable error) {
    return SecuredParams.describe(error, params);
  }

  private void closeClient() {
    Admin client = admin.getAndSet(null);
    if (client != null) {
      client.close(Duration.ofMillis(1)); // 0 waits for its thread, even in a DNS lookup
    }
  }
}
