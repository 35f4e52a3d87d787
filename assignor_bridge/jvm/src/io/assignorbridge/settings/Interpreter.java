package io.assignorbridge.settings;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The Python that runs the planner. A driver's environment often holds secrets and its working folder
 * files that others can write, so neither is handed on as it is.
 *
 * @param command the interpreter
 * @param variables names of environment variables that it gets beside {@link #NEEDED}
 * @param files packages that came with the job (`--py-files`): Spark hands them to its own Python only
 */
public record Interpreter(String command, List<String> variables, List<String> files) {
  private static final String SESSION_PYTHON = "spark.assignor.python";
  private static final String SESSION_VARIABLES = "spark.assignor.env";
  private static final String SPARK_FILES = "spark.submit.pyFiles";

  /** Settings of a session that are about the process, not about planning. */
  static final List<String> SETTINGS = List.of(SESSION_PYTHON, SESSION_VARIABLES);

  /** What an interpreter and its libraries may need (also in docs/internals/protocol.md); * is any ending. */
  private static final List<String> NEEDED =
      List.of(
          "PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "TEMP",
          "TMP", "SYSTEMROOT", "PYTHON*", "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_*",
          "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "MALLOC_*", "OMP_*", "OPENBLAS_*", "MKL_*",
          "SSL_CERT_FILE", "SSL_CERT_DIR", "KRB5_CONFIG", "KRB5CCNAME", "KRB5_KTNAME");

  /**
   * `python -m` would import from the working folder before all else, and Python 3.10 has no switch
   * against that.
   */
  private static final String RUN_WORKER =
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
    // In cluster mode on YARN they are URIs, of files that are elsewhere on the driver's host. The jars
    // of `--packages` are among them: Python would read each one's directory, 30 MB in all for Delta.
    List<String> files =
        listed(session, SPARK_FILES).stream()
            .filter(file -> file.startsWith("/") && !file.contains(":") && !file.endsWith(".jar"))
            .toList();
    return new Interpreter(command, listed(session, SESSION_VARIABLES), files);
  }

  private static List<String> listed(Map<String, String> session, String key) {
    return Arrays.stream(session.getOrDefault(key, "").split(","))
        .map(String::strip)
        .filter(name -> !name.isEmpty())
        .toList();
  }

  /** How to start the planner; what it imports comes from the installation and PYTHONPATH. */
  public ProcessBuilder worker() {
    ProcessBuilder process = new ProcessBuilder(command, "-c", RUN_WORKER);
    Map<String, String> environment = process.environment();
    environment.keySet().removeIf(name -> !isHandedOn(name));
    environment.putIfAbsent("OPENBLAS_NUM_THREADS", "1"); // numpy starts one a core, for nothing here
    // Spark's scripts write "$SPARK_HOME/python/:$PYTHONPATH": an empty part is the working folder.
    Stream<String> inherited = Stream.of(environment.getOrDefault("PYTHONPATH", "").split(":"));
    String path =
        Stream.concat(files.stream(), inherited)
            .filter(p -> !p.isBlank())
            .collect(Collectors.joining(":"));
    environment.put("PYTHONPATH", path);
    return process;
  }

  private boolean isHandedOn(String name) {
    return Stream.concat(NEEDED.stream(), variables.stream())
        .anyMatch(
            known ->
                known.endsWith("*")
                    ? name.startsWith(known.substring(0, known.length() - 1))
                    : name.equals(known));
  }

  /** Notebook users set PYSPARK_DRIVER_PYTHON to jupyter or ipython: those run no modules for us. */
  private static boolean isPython(String command) {
    String name = command.substring(command.lastIndexOf('/') + 1);
    return !name.startsWith("jupyter") && !name.startsWith("ipython");
  }
}
