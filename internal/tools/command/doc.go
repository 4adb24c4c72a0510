// Package command tests the command as its users run it: built once, then run by scripts, its reports
// checked against the published schemas and looked at in a browser.
//
// In: this checkout. Out: failed tests. The invariant: nothing of the program is imported; what is tested is
// what is shipped. It is here and not in cmd/cfq because its modules are none of a library user's.
package command
