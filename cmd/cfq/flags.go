package main

import (
	_ "embed" // the flags
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"cfq/internal/cli"
)

//go:embed flags.txt
var flagTable string

// variables are what flags set, by name: pointers, values of a flag, or functions of the text that is given. They may
// be more than a subcommand has flags.
type variables map[string]any

func (v variables) with(others variables) variables {
	maps.Copy(v, others)
	return v
}

// repeated is a list to which each use of a flag adds one text. Other lists are separated by commas.
type repeated struct{ list *[]string }

// flagRow is a flag as flags.txt has it.
type flagRow struct {
	heading               string
	name, short           string
	bare                  string // the value of the flag alone
	value, interval, help string
}

// flagRows are the flags of a subcommand, in the order of its help.
func flagRows(command string) (rows []flagRow) {
	shared := map[string]flagRow{}
	section, heading := "", ""
	for line := range strings.Lines(flagTable) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if title, ok := strings.CutPrefix(cells[0], "# "); ok {
			section, heading, _ = strings.Cut(title, ": ")
			continue
		}
		row := shared[cells[0]]
		if len(cells) > 1 {
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			row = flagRow{name: cells[0], value: cells[1], interval: cells[2], help: cells[3]}
			row.name, row.short, _ = strings.Cut(row.name, " -")
			row.name, row.bare, _ = strings.Cut(row.name, "=")
		}
		row.heading = heading
		switch {
		case row.name == "":
		case section == "shared":
			shared[row.name] = row
		case section == command:
			rows = append(rows, row)
		}
	}
	return rows
}

// addFlags adds the flags of a subcommand that set the variables.
func addFlags(fs *pflag.FlagSet, command string, v variables) {
	for _, row := range flagRows(command) {
		row.add(fs, v[row.name])
		f := fs.Lookup(row.name)
		f.Annotations = map[string][]string{headingKey: {row.heading}}
		f.NoOptDefVal += row.bare // "true" for a switch
		if row.value != "" {
			if err := f.Value.Set(row.value); err != nil {
				panic(fmt.Errorf("flag --%s of %s: %w", row.name, command, err))
			}
			f.DefValue = f.Value.String()
		}
		if row.interval != "" {
			row.limit(fs, v[row.name])
		}
	}
}

func (r *flagRow) add(fs *pflag.FlagSet, variable any) {
	switch at := variable.(type) {
	case *string:
		fs.StringVarP(at, r.name, r.short, *at, r.help)
	case *bool:
		fs.BoolVarP(at, r.name, r.short, *at, r.help)
	case *int:
		fs.IntVarP(at, r.name, r.short, *at, r.help)
	case *uint64:
		fs.Uint64VarP(at, r.name, r.short, *at, r.help)
	case *float64:
		fs.Float64VarP(at, r.name, r.short, *at, r.help)
	case *[]string:
		fs.StringSliceVarP(at, r.name, r.short, *at, r.help)
	case repeated:
		fs.StringArrayVarP(at.list, r.name, r.short, *at.list, r.help)
	case *[]float64:
		fs.FuncP(r.name, r.short, r.help, func(text string) error { return parseNumbers(at, text) })
	case func(string) error:
		fs.FuncP(r.name, r.short, r.help, at)
	case pflag.Value:
		fs.VarP(at, r.name, r.short, r.help)
	default:
		panic(fmt.Sprintf("flag --%s sets a %T", r.name, variable))
	}
}

// limit has a flag refuse numbers outside of its interval: "[0, 1) a share below 1".
func (r *flagRow) limit(fs *pflag.FlagSet, variable any) {
	var begin, end rune
	var lo, hi float64
	if _, err := fmt.Sscanf(r.interval, "%c%g, %g%c", &begin, &lo, &hi, &end); err != nil {
		panic(fmt.Errorf("flag --%s: interval %s: %w", r.name, r.interval, err))
	}
	outside := func(x float64) bool {
		return !(lo <= x && x <= hi) || begin == '(' && x == lo || end == ')' && x == hi
	}
	want := r.interval[strings.IndexRune(r.interval, end)+len("] "):]
	cli.Require(fs, r.name, want, func() bool { return !slices.ContainsFunc(numbersAt(variable), outside) })
}

func numbersAt(variable any) []float64 {
	switch at := variable.(type) {
	case *int:
		return []float64{float64(*at)}
	case *uint64:
		return []float64{float64(*at)}
	case *float64:
		return []float64{*at}
	case *[]float64:
		return *at
	}
	panic(fmt.Sprintf("a flag with an interval sets a %T", variable))
}

// parseNumbers reads a list of numbers that are separated by commas.
func parseNumbers(at *[]float64, text string) error {
	*at = nil
	for word := range strings.SplitSeq(text, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(word), 64)
		if err != nil || !(v >= 0) || math.IsInf(v, 1) {
			return fmt.Errorf("%q is not a number of 0 or more", word)
		}
		*at = append(*at, v)
	}
	return nil
}
