"""Log an evaluation of cfq to MLflow: python mlflow_log.py cfq-report

The folder is what gate.sh writes: the values that the gate judged, but for those of groups, gaps and increases, go to
the run's metrics, such as vd_at_0.1, every report to its artifacts.
"""

import json
import pathlib
import sys

import mlflow

folder = pathlib.Path(sys.argv[1])
findings = json.loads((folder / "gate.json").read_text())["gate"]["findings"]
values = {
    f["metric"] + (f"_at_{f['margin']:g}" if "margin" in f else ""): f["value"]
    for f in findings
    if "group" not in f and f["value"] is not None and not f["limit"].startswith(("gap", "increase"))
}
with mlflow.start_run():
    mlflow.log_metrics(values)
    mlflow.log_artifacts(str(folder), "cfq")
