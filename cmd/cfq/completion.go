package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"cfq/internal/cli"
	"cfq/ptq"
)

func completionCommand() command {
	return command{
		name:    "completion",
		args:    "bash|zsh|fish",
		summary: "print a completion script for a shell",
		about:   "Completes subcommands, flags, the values of flags that have a list of them, and files.",
		examples: []string{
			"cfq completion bash > /etc/bash_completion.d/cfq",
			"cfq completion zsh > ~/.zfunc/_cfq",
			"cfq completion fish > ~/.config/fish/completions/cfq.fish",
		},
		setup: func(*pflag.FlagSet) runFunc {
			return func(_ context.Context, e *env, args []string) error {
				if err := arguments("completion", args, "SHELL"); err != nil {
					return err
				}
				switch args[0] {
				case "bash":
					return completeBash(e.stdout)
				case "zsh":
					return completeZsh(e.stdout)
				case "fish":
					return completeFish(e.stdout)
				}
				return cli.Usagef("", "invalid shell %q: want bash, zsh or fish", args[0])
			}
		},
	}
}

// completedFlag is what a shell knows of a flag.
type completedFlag struct {
	name, short, what string
	values            []string // "" without a list
	takes             string   // what its value is; "" of a switch
	file              bool
	repeat            string // "*" of a flag that may be repeated, as zsh marks it
}

// choiceList finds the values of a flag in its help: "what: a, b, c" or "what: a, b, c; else ...".
var choiceList = regexp.MustCompile(`: ([\w.-]+(?:, [\w.-]+)+)(?:;|$)`)

// completed lists all flags of a subcommand.
func (c *command) completed() []completedFlag {
	fs, _ := c.flags(&env{msg: &cli.Printer{}})
	var list []completedFlag
	fs.VisitAll(func(f *pflag.Flag) {
		takes, usage := pflag.UnquoteUsage(f)
		x := completedFlag{name: f.Name, short: f.Shorthand, takes: takes}
		x.what, _, _ = strings.Cut(usage, ";")
		if m := choiceList.FindStringSubmatch(usage); m != nil {
			x.values = strings.Split(m[1], ", ")
			x.what, _, _ = strings.Cut(usage, ": "+m[1])
		} else if takes == "method" {
			x.values = ptq.MethodNames()
		}
		x.file = takes == "file" || takes == "directory" || takes == "library"
		if strings.Contains(usage, "may be repeated") {
			x.repeat = "*"
		}
		list = append(list, x)
	})
	return list
}

// quoted makes text a word for a shell, without the single quotes that would end it.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "") + "'" }

// zshText escapes what zsh takes for syntax within a description.
func zshText(text string) string {
	return strings.NewReplacer("'", "", "[", `\[`, "]", `\]`, ":", `\:`).Replace(text)
}

func completeBash(w io.Writer) error {
	var names []string
	var flags, values strings.Builder
	for _, c := range commands() {
		names = append(names, c.name)
		var all []string
		for _, f := range c.completed() {
			all = append(all, "--"+f.name)
			if f.short != "" {
				all = append(all, "-"+f.short)
			}
			if f.values != nil {
				fmt.Fprintf(&values, "    '%s --%s') words='%s' ;;\n", c.name, f.name, strings.Join(f.values, " "))
			}
		}
		fmt.Fprintf(&flags, "    %s) words='%s' ;;\n", c.name, strings.Join(all, " "))
	}
	_, err := fmt.Fprintf(w, `# bash completion of cfq: source <(cfq completion bash)
_cfq() {
  local cur=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} words=
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '%s help' -- "$cur"))
    return
  fi
  if [ "$COMP_CWORD" -eq 2 ] && [[ $cur != -* ]]; then
    case $command in
    task) COMPREPLY=($(compgen -W 'init check show' -- "$cur")); return ;;
    completion) COMPREPLY=($(compgen -W 'bash zsh fish' -- "$cur")); return ;;
    esac
  fi
  case "$command $previous" in
%s  esac
  if [ -z "$words" ] && [[ $cur == -* ]]; then
    case $command in
%s    esac
  fi
  if [ -n "$words" ]; then
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
  else
    COMPREPLY=($(compgen -f -- "$cur"))
  fi
}
complete -o filenames -F _cfq cfq
`, strings.Join(names, " "), values.String(), flags.String())
	return err
}

func completeZsh(w io.Writer) error {
	var names, cases strings.Builder
	for _, c := range commands() {
		fmt.Fprintf(&names, "    '%s:%s'\n", c.name, zshText(c.summary))
		fmt.Fprintf(&cases, "    %s)\n      _arguments \\\n", c.name)
		for _, f := range c.completed() {
			spec := "[" + zshText(f.what) + "]"
			if f.takes != "" {
				spec += ":" + f.takes + ":"
				if f.values != nil {
					spec += "(" + strings.Join(f.values, " ") + ")"
				} else if f.file {
					spec += "_files"
				}
			}
			if f.short != "" {
				fmt.Fprintf(&cases, "        '%s-%s%s' \\\n", f.repeat, f.short, spec)
			}
			fmt.Fprintf(&cases, "        '%s--%s%s' \\\n", f.repeat, f.name, spec)
		}
		fmt.Fprintf(&cases, "        '*:file:_files' ;;\n")
	}
	_, err := fmt.Fprintf(w, `#compdef cfq
# zsh completion of cfq: put it into a directory of $fpath as _cfq
_cfq() {
  local -a subcommands=(
%s    'help:print help'
  )
  if (( CURRENT == 2 )); then
    _describe subcommand subcommands
    return
  fi
  local subcommand=$words[2]
  shift words
  (( CURRENT-- ))
  case $subcommand in
%s  esac
}
if [[ ${funcstack[1]} == _cfq ]]; then
  _cfq "$@" # this file is being loaded for the first completion
else
  compdef _cfq cfq
fi
`, names.String(), cases.String())
	return err
}

func completeFish(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# fish completion of cfq: put it into ~/.config/fish/completions/cfq.fish\n")
	add := func(name, what string) {
		fmt.Fprintf(&b, "complete -c cfq -n __fish_use_subcommand -f -a %s -d %s\n", name, quoted(what))
	}
	for _, c := range commands() {
		add(c.name, c.summary)
		for _, f := range c.completed() {
			fmt.Fprintf(&b, "complete -c cfq -n '__fish_seen_subcommand_from %s' -l %s -d %s", c.name, f.name, quoted(f.what))
			if f.short != "" {
				b.WriteString(" -s " + f.short)
			}
			switch {
			case f.values != nil:
				fmt.Fprintf(&b, " -x -a '%s'", strings.Join(f.values, " "))
			case f.file:
				b.WriteString(" -r -F")
			case f.takes != "":
				b.WriteString(" -x")
			}
			b.WriteByte('\n')
		}
	}
	add("help", "print help")
	_, err := io.WriteString(w, b.String())
	return err
}
