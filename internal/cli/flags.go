package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agext/levenshtein"
	"github.com/spf13/pflag"
)

// throttle is the shortest time between two drawings of a bar.
const throttle = 100 * time.Millisecond

// Suggest returns the candidate that word most likely meant, or "" when none is
// near enough.
func Suggest(word string, candidates []string) string {
	best, distance := "", max(2, len(word)/3)+1
	for _, c := range candidates {
		d := levenshtein.Distance(strings.ToLower(word), strings.ToLower(c), nil)
		if len(word) > 2 && strings.HasPrefix(c, word) {
			d = min(d, 1)
		}
		if d < distance && d < len(c) {
			best, distance = c, d
		}
	}
	return best
}

// Parse parses args into fs, allowing flags behind arguments, and then gives the
// flags that were not set the values of their environment variables. Errors are
// of usage, with a suggestion where a flag is misspelt; pflag.ErrHelp is
// returned as it is.
func Parse(fs *pflag.FlagSet, args []string, lookup func(string) (string, bool)) error {
	help := fmt.Sprintf("`cfq help %s` lists the flags", fs.Name())
	err := fs.Parse(args)
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var number *strconv.NumError
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return pflag.ErrHelp
	case errors.As(err, &unknown):
		if unknown.GetSpecifiedShortnames() != "" {
			return Usagef(help, "unknown flag -%s", unknown.GetSpecifiedName())
		}
		name := unknown.GetSpecifiedName()
		if s := Suggest(name, flagNames(fs)); s != "" {
			return Usagef(help, "unknown flag --%s; did you mean --%s?", name, s)
		}
		return Usagef(help, "unknown flag --%s", name)
	case errors.As(err, &invalid) && errors.As(err, &number):
		return Usagef(help, `invalid argument %q for "--%s" (%s): %w`, invalid.GetValue(), invalid.GetFlag().Name, invalid.GetFlag().Value.Type(), number.Err)
	case err != nil:
		return Usagef(help, "%w", err)
	}
	return environment(fs, lookup)
}

func flagNames(fs *pflag.FlagSet) []string {
	var names []string
	fs.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// variable returns the environment variable that stands for a flag.
func variable(flag string) string {
	return "CFQ_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// environment sets flags that were not given from the environment. Where the
// library is found is left to package engine, which reports the variable as the
// source; files and consents must be said each time.
func environment(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	except := []string{"ort-lib", "help", "output", "overwrite"}
	var errs []error
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Changed || slices.Contains(except, f.Name) {
			return
		}
		value, ok := lookup(variable(f.Name))
		if !ok || value == "" {
			return
		}
		err := fs.Set(f.Name, value)
		f.Changed = false // which says what the command line has: a variable is there for whichever subcommand it means something to
		if err != nil {
			errs = append(errs, fmt.Errorf("environment variable %s=%q: not a value of --%s (%s)", variable(f.Name), value, f.Name, f.Value.Type()))
		}
	})
	return Wrap(errors.Join(errs...), Unusable, "")
}
