// Package recourse finds what people can change so that a model decides in
// their favour.
//
// In: people as model inputs (float32, rows x dim), the actions that a task
// file allows them, and a model behind the small interface Model. Out: actions
// delta in model-input units, with their cost and margin.
//
// The invariant: every action that leaves this package is feasible. ActionSet.Check accepts it,
// ActionSet.Project returns it unchanged, and the margin reported with it is the model's at the very
// point that it is reported with. For Solve that point is the one that reading the promise makes, "hours-per-week
// 40 -> 45": new values are rounded to what is written before they are judged.
//
// An action set is a list of features, each with its own constraints (a feature is one unit of sparsity, whatever the number of its inputs), and
// of what ties them: links, by which a change drags others along free of cost, rules that must hold between the new values, and
// limits on how many of some features change. The solvers search over the features and let the rest follow: linked changes are
// computed, a broken rule is mended by the cheapest further change, and a point that breaks one all the same never counts as valid.
//
// The solvers share one action set:
//
//   - Teacher: K projected gradient steps for everyone at once; the actions that
//     calibration and training use.
//   - FirstValid: the first valid iterate of a long projected gradient run; it
//     stops past the boundary and is kept for comparison with the literature.
//   - Solve: minimal-cost actions for evaluation, with the discrete choices
//     searched as such.
//   - Exact: the least cost for certain, for the models and action sets for which
//     there is a method; what Solve is measured by.
//
// Each of them takes any Model; Worst makes one of several that accepts what all of them accept. What holds for single people (Override) is found
// by their positions among the people that a solver is given (Select).
//
// Projected gradient descent as the paper writes it returns a one-hot group to
// the same vertex after every step, so it hardly ever changes one. The solvers
// therefore keep a relaxed iterate, whose groups move freely, beside its
// projection, which is the action; TeacherOptions.Plain is the rule as written.
//
// References: the paper's section "Recourse Optimization and Constraints":
// recourse problem (app:eq:recourse_general), cost (app:eq:weighted_cost), action
// set (app:eq:A_template), projected gradient steps (app:eq:pgd_steps), projection
// (app:eq:proj_comp with proj_imm, proj_box, proj_cat_ordinal, proj_cat_onehot,
// proj_sparse; Algorithm alg:projection_action_set), weights (app:eq:weight_std).
package recourse
