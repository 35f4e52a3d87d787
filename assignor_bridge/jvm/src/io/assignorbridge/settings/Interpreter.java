package io.assignorbridge.settings;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The Python interpreter that runs the planner. The driver's environment often contains secrets,
 * and other users may be able to write to its working folder. The process therefore gets only
 * selected variables and never imports from that folder.
 *
 * @param command command that starts the interpreter
 * @param variables names to pass on in addition to {@link #NEEDED_VARIABLES}, in the same format
 * @param files the job's local packages (`--py-files`), which Spark passes only to its own Python
 */
public record Interpreter(String command, List<String> variables, List<String> files) {
  private static final String SESSION_PYTHON = "spark.assignor.python";
  private static final String SESSION_VARIABLES = "spark.assignor.env";
  private static final String SPARK_FILES = "spark.submit.pyFiles";

  /** Session settings for the process; they are not planner options. */
  static final List<String> SETTINGS = List.of(SESSION_PYTHON, SESSION_VARIABLES);

  /** Variables for Python and its libraries (docs/internals/protocol.md); * matches any suffix. */
  private static final List<String> NEEDED_VARIABLES =
      List.of(
          "PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "TEMP",
          "TMP", "SYSTEMROOT", "PYTHON*", "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_*",
          "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "MALLOC_*", "OMP_*", "OPENBLAS_*", "MKL_*",
          "SSL_CERT_FILE", "SSL_CERT_DIR", "KRB5_CONFIG", "KRB5CCNAME", "KRB5_KTNAME");

  /**
   * Code that runs the worker without the working folder on Python's path. `python -m` would import
   * from that folder first, and Python 3.10 has no option to prevent it.
   */
  private static final String WORKER_CODE =
      "import sys; sys.path[:] = filter(None, sys.path); import runpy;"
          + " runpy.run_module('assignor_bridge.worker', run_name='__main__', alter_sys=True)";

  static Interpreter of(Map<String, String> session) {
    String command =
        Stream.of(
                session.get(SESSION_PYTHON),
                session.get("spark.pyspark.driver.python"),
                session.get("spark.pyspark.python"),
                System.getenv("PYSPARK_DRIVER_PYTHON"),
                System.getenv("PYSPARK_PYTHON"))
            .filter(candidate -> candidate != null && !candidate.isBlank())
            .map(String::strip)
            .filter(Interpreter::isPython)
            .findFirst()
            .orElse("python3");
    // Skip URIs, which YARN's cluster mode sets, because the files are elsewhere. Skip the
    // jars of `--packages`, because Python would read all their directories (30 MB for Delta).
    List<String> files =
        splitSetting(session, SPARK_FILES).stream()
            .filter(file -> file.startsWith("/") && !file.contains(":") && !file.endsWith(".jar"))
            .toList();
    return new Interpreter(command, splitSetting(session, SESSION_VARIABLES), files);
  }

  private static List<String> splitSetting(Map<String, String> session, String key) {
    return Arrays.stream(session.getOrDefault(key, "").split(","))
        .map(String::strip)
        .filter(part -> !part.isEmpty())
        .toList();
  }

  /** Prepares the planner process, which imports only from Python's installation and PYTHONPATH. */
  public ProcessBuilder prepareWorker() {
    ProcessBuilder builder = new ProcessBuilder(command, "-c", WORKER_CODE);
    Map<String, String> environment = builder.environment();
    environment.keySet().removeIf(name -> !isPassedOn(name));
    environment.putIfAbsent("OPENBLAS_NUM_THREADS", "1"); // the default is a thread per core
    // Spark's scripts set "$SPARK_HOME/python/:$PYTHONPATH". An empty part is the current folder.
    Stream<String> inheritedParts = Stream.of(environment.getOrDefault("PYTHONPATH", "").split(":"));
    String pythonPath =
        Stream.concat(files.stream(), inheritedParts)
            .filter(p -> !p.isBlank())
            .collect(Collectors.joining(":"));
    environment.put("PYTHONPATH", pythonPath);
    return builder;
  }

  private boolean isPassedOn(String name) {
    return Stream.concat(NEEDED_VARIABLES.stream(), variables.stream())
        .anyMatch(
            pattern ->
                pattern.endsWith("*")
                    ? name.startsWith(pattern.substring(0, pattern.length() - 1))
                    : name.equals(pattern));
  }

  /** Returns false only for jupyter and ipython, to which notebooks set PYSPARK_DRIVER_PYTHON. */
  private static boolean isPython(String command) {
    String name = command.substring(command.lastIndexOf('/') + 1);
    return !name.startsWith("jupyter") && !name.startsWith("ipython");
  }
}
