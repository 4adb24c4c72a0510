//go:build unix

package tempfile

import (
	"os"
	"syscall"
)

const errBusy = syscall.EWOULDBLOCK

func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// open opens a file so that it can be removed and get another name while it is open.
func open(path string, flag int) (*os.File, error) { return os.OpenFile(path, flag, 0o644) }
