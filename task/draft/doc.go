// Package draft writes first drafts of task files from data, and holds task files against data.
//
// In: a data file, and if there is one the declared encoding of the model's inputs. Out: a task file with comments (FromData, Fill), or a
// list of what does not fit (Check). It speaks to models through a small interface that it declares.
//
// Invariant: nothing that the data do not tell is guessed in silence. It is a question in the file, which Check refuses until it is answered,
// and a draft that is handed out has been parsed by package task.
package draft
