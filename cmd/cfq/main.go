// Command cfq quantizes ONNX classifiers so that the recourse they promise still
// holds, and measures how much of it does.
//
// In: flags, an exported model, a data file, a task file. Out: results on stdout, messages on stderr, files that are
// whole or not there, and an exit code (see package cli). The invariant: nothing is decided here; each subcommand is
// one file that reads files, calls the packages and shows what they return.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"cfq/internal/cli"
)

const hintSubcommands = "`cfq help` lists the subcommands"

func main() {
	// Most of the memory is ONNX Runtime's. Garbage is collected when there is half as much as memory in use, for which
	// room counts: it is never written to, so that it takes none. Little lives beside much garbage, and a third of the
	// processor time would go into collecting it.
	var room []byte
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
		room = make([]byte, 64<<20)
	}
	debug.SetTraceback("crash") // a crash of the runtime, as where memory ends, exits with 2 otherwise, like wrong usage
	code := start(os.Args[1:], os.Stdout, os.Stderr)
	runtime.KeepAlive(room)
	os.Exit(code)
}

func start(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	msg := &cli.Printer{Out: stderr}
	out := &printed{Writer: stdout}
	err := guarded(func() error { return dispatch(ctx, args, out, msg) })
	if err == nil { // those who print a line do not ask whether it was written
		err = out.err
	}
	msg.Done()
	code := cli.Code(err)
	switch code {
	case cli.Passed:
	case cli.Interrupted:
		msg.Error(errors.New("interrupted"))
	default:
		msg.Error(err)
	}
	return code
}

// printed remembers the first error of writing.
type printed struct {
	io.Writer
	err error
}

func (o *printed) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// guarded makes an error of a panic, so that it is not taken for bad usage, which exits with 2 as well. Files are
// written whole or not at all, so none is left half written.
func guarded(run func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = cli.WithCode(cli.Wrap(fmt.Errorf("cfq failed: %v\n%s", v, debug.Stack()),
				"report the command, this text and what `cfq version` prints"), cli.Fault)
		}
	}()
	return run()
}

func dispatch(ctx context.Context, args []string, stdout io.Writer, msg *cli.Printer) error {
	if len(args) == 0 || args[0] == "-h" || args[0] == "--help" {
		return help(stdout, nil)
	}
	name, rest := args[0], args[1:]
	switch name {
	case "--version":
		name = "version"
	case "help":
		return help(stdout, rest)
	}
	c := find(name)
	if c == nil {
		return unknown(name)
	}
	msg.Subcommand = name
	e := &env{stdout: stdout, msg: msg, command: args}
	fs, run := c.flags(e)
	if err := cli.Parse(fs, rest, os.LookupEnv); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			c.writeHelp(stdout)
			return nil
		}
		return err
	}
	if e.helpAll {
		c.writeHelpAll(stdout, writeCommon)
		return nil
	}
	return run(ctx, e, fs.Args())
}

func find(name string) *command {
	for _, c := range commands() {
		if c.name == name {
			return &c
		}
	}
	return nil
}

func unknown(name string) error {
	if strings.HasPrefix(name, "-") {
		return cli.Usagef(hintSubcommands, "the first argument is a subcommand, not the flag %s", name)
	}
	names := []string{"help"}
	for _, c := range commands() {
		names = append(names, c.name)
	}
	if s := cli.Suggest(name, names); s != "" {
		return cli.Usagef(hintSubcommands, "unknown subcommand %q; did you mean %q?", name, s)
	}
	return cli.Usagef(hintSubcommands, "unknown subcommand %q", name)
}
