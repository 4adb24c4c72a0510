"""Train a scikit-learn pipeline on raw columns and export it, strings and all, to ONNX.

The only step of the example that needs Python (scikit-learn, skl2onnx, pandas).

    python train.py ../../testdata/loans/train.csv model.onnx
"""
import sys

import pandas as pd
from skl2onnx import to_onnx
from sklearn.compose import ColumnTransformer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler


def main(data, out):
    rows = pd.read_csv(data)
    x, y = rows.drop(columns="decision"), rows["decision"]
    numbers = x.select_dtypes("number").columns.tolist()
    strings = [name for name in x.columns if name not in numbers]
    pipeline = Pipeline([
        ("columns", ColumnTransformer([
            ("numbers", StandardScaler(), numbers),
            ("strings", OneHotEncoder(handle_unknown="ignore"), strings),
        ])),
        ("network", MLPClassifier((64, 32), alpha=1e-2, max_iter=12, random_state=0)),
    ])
    pipeline.fit(x, y)
    print(f"{len(x)} rows, {x.shape[1]} columns, {100 * pipeline.score(x, y):.1f} % decided as they turned out")
    # One row of the table declares the model's inputs: one per column, with its name and type.
    model = to_onnx(pipeline, x[:1])
    with open(out, "wb") as file:
        file.write(model.SerializeToString())
    print("written to", out)


if __name__ == "__main__":
    main(*sys.argv[1:])
