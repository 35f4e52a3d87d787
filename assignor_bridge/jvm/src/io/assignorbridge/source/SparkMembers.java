package io.assignorbridge.source;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
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
 * Checks that this Spark has the members that our streams use. Many are not public in Scala
 * and may differ in another version or a vendor's build. All are looked up once, before the first
 * stream, so that an incompatible Spark disables the option instead of failing a batch.
 */
final class SparkMembers {
  /** Resource with lines `owner` or `owner name descriptor`, which jvm/build.py generates. */
  private static final String LIST_RESOURCE = "/io/assignorbridge/spark-members.txt";
  private static final String STREAM = "org/apache/spark/sql/kafka010/KafkaMicroBatchStream";

  /** Fields that are read by reflection, and to which therefore no class file refers. */
  private static final List<String> FIELDS =
      List.of(
          STREAM + " kafkaOffsetReader Lorg/apache/spark/sql/kafka010/KafkaOffsetReader;",
          STREAM + " executorKafkaParams Ljava/util/Map;",
          STREAM + " metadataPath Ljava/lang/String;",
          STREAM + " startingOffsets Lorg/apache/spark/sql/kafka010/KafkaOffsetRangeLimit;",
          STREAM + " failOnDataLoss Z");

  private static final String OUR_PACKAGE = "io/assignorbridge/";
  private static final int MAX_NAMES = 3;

  private static final class Lazy { // looks up the members on first use
    static final String MISSING = describeMissing();
  }

  private SparkMembers() {}

  /** Returns up to three members that this Spark lacks, and the number of others; null if none. */
  static String findMissing() {
    return Lazy.MISSING;
  }

  private static String describeMissing() {
    List<String> missingMembers;
    try (BufferedReader listReader =
        new BufferedReader(
            new InputStreamReader(
                SparkMembers.class.getResourceAsStream(LIST_RESOURCE), StandardCharsets.UTF_8))) {
      missingMembers =
          Stream.concat(listReader.lines(), FIELDS.stream())
              .map(line -> line.split(" "))
              .map(SparkMembers::describeIfMissing)
              .filter(Objects::nonNull)
              .distinct()
              .toList();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    if (missingMembers.isEmpty()) {
      return null;
    }
    int unnamedCount = missingMembers.size() - MAX_NAMES;
    return missingMembers.stream().limit(MAX_NAMES).collect(Collectors.joining(", "))
        + (unnamedCount > 0 ? " and " + unnamedCount + " more" : "");
  }

  /** Returns what this Spark lacks if a member is missing or our class cannot load; else null. */
  private static String describeIfMissing(String[] member) {
    if (member[0].startsWith(OUR_PACKAGE)) {
      return describeIfIncompatible(member[0]);
    }
    return exists(member) ? null : describe(member);
  }

  /** Returns why one of our classes cannot be loaded (a final superclass or method), or null. */
  private static String describeIfIncompatible(String className) {
    try {
      Class.forName(className.replace('/', '.'), false, SparkMembers.class.getClassLoader());
      return null;
    } catch (ClassNotFoundException | NoClassDefFoundError e) {
      return null; // the superclass's own line reports it
    } catch (LinkageError e) {
      return "a compatible superclass (" + e.getMessage() + ")";
    }
  }

  private static boolean exists(String[] member) {
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

  /** Returns whether a call would find the method; reflection would load all methods' types. */
  private static boolean hasMethod(Class<?> owner, String name, MethodType type) {
    MethodHandles.Lookup lookup = MethodHandles.lookup();
    try {
      lookup.findVirtual(owner, name, type);
    } catch (ReflectiveOperationException e) {
      try {
        lookup.findStatic(owner, name, type);
      } catch (ReflectiveOperationException staticError) {
        return false;
      }
    }
    return true;
  }

  private static String describe(String[] member) {
    String owner = member[0].replace('/', '.');
    if (member.length == 1) {
      return owner;
    }
    return owner + "." + member[1] + (member[2].startsWith("(") ? "()" : "");
  }
}
