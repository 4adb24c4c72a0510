"""Log an evaluation of cfq to MLflow: python mlflow_log.py cfq-report

The folder is what gate.sh writes: metrics.json goes to the run's metrics, every report to its artifacts.
"""

import json
import pathlib
import sys

import mlflow

folder = pathlib.Path(sys.argv[1])
with mlflow.start_run():
    mlflow.log_metrics(json.loads((folder / "metrics.json").read_text()))
    mlflow.log_artifacts(str(folder), "cfq")
