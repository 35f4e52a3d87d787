package io.assignorbridge.model;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;

/** The version of this jar: {@code <version of the build>-<hash of the Java sources>}. */
public final class JarVersion {
  /** Written by jvm/build.py. */
  public static final String HERE = read();

  private JarVersion() {}

  /** Fails the task if the driver has another build of the jar, which may be incompatible. */
  public static void checkDriver(String driver) {
    if (!HERE.equals(driver)) {
      throw new IllegalStateException(
          "the driver has assignor-bridge "
              + driver
              + ", this executor "
              + HERE
              + ": give both the same jar (is there another one in the executor's class path?)");
    }
  }

  /**
   * Fails if the planner's package was built from other Java sources than this jar. Builds of other
   * commits with the same Java sources are compatible, because they exchange the same messages.
   */
  public static void checkPackage(String version, String python) throws PlannerException {
    if (!sourcesHash(HERE).equals(sourcesHash(version))) {
      throw new PlannerException(
          "the jar is assignor-bridge "
              + HERE
              + ", the package of the planner's interpreter '"
              + python
              + "' is "
              + version
              + ": install the same version (spark.assignor.python)");
    }
  }

  private static String sourcesHash(String version) {
    return version.substring(version.lastIndexOf('-') + 1);
  }

  private static String read() {
    try (InputStream file = JarVersion.class.getResourceAsStream("/io/assignorbridge/version.txt")) {
      return new String(file.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
