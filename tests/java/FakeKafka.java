package io.assignorbridge.reader;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.LogTruncationException;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;

/**
 * A consumer and the two brokers behind it, of even and odd partitions, for what cannot be counted from outside of the real ones.
 * Every partition has an endless log of batches of one size. An answer takes whole batches, up to
 * {@code max.partition.fetch.bytes} of a partition and {@code fetch.max.bytes} in all; a first batch
 * that is larger comes alone, as from a real broker. Sizes are only told, not held.
 */
final class FakeKafka implements InvocationHandler {
  final int recordsPerBatch;
  final int recordBytes;
  final int headerBytes;
  final long partitionBytes;
  final Set<TopicPartition> assigned = new LinkedHashSet<>();
  final Set<TopicPartition> fetched = new LinkedHashSet<>(); // not paused; in turns
  final Map<TopicPartition, Long> positions = new LinkedHashMap<>();
  final Set<TopicPartition> truncated = new LinkedHashSet<>(); // until they are sought
  boolean remote; // an answer is of one partition, as from a remote tier before Kafka 4.2
  Random disorder; // partitions answer in any order, late, or with an offset that is gone; or null
  final Set<TopicPartition> silent = new LinkedHashSet<>(); // their broker does not answer
  Runnable duringPoll; // or null
  long taken; // records
  int polls;
  int seeks;
  int mostFetched;
  int metricScans;
  double incoming;
  boolean closed;

  private final Map<Integer, Double> byBroker = new LinkedHashMap<>();
  private final long fetchBytes;

  FakeKafka(Map<String, Object> params, int recordsPerBatch, int recordBytes, int headerBytes) {
    this.recordsPerBatch = recordsPerBatch;
    this.recordBytes = recordBytes;
    this.headerBytes = headerBytes;
    partitionBytes = Long.parseLong(params.get("max.partition.fetch.bytes").toString().trim());
    fetchBytes = Long.parseLong(params.get("fetch.max.bytes").toString());
  }

  @SuppressWarnings("unchecked") // the proxy is of this interface
  Consumer<byte[], byte[]> consumer() {
    return (Consumer<byte[], byte[]>)
        Proxy.newProxyInstance(
            getClass().getClassLoader(), new Class<?>[] {Consumer.class}, this);
  }

  @Override
  @SuppressWarnings("unchecked") // as the interface says
  public Object invoke(Object proxy, Method method, Object[] args) {
    switch (method.getName()) {
      case "assign":
        Collection<TopicPartition> wanted = (Collection<TopicPartition>) args[0];
        assigned.retainAll(wanted);
        for (TopicPartition one : wanted) {
          if (assigned.add(one)) {
            fetched.add(one);
          }
        }
        fetched.retainAll(assigned);
        positions.keySet().retainAll(assigned);
        return null;
      case "seek":
        seeks++;
        check(assigned.contains(args[0]), args[0] + " is not assigned");
        positions.put((TopicPartition) args[0], (Long) args[1]);
        truncated.remove(args[0]);
        return null;
      case "pause":
        check(assigned.containsAll((Collection<?>) args[0]), "a pause of what is not assigned");
        fetched.removeAll((Collection<?>) args[0]);
        return null;
      case "resume":
        check(assigned.containsAll((Collection<?>) args[0]), "a resume of what is not assigned");
        fetched.addAll((Collection<TopicPartition>) args[0]);
        return null;
      case "position":
        return positions.get(args[0]);
      case "metrics":
        return metrics();
      case "poll":
        check(args[0] instanceof Duration, "a poll without a limit");
        return poll();
      case "close":
        closed = true;
        return null;
      case "hashCode":
        return System.identityHashCode(proxy);
      default:
        throw new UnsupportedOperationException(method.toString());
    }
  }

  private ConsumerRecords<byte[], byte[]> poll() {
    polls++;
    if (duringPoll != null) {
      duringPoll.run();
    }
    mostFetched = Math.max(mostFetched, fetched.size());
    if (!truncated.isEmpty()) {
      Map<TopicPartition, Long> at = new LinkedHashMap<>(positions);
      at.keySet().retainAll(truncated);
      throw new LogTruncationException("truncated", at, Map.of());
    }
    Map<TopicPartition, List<ConsumerRecord<byte[], byte[]>>> records = new LinkedHashMap<>();
    long room = fetchBytes;
    boolean first = true;
    int batchBytes = recordsPerBatch * (recordBytes + headerBytes);
    List<TopicPartition> answering = new ArrayList<>(fetched);
    answering.removeAll(silent);
    if (disorder != null && !answering.isEmpty()) {
      Collections.shuffle(answering, disorder);
      if (disorder.nextInt(40) == 0) {
        TopicPartition gone = answering.get(0);
        throw new OffsetOutOfRangeException(Map.of(gone, positions.get(gone)));
      }
      answering.subList(0, disorder.nextInt(answering.size() + 1)).clear();
    }
    for (TopicPartition one : answering) {
      long batches = Math.min(room, partitionBytes) / batchBytes;
      if (batches == 0 && first) {
        batches = 1;
      }
      if (batches > 0) {
        first = false;
        room = Math.max(0, room - batches * batchBytes);
        records.put(one, take(one, batches));
        incoming += batches * batchBytes;
        byBroker.merge(one.partition() % 2, (double) batches * batchBytes, Double::sum);
        fetched.remove(one); // who was served comes last with the next answer
        fetched.add(one);
        if (remote) {
          break;
        }
      }
    }
    return new ConsumerRecords<>(records);
  }

  private List<ConsumerRecord<byte[], byte[]>> take(TopicPartition one, long batches) {
    long position = positions.get(one);
    long end = (position / recordsPerBatch + batches) * recordsPerBatch;
    List<ConsumerRecord<byte[], byte[]>> taken = new ArrayList<>();
    for (long offset = position; offset < end; offset++) {
      RecordHeaders headers = new RecordHeaders();
      if (headerBytes > 0) {
        headers.add("h", new byte[headerBytes]);
      }
      taken.add(
          new ConsumerRecord<>(
              one.topic(), one.partition(), offset, 0L, TimestampType.CREATE_TIME,
              -1, recordBytes, null, new byte[0], headers, Optional.empty()));
    }
    positions.put(one, end);
    this.taken += taken.size();
    return taken;
  }

  private Map<MetricName, Metric> metrics() {
    Map<MetricName, Metric> all = new LinkedHashMap<>();
    metricScans++;
    add(all, "incoming-byte-total", "consumer-metrics", Map.of(), () -> incoming);
    add(all, "fetch-total", "consumer-fetch-manager-metrics", Map.of(), () -> (double) polls);
    for (int broker : byBroker.keySet()) {
      Map<String, String> tags = Map.of("client-id", "c", "node-id", "node-" + broker);
      add(all, "incoming-byte-total", "consumer-node-metrics", tags, () -> byBroker.get(broker));
      add(all, "outgoing-byte-total", "consumer-node-metrics", tags, () -> 1.0);
    }
    return all;
  }

  private static void add(
      Map<MetricName, Metric> all,
      String name,
      String group,
      Map<String, String> tags,
      java.util.function.Supplier<Double> value) {
    MetricName named = new MetricName(name, group, "", tags);
    all.put(
        named,
        new Metric() {
          @Override
          public MetricName metricName() {
            return named;
          }

          @Override
          public Object metricValue() {
            return value.get();
          }
        });
  }

  static void check(boolean holds, String what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }
}
