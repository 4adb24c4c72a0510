"""Train a Keras classifier with an input for each column and export it to ONNX.

The only step of the example that needs Python (keras, tensorflow, tf2onnx).
StringLookup and Normalization do not survive the export: categories are numbered here, and Rescaling standardises the
numbers in the graph.

    python train.py ../../testdata/loans/train.csv model.onnx
"""
import csv
import os
import sys

import keras
import numpy as np
from keras import layers

NUMBERS = ["age", "dependants", "income", "savings", "debt", "amount", "months", "credit_grade", "years_employed",
           "late_payments"]
CATEGORIES = {  # a category is its place in the list; alphabetical order is what `cfq task init` assumes
    "sex": ["female", "male"],
    "employment": ["part-time", "public", "salaried", "self-employed", "unemployed"],
    "housing": ["family", "own", "rent"],
    "guarantor": ["no", "yes"],
}


def read(path):
    """A column of numbers or codes for each input, and whether the loan was approved."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    x = {name: np.array([[float(row[name])] for row in rows], np.float32) for name in NUMBERS}
    x |= {name: np.array([[values.index(row[name])] for row in rows], np.int64) for name, values in CATEGORIES.items()}
    return x, np.array([row["decision"] == "approved" for row in rows], np.float32)


def network(x):
    numbers = [keras.Input((1,), name=name) for name in NUMBERS]
    categories = [keras.Input((1,), name=name, dtype="int64") for name in CATEGORIES]
    encoded = [layers.Rescaling(1 / x[i.name].std(), -x[i.name].mean() / x[i.name].std())(i) for i in numbers]
    encoded += [layers.Flatten()(layers.Embedding(len(CATEGORIES[i.name]), 3)(i)) for i in categories]
    h = layers.Concatenate()(encoded)
    h = layers.Dense(64, activation="relu")(h)
    h = layers.BatchNormalization()(h)
    h = layers.Dropout(0.1)(h)
    h = layers.Dense(32, activation="relu")(h)
    return keras.Model(numbers + categories, layers.Dense(1, activation="sigmoid")(h))


def main(data, out):
    keras.utils.set_random_seed(0)
    x, y = read(data)
    model = network(x)
    model.compile(keras.optimizers.Adam(3e-3), loss="binary_crossentropy")
    model.fit(x, y, batch_size=64, epochs=6, verbose=0)
    scores = model.predict(x, verbose=0)[:, 0]
    right = ((scores > 0.5) == y).mean()
    with open(os.path.join(os.path.dirname(out), "scores.csv"), "w") as file:  # for `cfq task check --scores`
        print("approved", *(f"{p:.6f}" for p in scores[:100]), sep="\n", file=file)
    print(f"{len(y)} rows, {len(NUMBERS)} numbers and {len(CATEGORIES)} categories, {100 * right:.1f} % decided as they "
          "turned out")
    model.export(out, format="onnx", verbose=False)
    print("written to", out)


if __name__ == "__main__":
    main(*sys.argv[1:])
