package io.assignorbridge.records;

import java.math.BigDecimal;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DecimalType;

/**
 * Parses decimals without losing a digit. Spark's readers round numbers with too many digits after
 * the point, drop the commas of {@code 1,234.50}, and expand exponents, which can take minutes.
 */
public final class ExactDecimals implements UDF1<String, BigDecimal> {
  private static final long serialVersionUID = 1L;

  /** Limit for the text, which Java's parser reads in quadratic time, and for the exponent. */
  private static final int MAX_CHARACTERS = 1000;

  private final int precision;
  private final int scale;

  private ExactDecimals(int precision, int scale) {
    this.precision = precision;
    this.scale = scale;
  }

  /** Returns the text as a decimal column; null if the type cannot hold the number exactly. */
  public static Column parse(Column text, int precision, int scale) {
    DecimalType type = new DecimalType(precision, scale);
    return functions.udf(new ExactDecimals(precision, scale), type).apply(text);
  }

  @Override
  public BigDecimal call(String text) {
    if (text == null || text.length() > MAX_CHARACTERS) {
      return null;
    }
    char[] characters = text.toCharArray();
    return fits(characters, 0, characters.length, precision, scale) ? new BigDecimal(text) : null;
  }

  /** Returns whether the characters are a number that the type can hold exactly. */
  static boolean fits(char[] text, int offset, int length, int precision, int scale) {
    if (length > MAX_CHARACTERS) {
      return false;
    }
    try {
      BigDecimal number = new BigDecimal(text, offset, length);
      // Check the exponent first, as it was written, because even a zero can have a huge one.
      if (Math.abs((long) number.scale()) > MAX_CHARACTERS) {
        return false;
      }
      BigDecimal shortestNumber = number.stripTrailingZeros();
      boolean isZero = shortestNumber.signum() == 0; // Java counts one digit of 0
      int integerDigits = isZero ? 0 : shortestNumber.precision() - shortestNumber.scale();
      return shortestNumber.scale() <= scale && integerDigits <= precision - scale;
    } catch (NumberFormatException e) {
      return false;
    }
  }
}
