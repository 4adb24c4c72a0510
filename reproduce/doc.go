// Package reproduce measures the tables of the paper on public data and compares with the paper's numbers.
//
// In: a folder with data sets as they are published. Out: results.csv, with a mean and a standard deviation over
// networks of several seeds for each measured value, and one page that shows them and the paper's claims. The
// invariant: every number comes from a report of cfq eval or cfq recourse. The command that made a file is recorded
// next to it, and a file is made again only when what it was made from has changed.
package reproduce
