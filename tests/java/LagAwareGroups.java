import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.assignorbridge.LagAwareAssignor;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Our LagAwareAssignor: a group with its lags as a line of JSON in, its assignment as one out. With
 * the address of a broker as argument, one assignor fetches the lags of all groups from there.
 */
public final class LagAwareGroups {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] args) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    StringBuilder out = new StringBuilder();
    LagAwareAssignor fetching = null;
    if (args.length == 1) {
      fetching = new LagAwareAssignor();
      fetching.configure(Map.of("bootstrap.servers", args[0], "group.id", "g"));
    }
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      out.append(answer(JSON.readTree(line), fetching)).append('\n');
    }
    System.out.print(out);
  }

  private static ObjectNode answer(JsonNode group, LagAwareAssignor fetching) {
    Map<TopicPartition, Long> lags = new HashMap<>();
    group.get("lags").fields().forEachRemaining(t -> t.getValue().fields().forEachRemaining(p ->
        lags.put(new TopicPartition(t.getKey(), Integer.parseInt(p.getKey())), p.getValue().asLong())));
    List<PartitionInfo> partitions = new ArrayList<>();
    group.get("topics").fields().forEachRemaining(t -> {
      for (int number = 0; number < t.getValue().asInt(); number++) {
        partitions.add(new PartitionInfo(t.getKey(), number, Node.noNode(), new Node[0], new Node[0]));
      }
    });
    Map<String, Subscription> members = new HashMap<>();
    group.get("members").fields().forEachRemaining(m -> {
      List<String> topics = new ArrayList<>();
      m.getValue().forEach(t -> topics.add(t.asText()));
      members.put(m.getKey(), new Subscription(topics));
    });
    LagAwareAssignor assignor = fetching != null ? fetching : new LagAwareAssignor() {
      @Override
      protected Map<TopicPartition, Long> fetchLags(Collection<TopicPartition> partitions) {
        return lags;
      }
    };
    ObjectNode result = JSON.createObjectNode();
    assignor.assign(new Cluster("c", List.of(), partitions, Set.of(), Set.of()), new GroupSubscription(members))
        .groupAssignment().forEach((member, assignment) -> {
          ObjectNode byTopic = result.putObject(member);
          assignment.partitions().forEach(p -> byTopic.withArray("/" + p.topic()).add(p.partition()));
        });
    return result;
  }
}
