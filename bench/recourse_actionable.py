"""Recourse of actionable-recourse on a linear model: the first action of its flipset, found by CBC.

Told: which numbers may change, their bounds, directions and steps (its own grid of 100 where a number has more values),
and how many features may change. It cannot be told that a one-hot group has one 1: such features stay as they are.
"""

import numpy as np
import pandas as pd

import people


def answer(p):
    import recourse
    (w, b), = people.layers(p.model)
    coefficients, intercept = (w[:, 1] - w[:, 0]).astype(float), float(b[1] - b[0])
    names, scale, shift = p.columns()
    raw = lambda x: np.round(x * scale + shift, 4)  # noqa: E731
    actions = recourse.ActionSet(pd.DataFrame(raw(np.concatenate([p.train, p.x])), columns=names))
    for f in p.features:
        if f.kind == "onehot" or not f.free:
            for name in names[f.at]:
                actions[name].actionable = False
            continue
        e = actions[f.name]
        if f.numeric:
            low, high = f.spec["bounds"]
            e.bounds = (low, high)
            e.step_direction = {"increase": 1, "decrease": -1}.get(f.spec["direction"], 0)
            if high - low <= 100:
                e.step_type, e.step_size = "absolute", f.spec["step"]
    coefficients /= scale
    intercept -= float(coefficients @ shift)
    actions.set_alignment(coefficients=coefficients, intercept=intercept)
    points = []
    for x in raw(p.x):
        builder = recourse.RecourseBuilder(action_set=actions, x=x, coefficients=coefficients, intercept=intercept,
                                           solver="python-mip", mip_cost_type="local")
        if "max_features" in p.task.get("sparsity", {}):
            builder.max_items = min(p.task["sparsity"]["max_features"], builder.n_actionable)
        found = builder.fit()
        point = (x + found["actions"] - shift) / scale if found["feasible"] else None
        points.append(point)
    return points


people.main(answer)
