package io.assignorbridge.model;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;

/** Reads and checks jar versions: {@code <version of the build>-<hash of the sources>}. */
public final class JarVersion {
  /** Version of this jar, read from version.txt, which jvm/build.py writes. */
  public static final String CURRENT = readVersion();

  private JarVersion() {}

  /** Fails the task if the driver's jar is a different build, which may be incompatible. */
  public static void checkDriver(String driverVersion) {
    if (!CURRENT.equals(driverVersion)) {
      throw new IllegalStateException(
          "the driver has assignor-bridge " + driverVersion + ", but this executor has " + CURRENT
              + ": give both the same jar, and look for another one in the executor's class path");
    }
  }

  /**
   * Fails if the planner's package was not built with this jar's Java sources, resources, and build
   * script. Builds with the same ones are compatible, because they exchange the same messages.
   */
  public static void checkPackage(String packageVersion, String python) throws PlannerException {
    if (!parseSourcesHash(CURRENT).equals(parseSourcesHash(packageVersion))) {
      throw new PlannerException(
          "the jar is assignor-bridge " + CURRENT + ", but the package of the planner's interpreter '"
              + python + "' is " + packageVersion
              + ": install the same version, or set spark.assignor.python to a Python that has it");
    }
  }

  private static String parseSourcesHash(String version) {
    return version.substring(version.lastIndexOf('-') + 1);
  }

  private static String readVersion() {
    try (InputStream file = JarVersion.class.getResourceAsStream("/io/assignorbridge/version.txt")) {
      return new String(file.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
