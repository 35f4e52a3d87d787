package io.assignorbridge.kafka;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;

/**
 * Kafka's admin client with the stream's own settings and Spark's delegation token. Opened and used
 * by one thread, closed by any.
 */
public final class KafkaAdmin implements AutoCloseable {
  private final Map<String, Object> kafka;
  private final AtomicReference<Admin> admin = new AtomicReference<>();
  private volatile boolean ended;
  private SecuredParams params; // of the client

  /** `kafka` holds the stream's own settings of its Kafka client, without the prefix. */
  public KafkaAdmin(Map<String, String> kafka) {
    this.kafka = new HashMap<>(kafka);
  }

  /** The client; another one when Spark has renewed its delegation token. A login may take long. */
  public Admin open() throws InterruptedException {
    Admin open = admin.get();
    if (open == null || params.isOutdated()) {
      closeClient();
      params = new SecuredParams(kafka);
      open = Admin.create(params.params());
      admin.set(open);
    }
    if (ended) { // meanwhile: who closed the client may have seen none
      closeClient();
      throw new InterruptedException();
    }
    return open;
  }

  public boolean isEnded() {
    return ended;
  }

  @Override
  public void close() {
    ended = true;
    closeClient();
  }

  /** An error with its causes, in one line without secrets. */
  public String inWords(Throwable error) {
    return SecuredParams.inWords(error, params);
  }

  private void closeClient() {
    Admin open = admin.getAndSet(null);
    if (open != null) {
      open.close(Duration.ofMillis(1)); // with 0 it waits for its thread, which may look names up
    }
  }
}
