"""Recourse of reachml: the cheapest point that the model approves of all that a person can reach, enumerated by SCIP.

Told: which features may change, bounds, directions, whole numbers, one-hot groups, transitions where a value can only
be left or only be reached. Not told: how many features may change. Only discrete features with few values can be
enumerated.
"""

import numpy as np
import pandas as pd

import people


def answer(p):
    import reachml
    from reachml.constraints import OneHotEncoding
    from reachml.reachable_set import EnumeratedReachableSet
    names, scale, shift = p.columns()
    everyone = np.round(np.concatenate([p.train, p.x]) * scale + shift)
    actions = reachml.ActionSet(pd.DataFrame(everyone, columns=names))
    for f in p.features:
        here = names[f.at]
        for name in here:
            actions[name].actionable = f.free
        if not f.free:
            continue
        if f.numeric:
            actions[f.name].lb, actions[f.name].ub = f.spec["bounds"]
            actions[f.name].step_direction = {"increase": 1, "decrease": -1}.get(f.spec["direction"], 0)
        elif f.kind == "onehot":
            actions.constraints.add(OneHotEncoding(names=here))
            after = f.spec.get("transitions")
            for name, value in zip(here, f.values) if after is not None else []:
                reached, left = any(value in to for to in after.values()), bool(after.get(value))
                actions[name].step_direction = int(reached) - int(left)
    points, sets = [], {}
    for x in np.round(p.x * scale + shift):
        if tuple(x) not in sets:  # people who are alike reach the same
            reach = EnumeratedReachableSet(actions, x=x)
            reach.generate()
            sets[tuple(x)] = reach.X
        inputs = ((sets[tuple(x)] - shift) / scale).astype(np.float32)
        own = ((x - shift) / scale).astype(np.float32)
        cost = np.abs(inputs - own).sum(1)
        cost[~p.approved(inputs)] = np.inf
        points.append(inputs[cost.argmin()] if np.isfinite(cost).any() else None)
    return points


people.main(answer)
