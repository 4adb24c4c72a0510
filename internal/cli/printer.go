package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

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

// People is the stage of progress that also shows how many there are in a second.
const People = "people"

// Progress returns a function that draws a bar for each stage of the work that it is told of, and removes it when all
// is done. It draws nothing when Quiet or when stderr is no terminal. It may be called from several goroutines.
func (p *Printer) Progress() func(stage string, done, total int) {
	if f, ok := p.Out.(*os.File); p.Quiet || !ok || !term.IsTerminal(int(f.Fd())) {
		return func(string, int, int) {}
	}
	bars := map[string]*progressbar.ProgressBar{}
	return func(stage string, done, total int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		bar := bars[stage]
		switch {
		case total <= 0:
			return
		case bar == nil:
			p.clear()
			bar = p.newBar(stage, total)
			bars[stage] = bar
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

func (p *Printer) newBar(stage string, total int) *progressbar.ProgressBar {
	options := []progressbar.Option{
		progressbar.OptionSetWriter(p.Out),
		progressbar.OptionSetDescription(fmt.Sprintf("%-28s", message.OneLine(stage))),
		progressbar.OptionSetWidth(20),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(100 * time.Millisecond),
	}
	if stage == People { // who may be millions
		options = append(options, progressbar.OptionShowIts(), progressbar.OptionSetItsString(People))
	}
	return progressbar.NewOptions(total, options...)
}

// Done takes an unfinished bar off the screen.
func (p *Printer) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.bar = nil
}
