package ort

// FindIn is Find on a system whose library path is dirs.
func FindIn(lib string, dirs ...string) (Info, error) {
	return find(lib, func() []string { return dirs })
}
