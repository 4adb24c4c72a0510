// Package task describes the decision that people face: how the columns of a data file become the model's inputs, which outcome is the
// favourable one, what people can change and at what cost.
//
// In goes a task file (YAML or JSON, see Parse) and a data file (delimited text, see Read). Out come a Task whose every reference is
// resolved, and People, the rows as the model sees them.
//
// Invariant: nothing is dropped in silence. Every mistake of a task file is reported with its place, and every row of a data file is
// encoded, or counted as failed with its line and reason, as filtered or as excluded.
//
// The task file states what the paper calls the action set A(x), the cost c(delta) and the sparsity budget k (appendix "Recourse
// Optimization and Constraints", eq. app:eq:A_template and app:eq:weight_std); package recourse computes with them.
package task
