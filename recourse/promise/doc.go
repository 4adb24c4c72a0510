// Package promise keeps what people were promised in files: the action that each was told to take, in raw units.
//
// In: the actions of a solver, or a CSV file of this program or of another library (see Read). Out: such a file (see Writer), and promises
// matched to people and held against a task and a model (see Judge).
//
// The invariant: nothing is taken on trust and nothing is dropped in silence. A raw value that is written encodes to the very input that was
// judged; every row that is read is a promise, a person without one, or counted with its line and reason.
package promise
