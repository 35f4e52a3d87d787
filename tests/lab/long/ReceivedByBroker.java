import com.sun.tools.attach.VirtualMachine;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/**
 * What Kafka's consumers in other JVMs have received, as they tell over JMX: a line for each, with
 * process, broker, name and the sum of bytes. Arguments: ids of processes.
 */
public final class ReceivedByBroker {
  private static final String NODES =
      "kafka.consumer:type=consumer-node-metrics,client-id=*,node-id=*";

  private ReceivedByBroker() {}

  public static void main(String[] processes) throws Exception {
    for (String process : processes) {
      VirtualMachine machine = VirtualMachine.attach(process);
      JMXServiceURL address = new JMXServiceURL(machine.startLocalManagementAgent());
      try (JMXConnector connector = JMXConnectorFactory.connect(address)) {
        MBeanServerConnection beans = connector.getMBeanServerConnection();
        for (ObjectName node : beans.queryNames(new ObjectName(NODES), null)) {
          double bytes = (Double) beans.getAttribute(node, "incoming-byte-total");
          String broker = node.getKeyProperty("node-id").replace("node-", "");
          String client = node.getKeyProperty("client-id");
          System.out.printf("%s %s %s %d%n", process, broker, client, (long) bytes);
        }
      } finally {
        machine.detach();
      }
    }
  }
}
