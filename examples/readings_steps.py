"""The Python step of readings.yaml."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f


def with_fahrenheit(readings: DataFrame) -> DataFrame:
    """Add degrees Fahrenheit and the day."""
    return readings.withColumns(
        {"fahrenheit": f.col("celsius") * 1.8 + 32, "day": f.col("at").cast("date")}
    )
