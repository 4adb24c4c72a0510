// Package arch holds the tests of the project's architecture and nothing else.
//
// In: the source tree. Out: a failed test for a package that imports what it must not, for a folder that outgrows the
// others, or for a text that names one developer's machine. The invariant: data flows one way; the table in
// arch_test.go is the only place that says which.
package arch
