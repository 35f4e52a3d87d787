"""The Python step of readings.yaml."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f


def with_fahrenheit(readings: DataFrame) -> DataFrame:
    """Add the temperature in degrees Fahrenheit and the day of each reading."""
    return readings.withColumns(
        {"fahrenheit": f.col("celsius") * 1.8 + 32, "day": f.col("at").cast("date")}
    )
