//go:build unix

package tempfile

import (
	"os"
	"syscall"
)

// errBusy is the error of lock when another process has locked the file.
const errBusy = syscall.EWOULDBLOCK

// lock locks a file until it is closed. It fails where files cannot be locked.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// open opens a file so that it can be removed and get another name while it is open.
func open(path string, flag int) (*os.File, error) { return os.OpenFile(path, flag, 0o644) }
