package main

import (
	"github.com/spf13/pflag"

	"cfq/internal/cli"
)

// rowCount is the flag that says how many rows are calibrated on.
type rowCount int

func (n *rowCount) add(fs *pflag.FlagSet) {
	fs.IntVar((*int)(n), "calibration-rows", 4096, "of more `rows` so many are calibrated on, and more of the refused where few are; 0 takes all")
}

func (n rowCount) check() error {
	if n < 0 {
		return cli.Usagef("0 takes all", "--calibration-rows %d: a number of rows is 0 or more", n)
	}
	return nil
}

// option returns the number as Options.Rows wants it.
func (n rowCount) option() int {
	if n == 0 {
		return -1 // all of them
	}
	return int(n)
}
