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
 * Checks JSON before {@code from_json} reads it, which ignores what stands behind the first object and
 * changes numbers without a word. Bad is whatever is not one object in UTF-8, and a number that its
 * column cannot hold exactly (DOUBLE and FLOAT round by definition). A value of another kind for a
 * STRING becomes its JSON text, as it was sent: {@code from_json} would make 12.5 of 12.50. (Spark's
 * reader of files keeps the text, too: SPARK-48148.) Other values of a wrong kind are left to Spark.
 */
public final class JsonRecords implements UDF1<byte[], byte[]> {
  private static final long serialVersionUID = 1L;
  private static final long MICROS_PER_SECOND = 1_000_000;

  private final StructType schema;
  private final HashMap<String, String> options;
  private transient JsonFactory factory;
  private transient Shape shape;
  private transient boolean readsPlainDecimals;

  private JsonRecords(StructType schema, Map<String, String> options) {
    this.schema = schema;
    this.options = new HashMap<>(options);
  }

  /**
   * Returns the bytes that {@code from_json} can read without a loss, null for a bad record.
   *
   * @param schema JSON of a StructType
   * @param options those of {@code from_json}
   */
  public static Column check(Column value, String schema, Map<String, String> options) {
    JsonRecords check = new JsonRecords((StructType) DataType.fromJson(schema), options);
    return functions.udf(check, DataTypes.BinaryType).apply(value);
  }

  @Override
  public byte[] call(byte[] value) {
    if (value == null || !UTF8String.fromBytes(value).isValid()) {
      return null;
    }
    prepare();
    try (JsonParser parser = factory.createParser(value)) {
      if (parser.nextToken() != JsonToken.START_OBJECT) {
        return null;
      }
      Texts texts = new Texts(value);
      boolean isWhole = isExact(parser, shape, texts) && parser.nextToken() == null;
      return isWhole ? texts.result() : null;
    } catch (IOException | RuntimeException e) {
      return null; // not JSON, or a number beyond a limit of Jackson's
    }
  }

  private void prepare() {
    if (factory == null) {
      var map = scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(options));
      JSONOptions parsed = new JSONOptions(map, "UTC", "");
      readsPlainDecimals = parsed.locale().equals(Locale.US);
      shape = new Shape(schema);
      factory = parsed.buildJsonFactory();
    }
  }

  /** Reads the current token to its end; returns false for a number that would be changed. */
  private boolean isExact(JsonParser parser, Shape shape, Texts texts) throws IOException {
    JsonToken token = parser.currentToken();
    DataType type = shape.type;
    if (type instanceof StringType) {
      if (token != JsonToken.VALUE_STRING && token != JsonToken.VALUE_NULL) {
        texts.quote(parser);
      }
    } else if (token == JsonToken.START_OBJECT && (shape.fields != null || type instanceof MapType)) {
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        Shape value = shape.fields != null ? shape.fields.get(parser.currentName()) : shape.element;
        parser.nextToken();
        if (value == null) {
          parser.skipChildren();
        } else if (!isExact(parser, value, texts)) {
          return false;
        }
      }
    } else if (token == JsonToken.START_ARRAY && type instanceof ArrayType) {
      while (parser.nextToken() != JsonToken.END_ARRAY) {
        if (!isExact(parser, shape.element, texts)) {
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
      if (type instanceof ByteType) { // Jackson's bytes reach to 255, which Spark takes for -1
        return parser.getIntValue() <= Byte.MAX_VALUE;
      }
      if (type instanceof TimestampType) { // Spark multiplies seconds without a look
        return Math.abs(parser.getLongValue()) <= Long.MAX_VALUE / MICROS_PER_SECOND;
      }
    }
    return true;
  }

  /** A type, and those in it by the names of their fields. */
  private static final class Shape {
    final DataType type;
    final Map<String, Shape> fields;
    final Shape element;

    Shape(DataType type) {
      this.type = type;
      this.fields = type instanceof StructType ? new HashMap<>() : null;
      if (type instanceof StructType struct) {
        for (StructField field : struct.fields()) {
          fields.put(field.name(), new Shape(field.dataType()));
        }
      }
      DataType inner = type instanceof ArrayType array ? array.elementType() : null;
      inner = type instanceof MapType map ? map.valueType() : inner;
      this.element = inner != null ? new Shape(inner) : null;
    }
  }

  /** The record's bytes, in which some values become quoted texts. */
  private static final class Texts {
    private final byte[] value;
    private ByteArrayOutputStream changed;
    private int copied;

    Texts(byte[] value) {
      this.value = value;
    }

    /** Quotes the value that begins with the current token. */
    void quote(JsonParser parser) throws IOException {
      int start = (int) parser.currentTokenLocation().getByteOffset();
      parser.skipChildren();
      int end = (int) parser.currentLocation().getByteOffset();
      if (changed == null) {
        changed = new ByteArrayOutputStream(value.length + 64);
      }
      changed.write(value, copied, start - copied);
      changed.write('"');
      for (int at = start; at < end; at++) {
        byte b = value[at];
        if (b == '"' || b == '\\') {
          changed.write('\\');
          changed.write(b);
        } else if (b >= 0 && b < ' ') {
          String escaped = "\\u" + HexFormat.of().toHexDigits((char) b);
          changed.writeBytes(escaped.getBytes(StandardCharsets.US_ASCII));
        } else {
          changed.write(b);
        }
      }
      changed.write('"');
      copied = end;
    }

    byte[] result() {
      if (changed == null) {
        return value;
      }
      changed.write(value, copied, value.length - copied);
      return changed.toByteArray();
    }
  }
}
