import io.assignorbridge.LagAwareAssignor;
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
 * When our LagAwareAssignor fetches lags: plays rebalances of one instance without a broker, and
 * prints the threads that fetched after each step.
 */
public final class LagRequests {
  private static final List<String> FETCHES = new ArrayList<>();
  private static volatile boolean hangs;

  public static void main(String[] args) throws Exception {
    LagAwareAssignor assignor = new LagAwareAssignor() {
      @Override
      protected Map<TopicPartition, Long> fetchLags(Collection<TopicPartition> partitions) {
        synchronized (FETCHES) {
          FETCHES.add((Thread.currentThread().isDaemon() ? "daemon " : "caller ") + partitions.size());
        }
        try {
          Thread.sleep(hangs ? 60_000 : 0);
        } catch (InterruptedException error) {
          throw new IllegalStateException(error);
        }
        Map<TopicPartition, Long> lags = new HashMap<>();
        partitions.forEach(p -> lags.put(p, p.partition() == 2 ? 100L : 1L));
        return lags;
      }
    };
    assignor.configure(Map.of("group.id", "g"));
    assignor.subscriptionUserData(Set.of("t"));
    print("first join");
    print("leads " + assign(assignor, 3));
    assignor.subscriptionUserData(Set.of("t"));
    Thread.sleep(200);
    print("rejoins");
    print("leads again " + assign(assignor, 3));
    assignor.subscriptionUserData(Set.of("t"));
    Thread.sleep(200);
    print("leads a grown topic " + assign(assignor, 4));
    assignor.subscriptionUserData(Set.of("t"));
    Thread.sleep(200);
    print("rejoins");
    assignor.subscriptionUserData(Set.of("t")); // another member led in between
    Thread.sleep(200);
    print("did not lead");
    print("leads " + assign(assignor, 4));
    hangs = true;
    assignor.subscriptionUserData(Set.of("t"));
    long start = System.nanoTime();
    String answer = assign(assignor, 4);
    long seconds = (System.nanoTime() - start) / 1_000_000_000;
    print("hangs " + answer + " after " + seconds + " s");
  }

  private static String assign(LagAwareAssignor assignor, int count) {
    List<PartitionInfo> partitions = new ArrayList<>();
    for (int number = 0; number < count; number++) {
      partitions.add(new PartitionInfo("t", number, Node.noNode(), new Node[0], new Node[0]));
    }
    Map<String, Subscription> members = new HashMap<>();
    List.of("a", "b").forEach(member -> members.put(member, new Subscription(List.of("t"))));
    return assignor
        .assign(new Cluster("c", List.of(), partitions, Set.of(), Set.of()), new GroupSubscription(members))
        .groupAssignment().get("a").partitions().toString();
  }

  private static void print(String step) {
    synchronized (FETCHES) {
      System.out.println(step + ": " + FETCHES);
      FETCHES.clear();
    }
  }
}
