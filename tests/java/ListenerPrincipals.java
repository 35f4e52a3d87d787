import org.apache.kafka.common.security.auth.AuthenticationContext;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * Names who comes by the listener TLS without a certificate: to Kafka, all who say nothing of
 * themselves are one user, who here is a super user because the tests come by an open port.
 */
public final class ListenerPrincipals extends DefaultKafkaPrincipalBuilder {
  public ListenerPrincipals() {
    super(null, SslPrincipalMapper.fromRules("DEFAULT"));
  }

  @Override
  public KafkaPrincipal build(AuthenticationContext context) {
    return context.listenerName().equals("TLS")
        ? new KafkaPrincipal(KafkaPrincipal.USER_TYPE, "encrypted")
        : super.build(context);
  }
}
