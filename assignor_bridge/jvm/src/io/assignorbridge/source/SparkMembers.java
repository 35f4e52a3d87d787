package io.assignorbridge.source;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Objects;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Whether this Spark has what we use of it. Much of that is not public in Scala, so another version
 * or a vendor's build may lack it, or have it in another shape. All is looked up once, before the
 * first stream: better no effect at all than a failure in the midst of a batch.
 */
final class SparkMembers {
  /** `owner`, or `owner name descriptor`: jvm/build.py takes them from our class files. */
  private static final String LIST = "/io/assignorbridge/spark-members.txt";

  private static final String STREAM = "org/apache/spark/sql/kafka010/KafkaMicroBatchStream";

  /** What we take by reflection, so that it is in no class file. */
  private static final List<String> FIELDS =
      List.of(
          STREAM + " kafkaOffsetReader Lorg/apache/spark/sql/kafka010/KafkaOffsetReader;",
          STREAM + " executorKafkaParams Ljava/util/Map;",
          STREAM + " metadataPath Ljava/lang/String;",
          STREAM + " startingOffsets Lorg/apache/spark/sql/kafka010/KafkaOffsetRangeLimit;",
          STREAM + " failOnDataLoss Z");

  private static final String OURS = "io/assignorbridge/";

  private static final int MOST_TO_NAME = 3;

  /** Looked up when it is first asked for. */
  private static final class Once {
    static final String MISSING = lookUp();
  }

  private SparkMembers() {}

  /** Names what this Spark lacks; null when all is there. */
  static String missing() {
    return Once.MISSING;
  }

  private static String lookUp() {
    List<String> missing;
    try (BufferedReader list =
        new BufferedReader(
            new InputStreamReader(
                SparkMembers.class.getResourceAsStream(LIST), StandardCharsets.UTF_8))) {
      missing =
          Stream.concat(list.lines(), FIELDS.stream())
              .map(line -> line.split(" "))
              .map(SparkMembers::lacking)
              .filter(Objects::nonNull)
              .distinct()
              .toList();
    } catch (IOException e) {
      return "the jar of assignor-bridge cannot be read: " + e;
    }
    if (missing.isEmpty()) {
      return null;
    }
    int more = missing.size() - MOST_TO_NAME;
    return missing.stream().limit(MOST_TO_NAME).collect(Collectors.joining(", "))
        + (more > 0 ? " and " + more + " more" : "");
  }

  /** What is lacking for a member, in words; null if nothing is. */
  private static String lacking(String[] member) {
    if (member[0].startsWith(OURS)) {
      return superclassOf(member[0]);
    }
    return isThere(member) ? null : inWords(member);
  }

  /** Java itself refuses a class of ours whose superclass, or a method we override, is final. */
  private static String superclassOf(String ours) {
    try {
      Class.forName(ours.replace('/', '.'), false, SparkMembers.class.getClassLoader());
      return null;
    } catch (ClassNotFoundException | NoClassDefFoundError e) {
      return null; // what is not there at all has a line of its own
    } catch (LinkageError e) {
      return "a superclass that fits (" + e.getMessage() + ")";
    }
  }

  private static boolean isThere(String[] member) {
    ClassLoader loader = SparkMembers.class.getClassLoader();
    try {
      Class<?> owner = Class.forName(member[0].replace('/', '.'), false, loader);
      if (member.length == 1) {
        return true;
      }
      if (!member[2].startsWith("(")) {
        Field field = owner.getDeclaredField(member[1]);
        return field.getType().descriptorString().equals(member[2]);
      }
      MethodType type = MethodType.fromMethodDescriptorString(member[2], loader);
      if (member[1].equals("<init>")) {
        Constructor<?> constructor = owner.getDeclaredConstructor(type.parameterArray());
        return (constructor.getModifiers() & (Modifier.PUBLIC | Modifier.PROTECTED)) != 0;
      }
      return hasMethod(owner, member[1], type);
    } catch (ReflectiveOperationException | LinkageError | TypeNotPresentException e) {
      return false;
    }
  }

  /** Resolved as a call is; reflection would load the types of all the other methods, too. */
  private static boolean hasMethod(Class<?> owner, String name, MethodType type) {
    MethodHandles.Lookup lookup = MethodHandles.lookup();
    try {
      lookup.findVirtual(owner, name, type);
    } catch (ReflectiveOperationException e) {
      try {
        lookup.findStatic(owner, name, type);
      } catch (ReflectiveOperationException neither) {
        return false;
      }
    }
    return true;
  }

  private static String inWords(String[] member) {
    String owner = member[0].replace('/', '.');
    if (member.length == 1) {
      return owner;
    }
    return owner + "." + member[1] + (member[2].startsWith("(") ? "()" : "");
  }
}
