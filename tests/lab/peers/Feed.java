import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Produces numbered JSON records of 200 bytes, each with its produce time. In Java, because a
 * producer in Python takes most of a core at 180,000 records a second.
 *
 * <p>Arguments: bootstrap servers, topic, number of partitions, exponent of Zipf's law over them.
 * Commands on stdin: {@code rate N} (records a second from now on; 0 flushes), {@code burst N} (N
 * records at once, then flush), {@code end}. Each answers with a line of JSON.
 */
public final class Feed {
  private static final int RECORD_BYTES = 200;
  private static final int KEYS = 100_000;
  private static final int DRAWN = 1 << 16;
  private static final long SLICE_MS = 5;
  private static final String END = "end";

  private final KafkaProducer<byte[], byte[]> producer;
  private final String topic;
  private final int[] partitions;
  private final byte[] letters = new byte[1 << 20];
  private final Random random = new Random(8);
  private long produced;
  private double behindSeconds;

  private Feed(String servers, String topic, int count, double zipf) {
    Properties settings = new Properties();
    settings.put("bootstrap.servers", servers);
    settings.put("linger.ms", "5");
    settings.put("batch.size", "65536");
    settings.put("buffer.memory", Integer.toString(64 << 20));
    ByteArraySerializer bytes = new ByteArraySerializer();
    this.producer = new KafkaProducer<>(settings, bytes, bytes);
    this.topic = topic;
    this.partitions = drawPartitions(count, zipf);
    for (int i = 0; i < letters.length; i++) {
      letters[i] = (byte) ('a' + random.nextInt(26));
    }
  }

  /** Draw the partition of each record; the heavy ones are spread over the numbers. */
  private int[] drawPartitions(int count, double zipf) {
    int[] order = new int[count];
    Arrays.setAll(order, i -> i);
    for (int i = count - 1; i > 0; i--) {
      int other = random.nextInt(i + 1);
      int swapped = order[i];
      order[i] = order[other];
      order[other] = swapped;
    }
    double[] upTo = new double[count];
    double sum = 0;
    for (int i = 0; i < count; i++) {
      sum += Math.pow(i + 1, -zipf);
      upTo[i] = sum;
    }
    int[] drawn = new int[DRAWN];
    for (int i = 0; i < DRAWN; i++) {
      int found = Arrays.binarySearch(upTo, random.nextDouble() * sum);
      drawn[i] = order[Math.min(found < 0 ? -found - 1 : found, count - 1)];
    }
    return drawn;
  }

  /** Return a record of exactly {@code RECORD_BYTES}; the text fills it up. */
  private byte[] makeRecord(long at) {
    String head =
        "{\"id\": " + produced + ", \"at\": " + at + ", \"key\": " + random.nextInt(KEYS)
            + ", \"text\": \"";
    byte[] record = new byte[RECORD_BYTES];
    byte[] start = head.getBytes(StandardCharsets.ISO_8859_1);
    System.arraycopy(start, 0, record, 0, start.length);
    int length = RECORD_BYTES - start.length - 2;
    System.arraycopy(
        letters, random.nextInt(letters.length - length), record, start.length, length);
    record[RECORD_BYTES - 2] = '"';
    record[RECORD_BYTES - 1] = '}';
    return record;
  }

  private void produceUpTo(long number) {
    while (produced < number) {
      long at = System.currentTimeMillis();
      int partition = partitions[(int) (produced % DRAWN)];
      producer.send(
          new ProducerRecord<>(topic, partition, at, null, makeRecord(at)),
          (metadata, error) -> {
            if (error != null) {
              error.printStackTrace();
              Runtime.getRuntime().halt(1);
            }
          });
      produced++;
    }
  }

  private void answer() {
    System.out.printf(
        "{\"records\": %d, \"behind_s\": %.3f, \"now_ms\": %d}%n",
        produced, behindSeconds, System.currentTimeMillis());
    System.out.flush();
  }

  private void run(LinkedBlockingQueue<String> commands) throws InterruptedException {
    double rate = 0;
    double owed = 0;
    long last = System.nanoTime();
    while (true) {
      String command = commands.poll(SLICE_MS, TimeUnit.MILLISECONDS);
      long now = System.nanoTime();
      owed += rate * (now - last) / 1e9;
      last = now;
      if (rate > 0) {
        behindSeconds = Math.max(behindSeconds, (owed - produced) / rate);
        produceUpTo((long) owed);
      }
      if (command == null) {
        continue;
      }
      String[] words = command.split(" ");
      if (words[0].equals("rate")) {
        rate = Double.parseDouble(words[1]);
        if (rate > 0) {
          behindSeconds = 0;
        }
      } else if (words[0].equals("burst")) {
        produceUpTo(produced + Long.parseLong(words[1]));
      }
      if (rate == 0 || !words[0].equals("rate")) {
        producer.flush();
      }
      owed = produced;
      last = System.nanoTime();
      answer();
      if (words[0].equals(END)) {
        producer.close();
        return;
      }
    }
  }

  public static void main(String[] arguments) throws Exception {
    LinkedBlockingQueue<String> commands = new LinkedBlockingQueue<>();
    Thread reader =
        new Thread(
            () -> {
              try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in))) {
                for (String line = in.readLine(); line != null; line = in.readLine()) {
                  commands.add(line.strip());
                }
              } catch (java.io.IOException closed) {
                // The program that reads the answers has ended.
              }
              commands.add(END);
            });
    reader.setDaemon(true);
    reader.start();
    new Feed(
            arguments[0],
            arguments[1],
            Integer.parseInt(arguments[2]),
            Double.parseDouble(arguments[3]))
        .run(commands);
  }
}
