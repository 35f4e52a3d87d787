import com.sun.tools.attach.VirtualMachine;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** The bytes of a topic that a broker has sent, as it tells over JMX. Arguments: process, topic. */
public final class SentByBroker {
  private static final String BYTES_OUT =
      "kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec,topic=";

  private SentByBroker() {}

  public static void main(String[] arguments) throws Exception {
    VirtualMachine machine = VirtualMachine.attach(arguments[0]);
    JMXServiceURL address = new JMXServiceURL(machine.startLocalManagementAgent());
    try (JMXConnector connector = JMXConnectorFactory.connect(address)) {
      MBeanServerConnection beans = connector.getMBeanServerConnection();
      ObjectName name = new ObjectName(BYTES_OUT + arguments[1]);
      System.out.println(beans.isRegistered(name) ? beans.getAttribute(name, "Count") : 0);
    } finally {
      machine.detach();
    }
  }
}
