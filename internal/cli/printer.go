package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"cfq/internal/message"
)

// Printer writes messages and progress to stderr. It is safe for concurrent use.
type Printer struct {
	Out io.Writer
	// Quiet leaves out progress and notes; errors, hints and warnings stay.
	Quiet bool
	// Subcommand is the one that was called, which hints name.
	Subcommand string

	mu  sync.Mutex
	bar *progressbar.ProgressBar // drawn last, nil when none is on the screen
}

// Error writes err, one line per joined error, and its hint.
func (p *Printer) Error(err error) {
	for line := range strings.SplitSeq(strings.TrimRight(err.Error(), "\n"), "\n") {
		p.line("error: ", line)
	}
	if hint := HintOf(err); hint != "" {
		p.line("hint: ", strings.ReplaceAll(hint, "SUBCOMMAND", cmp.Or(p.Subcommand, "SUBCOMMAND")))
	}
}

// Warn writes something the user should know about the result.
func (p *Printer) Warn(format string, args ...any) {
	p.line("warning: ", fmt.Sprintf(format, args...))
}

// Note writes what is being done, unless Quiet.
func (p *Printer) Note(format string, args ...any) {
	if !p.Quiet {
		p.line("", fmt.Sprintf(format, args...))
	}
}

func (p *Printer) line(kind, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintf(p.Out, "cfq: %s%s\n", kind, message.OneLine(text)) // a name may hold anything
}

func (p *Printer) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

func (p *Printer) terminal() bool {
	f, ok := p.Out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// People is the label of progress that also shows how many there are in a second.
const People = "people"

// Progress returns a function that draws a bar called label when work is
// reported, and removes it when all is done. It draws nothing when Quiet or when
// stderr is no terminal. The function may be called from several goroutines.
func (p *Printer) Progress(label string) func(done, total int) {
	if p.Quiet || !p.terminal() {
		return func(int, int) {}
	}
	var bar *progressbar.ProgressBar
	return func(done, total int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case total <= 0:
			return
		case bar == nil:
			p.clear()
			options := []progressbar.Option{
				progressbar.OptionSetWriter(p.Out),
				progressbar.OptionSetDescription(fmt.Sprintf("%-28s", message.OneLine(label))),
				progressbar.OptionSetWidth(20),
				progressbar.OptionShowCount(),
				progressbar.OptionSetPredictTime(true),
				progressbar.OptionClearOnFinish(),
				progressbar.OptionThrottle(throttle),
			}
			if label == People { // who may be millions
				options = append(options, progressbar.OptionShowIts(), progressbar.OptionSetItsString(People))
			}
			bar = progressbar.NewOptions(total, options...)
		case bar.GetMax() != total:
			bar.ChangeMax(total)
		}
		p.bar = bar
		_ = bar.Set(min(done, total))
		if done >= total {
			p.bar = nil
		}
	}
}

// Stages returns a function that draws one bar after another, one for each stage
// of the work. It may be called from several goroutines.
func (p *Printer) Stages() func(stage string, done, total int) {
	var mu sync.Mutex
	bars := map[string]func(done, total int){}
	return func(stage string, done, total int) {
		mu.Lock()
		bar := bars[stage]
		if bar == nil {
			bar = p.Progress(stage)
			bars[stage] = bar
		}
		mu.Unlock()
		bar(done, total)
	}
}

// Done takes an unfinished bar off the screen.
func (p *Printer) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.bar = nil
}
