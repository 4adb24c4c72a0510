package main

import (
	"errors"
	"fmt"
	"strings"

	"cfq/eval"
	"cfq/internal/cli"
)

// stressHelp lists the conditions of --stress.
func stressHelp() string {
	var b strings.Builder
	b.WriteString("Conditions (--stress):\n")
	for _, f := range eval.StressForms() {
		paragraph(&b, fmt.Sprintf("  %-24s ", f.Form), strings.Repeat(" ", 27), f.Doc)
	}
	return b.String()
}

// plain takes the name of the package off an error about a flag's value, which the flag names better.
func plain(err error) error {
	if s, ok := strings.CutPrefix(err.Error(), "eval: "); ok {
		return errors.New(s)
	}
	return err
}

// parseStress reads the values of --stress.
func parseStress(specs []string) ([]eval.Stress, error) {
	var list []eval.Stress
	for _, spec := range specs {
		s, err := eval.ParseStress(spec)
		if err != nil {
			return nil, cli.Usagef("`cfq help eval` lists the conditions", "--stress %w", plain(err))
		}
		list = append(list, s)
	}
	return list, nil
}
