package tempfile

import (
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

const errBusy = windows.ERROR_LOCK_VIOLATION

// lock locks a file until it is closed. It fails for folders, which then stay when a process is killed. What is locked
// is a byte that no file has: nobody could read or write one that is.
func lock(f *os.File) error {
	const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	return windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
}

// open opens a file so that it can be removed and get another name while it is open, which os.OpenFile does not allow.
func open(path string, flag int) (*os.File, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	how := uint32(windows.OPEN_EXISTING)
	if flag&os.O_EXCL != 0 {
		how = windows.CREATE_NEW
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	h, err := windows.CreateFile(name, windows.GENERIC_READ|windows.GENERIC_WRITE, share, nil, how,
		windows.FILE_ATTRIBUTE_NORMAL|windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(h), path), nil
}
