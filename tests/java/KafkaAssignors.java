import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberSubscription;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;

/**
 * Kafka's own assignors behind one line of JSON in, one line out: the oracle of the differential
 * tests, and the other column of the benchmark.
 */
public final class KafkaAssignors {
  private static final ObjectMapper JSON = new ObjectMapper();

  /** Lets the oracle see what Kafka reads from user data. */
  private static final class Sticky extends StickyAssignor {
    MemberData read(ByteBuffer userData) {
      return memberData(new Subscription(List.of(), userData));
    }
  }

  public static void main(String[] args) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      ObjectNode answer;
      try {
        answer = answer(JSON.readTree(line));
      } catch (RuntimeException error) {
        answer = JSON.createObjectNode().put("error", error.toString());
      }
      out.println(JSON.writeValueAsString(answer));
      out.flush();
    }
  }

  private static ObjectNode answer(JsonNode request) throws Exception {
    return switch (request.get("op").asText()) {
      case "assign" -> assign(request);
      case "write" -> write(request);
      case "read" -> read(request);
      case "measure" -> measure(request);
      default -> throw new IllegalArgumentException("unknown op");
    };
  }

  private static ConsumerPartitionAssignor assignor(String name) {
    return switch (name) {
      case "range" -> new RangeAssignor();
      case "roundrobin" -> new RoundRobinAssignor();
      case "sticky" -> new StickyAssignor();
      case "cooperative-sticky" -> new CooperativeStickyAssignor();
      default -> throw new IllegalArgumentException("unknown assignor " + name);
    };
  }

  private static ObjectNode assign(JsonNode request) {
    if (request.get("assignor").asText().equals("uniform")) {
      return uniform(request);
    }
    Map<String, Subscription> members = new HashMap<>();
    request.get("members").fields().forEachRemaining(e -> members.put(e.getKey(), subscription(e.getValue())));
    Cluster cluster = cluster(request.get("topics"), request.path("racks"));
    Map<String, Assignment> answer =
        assignor(request.get("assignor").asText()).assign(cluster, new GroupSubscription(members)).groupAssignment();
    ObjectNode result = JSON.createObjectNode();
    ObjectNode assignment = result.putObject("assignment");
    new TreeMap<>(answer).forEach((member, given) -> put(assignment.putObject(member), given.partitions()));
    return result;
  }

  /** The broker's assignor (KIP-848). Whoever asks for racks ends the request with an error. */
  private static ObjectNode uniform(JsonNode request) {
    Map<String, Uuid> ids = new TreeMap<>();
    request.get("topics").fieldNames().forEachRemaining(t -> ids.put(t, new Uuid(1, 1 + ids.size())));
    Map<Uuid, String> names = new HashMap<>();
    ids.forEach((name, id) -> names.put(id, name));
    SubscribedTopicDescriber topics = (SubscribedTopicDescriber) Proxy.newProxyInstance(
        KafkaAssignors.class.getClassLoader(), new Class<?>[] {SubscribedTopicDescriber.class}, (proxy, method, args) -> {
          if (method.getName().equals("numPartitions")) {
            return request.get("topics").path(names.get(args[0])).asInt(-1);
          }
          throw new IllegalStateException("it asks for " + method.getName());
        });
    Map<String, MemberSubscription> subscriptions = new TreeMap<>();
    Map<String, Map<Uuid, Set<Integer>>> owned = new TreeMap<>();
    Map<Uuid, Set<Integer>> assigned = new HashMap<>();
    Set<Set<Uuid>> distinct = new HashSet<>();
    request.get("members").fields().forEachRemaining(e -> {
      Set<Uuid> subscribed = new HashSet<>();
      e.getValue().get("topics").forEach(t -> subscribed.add(ids.get(t.asText())));
      distinct.add(subscribed);
      subscriptions.put(e.getKey(), new MemberSubscription() {
        public Optional<String> rackId() {
          throw new IllegalStateException("it asks for the rack of a member");
        }
        public Optional<String> instanceId() {
          return Optional.empty();
        }
        public Set<Uuid> subscribedTopicIds() {
          return subscribed;
        }
      });
      Map<Uuid, Set<Integer>> given = new HashMap<>();
      partitions(e.getValue().path("owned")).forEach(tp -> {
        given.computeIfAbsent(ids.get(tp.topic()), t -> new HashSet<>()).add(tp.partition());
        assigned.computeIfAbsent(ids.get(tp.topic()), t -> new HashSet<>()).add(tp.partition());
      });
      owned.put(e.getKey(), Collections.unmodifiableMap(given));
    });
    GroupSpec group = new GroupSpec() {
      public Collection<String> memberIds() {
        return subscriptions.keySet();
      }
      public SubscriptionType subscriptionType() {
        return distinct.size() <= 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
      }
      public boolean isPartitionAssigned(Uuid topic, int partition) {
        return assigned.getOrDefault(topic, Set.of()).contains(partition);
      }
      public boolean isPartitionAssignable(Uuid topic, int partition) {
        return true;
      }
      public MemberSubscription memberSubscription(String member) {
        return subscriptions.get(member);
      }
      public MemberAssignment memberAssignment(String member) {
        return () -> owned.get(member);
      }
    };
    ObjectNode result = JSON.createObjectNode();
    ObjectNode assignment = result.putObject("assignment");
    new TreeMap<>(new UniformAssignor().assign(group, topics).members()).forEach((member, given) -> {
      List<TopicPartition> list = new ArrayList<>();
      given.partitions().forEach((id, numbers) -> numbers.forEach(n -> list.add(new TopicPartition(names.get(id), n))));
      put(assignment.putObject(member), list);
    });
    return result;
  }

  private static void put(ObjectNode target, List<TopicPartition> partitions) {
    Map<String, Set<Integer>> byTopic = new TreeMap<>();
    partitions.forEach(tp -> byTopic.computeIfAbsent(tp.topic(), t -> new TreeSet<>()).add(tp.partition()));
    byTopic.forEach((topic, numbers) -> numbers.forEach(target.withArray("/" + topic)::add));
  }

  private static Subscription subscription(JsonNode member) {
    List<String> topics = new ArrayList<>();
    member.get("topics").forEach(t -> topics.add(t.asText()));
    ByteBuffer userData = member.hasNonNull("user_data")
        ? ByteBuffer.wrap(Base64.getDecoder().decode(member.get("user_data").asText())) : null;
    Optional<String> rack = Optional.ofNullable(member.path("rack").textValue());
    Subscription result = new Subscription(
        topics, userData, partitions(member.path("owned")), member.path("generation").asInt(-1), rack);
    if (member.hasNonNull("instance")) {
      result.setGroupInstanceId(Optional.of(member.get("instance").asText()));
    }
    return result;
  }

  private static List<TopicPartition> partitions(JsonNode owned) {
    List<TopicPartition> result = new ArrayList<>();
    owned.fields().forEachRemaining(
        e -> e.getValue().forEach(p -> result.add(new TopicPartition(e.getKey(), p.asInt()))));
    return result;
  }

  private static Cluster cluster(JsonNode topics, JsonNode racks) {
    Map<String, Node> nodes = new TreeMap<>();
    List<PartitionInfo> infos = new ArrayList<>();
    topics.fields().forEachRemaining(e -> {
      for (int p = 0; p < e.getValue().asInt(); p++) {
        List<Node> replicas = new ArrayList<>();
        racks.path(e.getKey()).path(Integer.toString(p)).forEach(
            r -> replicas.add(nodes.computeIfAbsent(r.asText(), n -> new Node(nodes.size(), "h", 1, n))));
        Node[] array = replicas.toArray(new Node[0]);
        infos.add(new PartitionInfo(e.getKey(), p, array.length > 0 ? array[0] : Node.noNode(), array, array));
      }
    });
    return new Cluster("oracle", nodes.values(), infos, Collections.emptySet(), Collections.emptySet());
  }

  private static ObjectNode write(JsonNode request) {
    StickyAssignor assignor = new StickyAssignor();
    assignor.onAssignment(
        new Assignment(partitions(request.get("owned"))),
        new ConsumerGroupMetadata("group", request.get("generation").asInt(), "member", Optional.empty()));
    ByteBuffer bytes = assignor.subscriptionUserData(Set.of());
    byte[] copy = new byte[bytes.remaining()];
    bytes.get(copy);
    return JSON.createObjectNode().put("user_data", Base64.getEncoder().encodeToString(copy));
  }

  private static ObjectNode read(JsonNode request) {
    byte[] bytes = Base64.getDecoder().decode(request.get("user_data").asText());
    var data = new Sticky().read(ByteBuffer.wrap(bytes));
    ObjectNode result = JSON.createObjectNode().put("generation", data.generation.orElse(-1));
    put(result.putObject("owned"), data.partitions);
    return result;
  }

  /** Times a first assignment, one leaving and one joining; the best of several runs, warmed up. */
  private static ObjectNode measure(JsonNode request) {
    String name = request.get("assignor").asText();
    int members = request.get("members").asInt();
    int topics = request.get("topics").asInt();
    int perTopic = request.get("partitions").asInt() / topics;
    int buckets = request.get("buckets").asInt();
    int runs = request.get("runs").asInt();
    List<PartitionInfo> infos = new ArrayList<>();
    List<List<String>> subscribed = new ArrayList<>();
    int size = (topics + buckets - 1) / buckets;
    for (int t = 0; t < topics; t++) {
      if (t % size == 0) {
        subscribed.add(new ArrayList<>());
      }
      subscribed.get(t / size).add("topic" + t);
      for (int p = 0; p < perTopic; p++) {
        infos.add(new PartitionInfo("topic" + t, p, Node.noNode(), new Node[0], new Node[0]));
      }
    }
    Cluster cluster = new Cluster("oracle", List.of(), infos, Set.of(), Set.of());
    Map<String, Subscription> first = new HashMap<>();
    for (int m = 0; m < members; m++) {
      first.put(String.format("member%05d", m), new Subscription(subscribed.get((int) ((long) m * buckets / members))));
    }
    ObjectNode result = JSON.createObjectNode();
    Map<String, Assignment> start = assignor(name).assign(cluster, new GroupSubscription(first)).groupAssignment();
    Map<String, Subscription> leave = owning(name, first, start);
    leave.remove("member00000");
    Map<String, Subscription> join = owning(name, first, start);
    join.put("new", new Subscription(subscribed.get(buckets - 1)));
    result.put("first", best(name, cluster, first, runs));
    result.put("leave", best(name, cluster, leave, runs));
    result.put("join", best(name, cluster, join, runs));
    return result;
  }

  private static double best(String name, Cluster cluster, Map<String, Subscription> members, int runs) {
    double best = Double.MAX_VALUE;
    for (int run = 0; run < runs; run++) {
      for (Subscription s : members.values()) {
        if (s.userData() != null) {
          s.userData().rewind();
        }
      }
      ConsumerPartitionAssignor assignor = assignor(name);
      long start = System.nanoTime();
      assignor.assign(cluster, new GroupSubscription(members));
      double millis = (System.nanoTime() - start) / 1e6;
      best = Math.min(best, millis);
      if (millis * (runs - run) > 60_000) {
        break; // a minute of this is enough to tell
      }
    }
    return best;
  }

  private static Map<String, Subscription> owning(
      String name, Map<String, Subscription> members, Map<String, Assignment> owned) {
    Map<String, Subscription> result = new HashMap<>();
    members.forEach((member, subscription) -> {
      ConsumerPartitionAssignor assignor = assignor(name);
      assignor.onAssignment(owned.get(member), new ConsumerGroupMetadata("group", 1, member, Optional.empty()));
      ByteBuffer userData = assignor.subscriptionUserData(Set.copyOf(subscription.topics()));
      result.put(member, new Subscription(
          subscription.topics(), userData, owned.get(member).partitions(), 1, Optional.empty()));
    });
    return result;
  }
}
