package cli

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"cfq/internal/message"
)

// Suggest returns the candidate that word most likely meant, or "" when none is
// near enough. Three letters are enough to abbreviate one.
func Suggest(word string, candidates []string) string {
	for _, c := range candidates {
		if len(word) > 2 && strings.HasPrefix(c, word) {
			return c
		}
	}
	return message.Nearest(word, candidates)
}

// Parse parses args into fs, allowing flags behind arguments, and then gives the flags that were not set the values of
// their environment variables. Errors are of usage, with a suggestion where a flag is misspelt; pflag.ErrHelp is
// returned as it is.
func Parse(fs *pflag.FlagSet, args []string, lookup func(string) (string, bool)) error {
	err := fs.Parse(args)
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return pflag.ErrHelp
	case errors.As(err, &unknown):
		if unknown.GetSpecifiedShortnames() != "" {
			return Usagef(hintFlags, "unknown flag -%s", unknown.GetSpecifiedName())
		}
		name := unknown.GetSpecifiedName()
		var names []string
		fs.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if s := cmp.Or(synonym(fs, name), Suggest(name, names)); s != "" {
			return Usagef(hintFlags, "unknown flag --%s; did you mean --%s?", name, s)
		}
		return Usagef(hintFlags, "unknown flag --%s", name)
	case errors.As(err, &invalid):
		return Usagef(HintValue, "invalid value %q for --%s: %w", invalid.GetValue(), invalid.GetFlag().Name,
			notValue(invalid.GetFlag(), err))
	case err != nil:
		return Usagef(HintValue, "%w", err)
	}
	return environment(fs, lookup)
}

// synonym returns the flag of fs that other tools call by the name, "" when there is none.
func synonym(fs *pflag.FlagSet, name string) string {
	ours := map[string]string{
		"bits": "budget", "bit-width": "budget", "wbits": "budget", "calibration-data": "data", "csv": "data",
		"dataset": "data", "input": "data", "config": "task", "force": "overwrite", "threshold": "max-vd",
	}[name]
	if fs.Lookup(ours) == nil {
		return ""
	}
	return ours
}

// Choice is the value of a flag that is one of the choices.
func Choice[S ~string](at *S, choices []string) pflag.Value { return &choice[S]{at, choices} }

type choice[S ~string] struct {
	at      *S
	choices []string
}

// Choices returns the values of a flag that [Choice] made, nil for any other.
func Choices(f *pflag.Flag) []string {
	if c, ok := f.Value.(interface{ list() []string }); ok {
		return c.list()
	}
	return nil
}

func (c *choice[S]) list() []string { return c.choices }
func (c *choice[S]) String() string { return string(*c.at) }
func (c *choice[S]) Type() string   { return "string" }

func (c *choice[S]) Set(value string) error {
	*c.at = S(value)
	if slices.Contains(c.choices, value) {
		return nil
	}
	if s := Suggest(value, c.choices); s != "" {
		return fmt.Errorf("want %s; did you mean %s?", message.Or(c.choices), s)
	}
	return fmt.Errorf("want %s", message.Or(c.choices))
}

// Require limits the values of a flag to those for which ok, which looks at the variable behind it; want names them.
func Require(fs *pflag.FlagSet, name, want string, ok func() bool) {
	f := fs.Lookup(name)
	f.Value = &checkedValue{f.Value, want, ok}
	if f.DefValue == "[]" {
		f.DefValue = "" // or the help shows it as a default
	}
}

type checkedValue struct {
	pflag.Value
	want string
	ok   func() bool
}

func (l *checkedValue) Set(value string) error {
	if err := l.Value.Set(value); err != nil {
		return err
	}
	if !l.ok() {
		return errors.New("want " + l.want)
	}
	return nil
}

func variable(flag string) string {
	return "CFQ_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func notValue(f *pflag.Flag, err error) error {
	var number *strconv.NumError
	var invalid *pflag.InvalidValueError
	switch {
	case !errors.As(err, &number):
		if errors.As(err, &invalid) {
			err = invalid.Unwrap()
		}
		return err
	case errors.Is(err, strconv.ErrRange):
		return errors.New("number out of range")
	}
	switch f.Value.Type() {
	case "bool":
		return errors.New("want true or false")
	case "int":
		return errors.New("want a whole number")
	case "uint64":
		return errors.New("want a whole number, 0 or more")
	}
	return errors.New("want a number")
}

// fromEnvironment is the annotation of a flag with the value that its variable gave it.
const fromEnvironment = "environment"

// Blame adds to an error of usage the variables that it is about: those that gave a value to
// a flag that the error names, or a name to a file or choice that it names.
func Blame(fs *pflag.FlagSet, err error) error {
	if Code(err) != Unusable {
		return err
	}
	var from []string
	fs.VisitAll(func(f *pflag.Flag) {
		for _, value := range f.Annotations[fromEnvironment] {
			if hasWord(err.Error(), "--"+f.Name) || f.Value.Type() == "string" && hasWord(err.Error(), value) {
				from = append(from, variable(f.Name)+"="+value)
			}
		}
	})
	if from == nil {
		return err
	}
	return WithCode(fmt.Errorf("%w (from the environment: %s)", err, strings.Join(from, ", ")), Unusable)
}

func hasWord(text, word string) bool {
	return regexp.MustCompile(`(^|[^\w-])` + regexp.QuoteMeta(word) + `([^\w-]|$)`).MatchString(text)
}

// environment sets flags that were not given from the environment. Where the library is found is left to package
// onnxio/ort, which reports the variable as the source; files and consents must be said each time.
func environment(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	except := []string{"ort-lib", "help", "help-all", "output", "overwrite", "one-sided", "again"}
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
		// which says what the command line has: a variable is there for whichever subcommand it means something to
		f.Changed = false
		if err == nil {
			err = fs.SetAnnotation(f.Name, fromEnvironment, []string{value})
		} else {
			err = fmt.Errorf("invalid value %q of environment variable %s: %w", value, variable(f.Name), notValue(f, err))
		}
		errs = append(errs, err)
	})
	return Wrap(errors.Join(errs...), HintValue)
}

// Environment returns the variables that gave a flag its value, by name.
func Environment(fs *pflag.FlagSet) map[string]string {
	from := map[string]string{}
	fs.VisitAll(func(f *pflag.Flag) {
		for _, value := range f.Annotations[fromEnvironment] {
			from[variable(f.Name)] = value
		}
	})
	return from
}

// Outranked says that a file decides in place of the variable that set a flag, which Environment then leaves out. It
// returns the variable as CFQ_FLAG=VALUE, "" when none did.
func Outranked(fs *pflag.FlagSet, name string) (ignored string) {
	f := fs.Lookup(name)
	for _, value := range f.Annotations[fromEnvironment] {
		ignored = variable(name) + "=" + value
	}
	delete(f.Annotations, fromEnvironment)
	return ignored
}

// Given says whether a flag has its value from the command line or the environment, and not by default.
func Given(fs *pflag.FlagSet, name string) bool {
	f := fs.Lookup(name)
	return f.Changed || len(f.Annotations[fromEnvironment]) > 0
}
