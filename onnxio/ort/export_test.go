package ort

// Locate says what Find would load by a program in a folder, on a system whose library path is dirs.
func Locate(lib, program string, dirs ...string) (Info, error) {
	return locate(lib, program, func() []string { return dirs })
}

// SelfTestModel returns the file of a Gemm between codes, which becomes an integer kernel.
func SelfTestModel() []byte { return selfTest }
