"""Run a job with spark-submit: `spark-submit FLAGS examples/submit.py JOB.yaml [OPTIONS]`.

The flags are those of `assignor jars JOB.yaml`; the options are those of `assignor run`.
"""

import sys

from streaming.cli.entry import main

main(["run", *sys.argv[1:]])
