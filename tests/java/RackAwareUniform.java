import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.assignor.AssignmentSpec;
import org.apache.kafka.coordinator.group.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;

/**
 * The broker's `uniform` of Kafka 3.7, the last that looked at racks: one line of JSON in, one out, as
 * KafkaAssignors has them.
 */
public final class RackAwareUniform {
  private static final ObjectMapper JSON = new ObjectMapper();

  private RackAwareUniform() {}

  public static void main(String[] args) throws Exception {
    var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      ObjectNode answer;
      try {
        answer = assign(JSON.readTree(line));
      } catch (RuntimeException error) {
        answer = JSON.createObjectNode().put("error", error.toString());
      }
      System.out.println(JSON.writeValueAsString(answer));
      System.out.flush();
    }
  }

  private static ObjectNode assign(JsonNode request) {
    JsonNode counts = request.get("topics");
    Map<String, Uuid> ids = new TreeMap<>();
    counts.fieldNames().forEachRemaining(t -> ids.put(t, new Uuid(1, 1 + ids.size())));
    Map<Uuid, String> names = new HashMap<>();
    ids.forEach((name, id) -> names.put(id, name));
    SubscribedTopicDescriber topics =
        new SubscribedTopicDescriber() {
          @Override
          public int numPartitions(Uuid topic) {
            return counts.path(names.get(topic)).asInt(-1);
          }

          @Override
          public Set<String> racksForPartition(Uuid topic, int partition) {
            Set<String> racks = new HashSet<>();
            request
                .path("racks")
                .path(names.get(topic))
                .path(Integer.toString(partition))
                .forEach(rack -> racks.add(rack.asText()));
            return racks;
          }
        };
    Map<String, AssignmentMemberSpec> members = new TreeMap<>();
    request.get("members").fields().forEachRemaining(e -> members.put(e.getKey(), member(e.getValue(), ids)));
    ObjectNode result = JSON.createObjectNode();
    ObjectNode assignment = result.putObject("assignment");
    new TreeMap<>(new UniformAssignor().assign(new AssignmentSpec(members), topics).members())
        .forEach(
            (name, given) -> {
              ObjectNode of = assignment.putObject(name);
              given
                  .targetPartitions()
                  .forEach((id, numbers) -> new TreeSet<>(numbers).forEach(of.withArray("/" + names.get(id))::add));
            });
    return result;
  }

  private static AssignmentMemberSpec member(JsonNode member, Map<String, Uuid> ids) {
    Set<Uuid> subscribed = new HashSet<>();
    member.get("topics").forEach(topic -> subscribed.add(ids.get(topic.asText())));
    Map<Uuid, Set<Integer>> owned = new HashMap<>();
    member
        .path("owned")
        .fields()
        .forEachRemaining(
            e -> e.getValue().forEach(p -> owned.computeIfAbsent(ids.get(e.getKey()), t -> new HashSet<>()).add(p.asInt())));
    Optional<String> rack = Optional.ofNullable(member.path("rack").textValue());
    return new AssignmentMemberSpec(Optional.empty(), rack, subscribed, owned);
  }
}
