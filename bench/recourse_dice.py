"""Recourse of DiCE, method random or genetic, with its own settings: one counterfactual for each person.

Told: which features may change; for each person the range of each number, directions included, and the values that
they may switch to. Not told: steps, how many features may change, the cost.
"""

import numpy as np
import pandas as pd

import people


class Model:
    """The ONNX model, on frames of raw values."""

    def __init__(self, p):
        self.people = p

    def predict_proba(self, frame):
        return self.people.probabilities(inputs(self.people, frame))

    def predict(self, frame):
        return self.predict_proba(frame).argmax(1)


def inputs(p, frame):
    x = np.zeros((len(frame), p.x.shape[1]), np.float32)
    for f in p.features:
        if f.numeric:
            x[:, f.at.start] = p.encode(f, frame[f.name].to_numpy(float))
        elif f.kind == "binary":
            x[:, f.at.start] = frame[f.name].to_numpy() == f.values[1]
        else:
            x[:, f.at] = frame[f.name].to_numpy(str)[:, None] == np.array(f.values)[None]
    return x


def frame(p, x):
    columns = {}
    for f in p.features:
        columns[f.name] = [p.raw(f, row) if f.numeric else p.value(f, row) for row in x]
        if f.numeric and all(float(v).is_integer() for v in columns[f.name]):
            columns[f.name] = [int(v) for v in columns[f.name]]
    return pd.DataFrame(columns)


def answer(p, method):
    import dice_ml
    from raiutils.exceptions import UserConfigValidationException
    known = frame(p, np.concatenate([p.train, p.x]))  # values that the data lack are none to DiCE
    values = {name: set(known[name]) for name in known}
    known["outcome"] = p.approved(np.concatenate([p.train, p.x])).astype(int)
    data = dice_ml.Data(dataframe=known, outcome_name="outcome",
                        continuous_features=[f.name for f in p.features if f.numeric])
    tool = dice_ml.Dice(data, dice_ml.Model(model=Model(p), backend="sklearn"), method=method)
    free = [f.name for f in p.features if f.free]
    options = {"random_seed": 1} if method == "random" else {}
    np.random.seed(1)
    points, queries = [], frame(p, p.x)
    for i, x in enumerate(p.x):
        allowed = {f.name: list(p.bounds(f, x)) if f.numeric else [v for v in p.allowed(f, x) if v in values[f.name]]
                   for f in p.features if f.free}
        try:
            found = tool.generate_counterfactuals(queries[i:i + 1], total_CFs=1, desired_class=1, features_to_vary=free,
                                                  permitted_range=allowed, **options)
        except (UserConfigValidationException, ValueError):  # none found, or too few to breed
            points.append(None)
            continue
        best = found.cf_examples_list[0].final_cfs_df
        points.append(None if best is None or not len(best) else inputs(p, best)[0])
    return points


people.main(answer)
