package io.assignorbridge.records;

import org.apache.avro.Schema;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Checks Avro records before {@code from_avro} reads them. Avro allocates memory by the length or
 * item count in a record before it reads the bytes, so a record of eight bytes can request
 * gigabytes and crash the JVM. Avro's own limits are JVM properties, the same for all records. This
 * check needs no limit: a record is bad if it declares more bytes or items than it has bytes. Text
 * that is not UTF-8, which Avro would replace, and nesting beyond 500 levels are also bad.
 */
public final class AvroRecords implements UDF1<byte[], byte[]> {
  private static final long serialVersionUID = 1L;

  /** Maximum nesting depth, because Avro's reader recurses once per level of a recursive schema. */
  private static final int MAX_DEPTH = 500;

  private static final int MAX_NUMBER_BYTES = 10;

  private final String schemaText;
  private transient Schema schema;

  private AvroRecords(String schemaText) {
    this.schemaText = schemaText;
  }

  /**
   * Returns a column with the record, or null if {@code from_avro} must not read it.
   *
   * @param schema the record's writer schema as JSON
   */
  public static Column check(Column record, String schema) {
    return functions.udf(new AvroRecords(schema), DataTypes.BinaryType).apply(record);
  }

  @Override
  public byte[] call(byte[] record) {
    if (record == null) {
      return null;
    }
    if (schema == null) { // with the parser settings of Spark
      schema = new Schema.Parser().setValidateDefaults(false).parse(schemaText);
    }
    try {
      new Scanner(record).skip(schema, 0);
      return record;
    } catch (BadRecordException e) {
      return null;
    }
  }

  private static final class BadRecordException extends RuntimeException {
    BadRecordException() {
      super(null, null, false, false);
    }
  }

  /** Skips over the values of a record, and checks their sizes, nesting, and text. */
  private static final class Scanner {
    private final byte[] record;
    private int position;
    private long itemCount; // in arrays and maps; an item can have no bytes, as in an array of nulls

    Scanner(byte[] record) {
      this.record = record;
    }

    void skip(Schema schema, int depth) {
      require(depth <= MAX_DEPTH);
      switch (schema.getType()) {
        case NULL -> {}
        case BOOLEAN -> skipBytes(1);
        case INT, LONG, ENUM -> readNumber();
        case FLOAT -> skipBytes(Float.BYTES);
        case DOUBLE -> skipBytes(Double.BYTES);
        case FIXED -> skipBytes(schema.getFixedSize());
        case BYTES -> skipBytes(readNumber());
        case STRING -> skipText();
        case UNION -> {
          long branch = readNumber();
          require(branch >= 0 && branch < schema.getTypes().size());
          skip(schema.getTypes().get((int) branch), depth + 1);
        }
        case RECORD -> {
          for (Schema.Field field : schema.getFields()) {
            skip(field.schema(), depth + 1);
          }
        }
        case ARRAY -> skipBlocks(false, schema.getElementType(), depth);
        case MAP -> skipBlocks(true, schema.getValueType(), depth);
      }
    }

    /** Skips the blocks of an array or a map, up to the empty block that ends it. */
    private void skipBlocks(boolean hasKeys, Schema valueSchema, int depth) {
      for (long count = readNumber(); count != 0; count = readNumber()) {
        if (count < 0) { // the size in bytes follows
          readNumber();
          count = -count;
        }
        require(count > 0 && count <= record.length - itemCount);
        itemCount += count;
        for (; count > 0; count--) {
          if (hasKeys) {
            skipText();
          }
          skip(valueSchema, depth + 1);
        }
      }
    }

    private void skipText() {
      long length = readNumber();
      int start = position;
      skipBytes(length);
      require(UTF8String.fromBytes(record, start, (int) length).isValid());
    }

    private void skipBytes(long length) {
      require(length >= 0 && length <= record.length - position);
      position += (int) length;
    }

    /** Reads a number in Avro's variable-length zig-zag encoding. */
    private long readNumber() {
      long bits = 0;
      for (int n = 0; n < MAX_NUMBER_BYTES; n++) {
        require(position < record.length);
        byte next = record[position++];
        bits |= (next & 0x7FL) << (7 * n);
        if (next >= 0) {
          return (bits >>> 1) ^ -(bits & 1);
        }
      }
      throw new BadRecordException();
    }

    private static void require(boolean isValid) {
      if (!isValid) {
        throw new BadRecordException();
      }
    }
  }
}
