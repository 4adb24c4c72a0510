package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"cfq/eval/report"
	"cfq/internal/cli"
)

// output is a report on a D to be written to a file, or to stdout when path is "".
type output[D any] struct {
	kind  string
	path  string
	write func(io.Writer, *D) error
}

// outputs are the reports that a subcommand writes.
type outputs[D any] []output[D]

// reportHelp is the help of --report for the views.
func reportHelp[D any](views []report.View[D]) string {
	return fmt.Sprintf("write a `report`: KIND:FILE, KIND being %s; without :FILE to stdout in place of the text; may be repeated", kinds(views))
}

func names[D any](views []report.View[D]) []string {
	var all []string
	for _, v := range views {
		all = append(all, v.Name)
	}
	return all
}

func kinds[D any](views []report.View[D]) string {
	all := names(views)
	return strings.Join(all[:len(all)-1], ", ") + " or " + all[len(all)-1]
}

// parseReports reads the values of --report and checks that they can be written.
func parseReports[D any](specs []string, views []report.View[D], overwrite bool) (outputs[D], error) {
	var outs outputs[D]
	for _, spec := range specs {
		kind, path, ok := strings.Cut(spec, ":")
		i := slices.IndexFunc(views, func(v report.View[D]) bool { return v.Name == kind })
		switch {
		case i < 0:
			hint := "the kinds are " + kinds(views) + ", as in md:FILE"
			if s := cli.Suggest(kind, names(views)); s != "" {
				hint = fmt.Sprintf("did you mean %s?", s)
			}
			return nil, cli.Usagef(hint, "--report %s: there is no report of the kind %q", spec, kind)
		case ok && path == "":
			return nil, cli.Usagef("as in "+kind+":FILE; without the colon it goes to stdout", "--report %s names no file", spec)
		case slices.ContainsFunc(outs, func(x output[D]) bool { return x.path == path }):
			where := cmp.Or(path, "stdout")
			return nil, cli.Usagef("give each a file of its own, KIND:FILE", "--report %s: another report goes to %s", spec, where)
		}
		if path != "" {
			if err := cli.Output(path, overwrite); err != nil {
				return nil, err
			}
		}
		outs = append(outs, output[D]{kind, path, views[i].Write})
	}
	return outs, nil
}

// paths are the files that will be written.
func (o outputs[D]) paths() []string {
	var paths []string
	for _, x := range o {
		if x.path != "" {
			paths = append(paths, x.path)
		}
	}
	return paths
}

// has says whether a report of one of the kinds is written.
func (o outputs[D]) has(kinds ...string) bool {
	return slices.ContainsFunc(o, func(x output[D]) bool { return slices.Contains(kinds, x.kind) })
}

// write writes all reports on d, the one on stdout last: that of --report, else of --json, else text.
func (o outputs[D]) write(e *env, d *D, views []report.View[D]) error {
	show := "text"
	if e.json {
		show = "json"
	}
	for _, x := range o {
		if x.path == "" {
			show = x.kind
			continue
		}
		if err := cli.Write(x.path, func(w io.Writer) error { return x.write(w, d) }); err != nil {
			return err
		}
	}
	for _, v := range views {
		if v.Name == show {
			return v.Write(e.stdout, d)
		}
	}
	return nil
}
