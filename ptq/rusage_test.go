package ptq

import (
	"os"
	"syscall"
)

// peakOf is the largest resident size of a process that has ended, in megabytes where the
// system counts kilobytes, as Linux does.
func peakOf(p *os.ProcessState) float64 {
	if u, ok := p.SysUsage().(*syscall.Rusage); ok {
		return float64(u.Maxrss) / 1024
	}
	return 0
}
