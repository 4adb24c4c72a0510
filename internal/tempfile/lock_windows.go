package tempfile

import (
	"os"

	"golang.org/x/sys/windows"
)

// errBusy is the error of lock when another process has locked the file.
const errBusy = windows.ERROR_LOCK_VIOLATION

// lock locks a file until it is closed. It fails for folders, which then stay when a process is killed. What is locked
// is a byte that no file has: nobody could read or write one that is.
func lock(f *os.File) error {
	const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	return windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
}
