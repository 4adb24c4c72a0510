package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"cfq/internal/cli"
)

func completionCommand() command {
	return command{
		name:    "completion",
		args:    "bash|zsh|fish",
		actions: func() []string { return []string{"bash", "zsh", "fish"} },
		summary: "print a completion script for a shell",
		about:   "Completes subcommands, flags, the values of flags that have a list of them, and files.",
		examples: []string{
			"cfq completion bash > /etc/bash_completion.d/cfq",
			"cfq completion zsh > ~/.zfunc/_cfq",
			"cfq completion fish > ~/.config/fish/completions/cfq.fish",
		},
		setup: func(*pflag.FlagSet) runFunc {
			return func(_ context.Context, e *env, args []string) error {
				if len(args) > 0 && args[0] == "words" { // what the scripts ask
					return writeWords(e.stdout, args[1:])
				}
				if err := arguments("completion", args, "SHELL"); err != nil {
					return err
				}
				script, ok := completionScripts()[args[0]]
				if !ok {
					return cli.Usagef(cli.HintArguments, "invalid shell %q: want bash, zsh or fish", args[0])
				}
				_, err := io.WriteString(e.stdout, script)
				return err
			}
		},
	}
}

// completionScripts have the script of each shell. They ask `cfq completion words` for what fits the words of the
// command line up to the cursor, and complete files where nothing does.
func completionScripts() map[string]string {
	return map[string]string{
		"bash": `# bash completion of cfq: source <(cfq completion bash)
_cfq() {
  local current=${COMP_WORDS[COMP_CWORD]} found
  found=$(cfq completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1)
  if [ -n "$found" ]; then
    COMPREPLY=($(compgen -W "$found" -- "$current"))
  else
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}
complete -o filenames -F _cfq cfq
`,
		"zsh": `#compdef cfq
# zsh completion of cfq: put it into a directory of $fpath as _cfq
_cfq() {
  local -a found
  found=(${(f)"$(cfq completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null |
    awk -F '\t' '{ gsub(/:/, "\\:"); print $1 ":" $2 }')"})
  if (( $#found )); then
    _describe cfq found
  else
    _files
  fi
}
if [[ ${funcstack[1]} == _cfq ]]; then
  _cfq "$@" # this file is being loaded for the first completion
else
  compdef _cfq cfq
fi
`,
		"fish": `# fish completion of cfq: put it into ~/.config/fish/completions/cfq.fish
function __cfq_words
  set -l current (commandline -ct)
  set -l found (cfq completion words -- (commandline -opc)[2..-1] "$current" 2>/dev/null)
  if set -q found[1]
    printf '%s\n' $found
  else
    __fish_complete_path "$current"
  end
end
complete -c cfq -f -a '(__cfq_words)'
`,
	}
}

func writeWords(w io.Writer, words []string) error {
	var out strings.Builder
	add := func(word, what string) { fmt.Fprintf(&out, "%s\t%s\n", word, what) }
	last := len(words) - 1
	if last < 1 {
		for _, c := range commands() {
			add(c.name, c.summary)
		}
		add("help", "print help")
	} else if c := find(words[0]); c != nil {
		fs, _ := c.flags(&env{msg: &cli.Printer{}})
		before := fs.Lookup(strings.TrimPrefix(words[last-1], "--"))
		switch {
		case before != nil && words[last-1] == "--"+before.Name:
			for _, choice := range cli.Choices(before) {
				add(choice, before.Name)
			}
		case strings.HasPrefix(words[last], "-"):
			fs.VisitAll(func(f *pflag.Flag) {
				_, what := pflag.UnquoteUsage(f)
				add("--"+f.Name, what)
			})
		case last == 1 && c.actions != nil:
			for _, action := range c.actions() {
				add(action, c.name)
			}
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}
