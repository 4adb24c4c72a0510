// Package draft writes first drafts of task files from data, and holds task files against data.
//
// In: a data file, and if there is one the model that is fed from it. Out: a task file with comments that say what was guessed (Infer, Fill),
// or a list of what does not fit (Check). It speaks to models through a small interface that it declares.
//
// Invariant: nothing is guessed in silence. Whatever is not read off the data is said in the file itself and in the notes, and a file that is
// handed out has been parsed by package task and means what was intended.
package draft
