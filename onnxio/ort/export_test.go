package ort

// Locate says what Find would load on a system whose library path is dirs.
func Locate(lib string, dirs ...string) (Info, error) {
	return locate(lib, func() []string { return dirs })
}
