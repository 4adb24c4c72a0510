// Package reproduce measures the tables of the paper on public data and sets the paper's numbers beside.
//
// In: a folder with data sets as they are published. Out: for each table a page, with means and standard deviations
// over networks of several seeds, and at its beginning which of the paper's claims hold there. The invariant: every
// number comes from a report of cfq eval on a file that cfq quantize wrote, by command lines that the page shows;
// a file that is there is made anew only when what it was made from is not the same any more.
package reproduce
