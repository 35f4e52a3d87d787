"""The tests' own look at Spark's stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import SparkRuntimeException

from tests.support.spark_tools import get_last_stage, list_tasks_since

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.integration


def test_the_last_stage_may_have_failed(spark: SparkSession) -> None:
    """A test that came after one whose query failed took the failed stage for its own first."""
    with pytest.raises(SparkRuntimeException):
        spark.range(10).selectExpr("raise_error('on purpose')").write.format("noop").mode(
            "append"
        ).save()
    before = get_last_stage(spark)

    spark.range(10).write.format("noop").mode("append").save()

    assert {run.stage for run in list_tasks_since(spark, before)} == {before + 1}
