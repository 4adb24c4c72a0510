"""Recourse of ReLax (jax-relax): wachter is its VanillaCF, spheres its GrowingSphere, with their own settings.

Both run on the network's weights in JAX, which agree with ONNX Runtime. Told: which features may change; the range of
each number, directions included; in the last step, that one input of a one-hot group is 1. Not told: steps, transitions
between values, how many features may change, the cost.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import people


def network(p):
    """The model's probabilities in JAX."""
    layers = [(jnp.asarray(w), jnp.asarray(b)) for w, b in people.layers(p.model)]

    def probabilities(x):
        for i, (w, b) in enumerate(layers):
            x = x @ w + b
            if i < len(layers) - 1:
                x = jnp.maximum(x, 0)
        return jax.nn.softmax(x)

    np.testing.assert_allclose(probabilities(p.x), p.probabilities(p.x), atol=1e-4)
    return probabilities


def constraints(p):
    """What ReLax is told of the task: a function of a person and a candidate."""
    d = p.x.shape[1]
    low, high, fixed = np.full(d, -np.inf), np.full(d, np.inf), np.ones(d, bool)
    up, down, groups = np.zeros(d, bool), np.zeros(d, bool), []
    for f in p.features:
        if not f.free:
            continue
        fixed[f.at] = False
        if f.numeric:
            low[f.at], high[f.at] = (p.encode(f, b) for b in f.spec["bounds"])
            up[f.at], down[f.at] = f.spec["direction"] == "increase", f.spec["direction"] == "decrease"
        else:
            low[f.at], high[f.at] = 0, 1
            groups += [f.at] if f.kind == "onehot" else []
    low, high, fixed, up, down = (jnp.asarray(v) for v in (low, high, fixed, up, down))

    def apply(x, candidate, hard=False, **_):
        least = jnp.where(up, x, jnp.minimum(low, x))
        most = jnp.where(down, x, jnp.maximum(high, x))
        candidate = jnp.where(fixed, x, jnp.clip(candidate, least, most))
        for at in groups if hard else []:
            largest = jax.nn.one_hot(candidate[:, at].argmax(1), at.stop - at.start)
            candidate = candidate.at[:, at].set(largest)
        return candidate

    return apply


def answer(p, method):
    from relax.methods import GrowingSphere, VanillaCF
    if method == "wachter":
        tool = VanillaCF()
    else:
        from relax.methods.sphere import cat_perturb_fn, perturb_function_with_features
        widths = [f.at.stop - f.at.start for f in p.features]
        numeric = np.repeat([f.numeric for f in p.features], widths).astype(float)
        fixed = np.repeat([not f.free for f in p.features], widths)
        tool = GrowingSphere(perturb_fn=partial(
            perturb_function_with_features, cont_masks=jnp.asarray(numeric), immut_masks=jnp.asarray(fixed),
            num_categories=tuple(widths), cat_perturb_fn=cat_perturb_fn("ohe")))
    tool.set_apply_constraints_fn(constraints(p))
    tool.before_generate_cf()
    model, points = network(p), []
    wanted = jnp.array([[0.0, 1.0]])
    for i, x in enumerate(p.x):
        point = tool.generate_cf(jnp.asarray(x), pred_fn=model, y_target=wanted, rng_key=jax.random.PRNGKey(i))
        point = np.asarray(point).reshape(-1)
        points.append(None if np.allclose(point, x) else point)
    return points


people.main(answer)
