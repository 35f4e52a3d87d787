package io.assignorbridge.kafka;

import java.util.HashMap;
import java.util.Map;

/** A message without the secret of one setting: its name, its value and the message are given. */
public final class Redacted {
  private Redacted() {}

  public static void main(String[] arguments) {
    for (int i = 0; i < arguments.length; i += 3) {
      Map<String, String> params = new HashMap<>(Map.of(arguments[i], arguments[i + 1]));
      params.put("ssl.truststore.password", null); // Python's None
      System.out.println(SecuredParams.redact(arguments[i + 2], params));
    }
  }
}
