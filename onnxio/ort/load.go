package ort

import (
	"fmt"
	"os"
	"strings"
	"sync"

	ort "github.com/yalue/onnxruntime_go"
)

// process is the one piece of mutable package state of the project, and not by
// choice: ONNX Runtime is a C library with one environment per process, which
// the binding keeps in globals of its own. The first session loads the library
// and so fixes it; it is never unloaded.
//
//nolint:gochecknoglobals // see above
var process struct {
	sync.Mutex
	info Info // Path is empty until the library is loaded
}

// load makes sure that the library is loaded and returns what is. A library
// named by lib must be the one that is loaded already, if one is. After a
// failure another library can be tried.
func load(lib string) (Info, error) {
	process.Lock()
	defer process.Unlock()
	if have := process.info; have.Path != "" {
		if lib != "" && !sameFile(lib, have.Path) {
			return Info{}, fmt.Errorf("ONNX Runtime is loaded from %s already: one process cannot load %s too", have.Path, lib)
		}
		return have, nil
	}
	info, err := locate(lib, systemDirs)
	if err != nil {
		return Info{}, err
	}
	if info.Version, err = fileVersion(info.Path); err != nil {
		return Info{}, err
	}
	if err := checkVersion(info); err != nil {
		return Info{}, err
	}
	// Telemetry leaves empty log files in the temporary directory, even when it is switched off after loading, as it is below.
	if err := os.Setenv("ORT_DISABLE_TELEMETRY", "1"); err != nil {
		return Info{}, fmt.Errorf("switching telemetry off: %w", err)
	}
	ort.SetSharedLibraryPath(info.Path)
	if err := ort.InitializeEnvironment(ort.WithLogLevelError()); err != nil {
		// The binding's message when the library has no API of the version asked for.
		if strings.Contains(err.Error(), "setting ORT API base") {
			return Info{}, tooOld(info)
		}
		return Info{}, fmt.Errorf("loading ONNX Runtime from %s (found by %s): %w", info.Path, info.Source, err)
	}
	if err := ort.DisableTelemetry(); err != nil {
		return Info{}, fmt.Errorf("switching telemetry off: %w", err)
	}
	info.Version = ort.GetVersion()
	process.info = info
	return info, nil
}

func sameFile(a, b string) bool {
	sa, err := os.Stat(a)
	if err != nil {
		return false
	}
	sb, err := os.Stat(b)
	return err == nil && os.SameFile(sa, sb)
}
