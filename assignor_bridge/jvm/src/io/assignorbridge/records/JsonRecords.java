package io.assignorbridge.records;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.catalyst.json.JSONOptions;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Checks JSON records before {@code from_json}, which ignores text after the first object and
 * silently changes numbers. A record is bad unless it is one object in UTF-8 of which Spark changes
 * no number (except in DOUBLE and FLOAT columns). If a STRING column gets a value of another type,
 * the value becomes its JSON text as sent, as in Spark's file reader (SPARK-48148):
 * {@code from_json} would turn 12.50 into 12.5. Spark handles all other values of a wrong type.
 */
public final class JsonRecords implements UDF1<byte[], byte[]> {
  private static final long serialVersionUID = 1L;
  private static final long MICROS_PER_SECOND = 1_000_000;

  private final StructType schema;
  private final HashMap<String, String> options;
  private transient JsonFactory factory;
  private transient TypeTree typeTree;
  private transient boolean readsPlainDecimals; // false if quoted ones follow a locale's format

  private JsonRecords(StructType schema, Map<String, String> options) {
    this.schema = schema;
    this.options = new HashMap<>(options);
  }

  /**
   * Returns a column with the bytes for {@code from_json}; null for bad records.
   *
   * @param schema JSON of a StructType
   * @param options options of {@code from_json}
   */
  public static Column check(Column record, String schema, Map<String, String> options) {
    JsonRecords checker = new JsonRecords((StructType) DataType.fromJson(schema), options);
    return functions.udf(checker, DataTypes.BinaryType).apply(record);
  }

  @Override
  public byte[] call(byte[] record) {
    if (record == null || !UTF8String.fromBytes(record).isValid()) {
      return null;
    }
    prepare();
    try (JsonParser parser = factory.createParser(record)) {
      if (parser.nextToken() != JsonToken.START_OBJECT) {
        return null;
      }
      QuotedCopy copy = new QuotedCopy(record);
      boolean isGood = checkValue(parser, typeTree, copy) && parser.nextToken() == null;
      return isGood ? copy.bytes() : null;
    } catch (IOException | RuntimeException e) {
      return null; // not JSON, or a number beyond one of Jackson's limits
    }
  }

  private void prepare() {
    if (factory == null) {
      var scalaOptions = scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(options));
      JSONOptions jsonOptions = new JSONOptions(scalaOptions, "UTC", "");
      readsPlainDecimals = jsonOptions.locale().equals(Locale.US);
      typeTree = new TypeTree(schema);
      factory = jsonOptions.buildJsonFactory();
    }
  }

  /** Quotes other types' values in STRING columns; returns false if Spark would change a number. */
  private boolean checkValue(JsonParser parser, TypeTree tree, QuotedCopy copy) throws IOException {
    JsonToken token = parser.currentToken();
    DataType type = tree.type;
    if (type instanceof StringType) {
      if (token != JsonToken.VALUE_STRING && token != JsonToken.VALUE_NULL) {
        copy.quote(parser);
      }
    } else if (token == JsonToken.START_OBJECT && (tree.fields != null || type instanceof MapType)) {
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        TypeTree child = tree.fields != null ? tree.fields.get(parser.currentName()) : tree.element;
        parser.nextToken();
        if (child == null) {
          parser.skipChildren();
        } else if (!checkValue(parser, child, copy)) {
          return false;
        }
      }
    } else if (token == JsonToken.START_ARRAY && type instanceof ArrayType) {
      while (parser.nextToken() != JsonToken.END_ARRAY) {
        if (!checkValue(parser, tree.element, copy)) {
          return false;
        }
      }
    } else if (token.isStructStart()) {
      parser.skipChildren();
    } else if (type instanceof DecimalType decimal) {
      if (token.isNumeric() || (token == JsonToken.VALUE_STRING && readsPlainDecimals)) {
        return ExactDecimals.fits(
            parser.getTextCharacters(), parser.getTextOffset(), parser.getTextLength(),
            decimal.precision(), decimal.scale());
      }
    } else if (token == JsonToken.VALUE_NUMBER_INT) {
      if (type instanceof ByteType) { // Jackson accepts 255 as a byte, which Spark reads as -1
        return parser.getIntValue() <= Byte.MAX_VALUE;
      }
      if (type instanceof TimestampType) { // Spark multiplies seconds without an overflow check
        return Math.abs(parser.getLongValue()) <= Long.MAX_VALUE / MICROS_PER_SECOND;
      }
    }
    return true;
  }

  /** A type with the types of its fields, elements, or values. */
  private static final class TypeTree {
    final DataType type;
    final Map<String, TypeTree> fields; // null except for a struct
    final TypeTree element; // of an array, or a map's values; null for other types

    TypeTree(DataType type) {
      this.type = type;
      this.fields = type instanceof StructType ? new HashMap<>() : null;
      if (type instanceof StructType struct) {
        for (StructField field : struct.fields()) {
          fields.put(field.name(), new TypeTree(field.dataType()));
        }
      }
      DataType elementType = type instanceof ArrayType array ? array.elementType() : null;
      elementType = type instanceof MapType map ? map.valueType() : elementType;
      this.element = elementType != null ? new TypeTree(elementType) : null;
    }
  }

  /** A copy of the record's bytes in which some values are quoted as text. */
  private static final class QuotedCopy {
    private final byte[] record;
    private ByteArrayOutputStream output;
    private int copiedBytes;

    QuotedCopy(byte[] record) {
      this.record = record;
    }

    /** Quotes the value that begins with the current token. */
    void quote(JsonParser parser) throws IOException {
      int start = (int) parser.currentTokenLocation().getByteOffset();
      parser.skipChildren();
      int end = (int) parser.currentLocation().getByteOffset();
      if (output == null) {
        output = new ByteArrayOutputStream(record.length + 64);
      }
      output.write(record, copiedBytes, start - copiedBytes);
      output.write('"');
      for (int i = start; i < end; i++) {
        byte b = record[i];
        if (b == '"' || b == '\\') {
          output.write('\\');
          output.write(b);
        } else if (b >= 0 && b < ' ') {
          String escapedByte = "\\u" + HexFormat.of().toHexDigits((char) b);
          output.writeBytes(escapedByte.getBytes(StandardCharsets.US_ASCII));
        } else {
          output.write(b);
        }
      }
      output.write('"');
      copiedBytes = end;
    }

    byte[] bytes() {
      if (output == null) {
        return record;
      }
      output.write(record, copiedBytes, record.length - copiedBytes);
      return output.toByteArray();
    }
  }
}
