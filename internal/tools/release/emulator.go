package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
)

// emulator is the command that runs programs for a platform, nothing for this one; why says why there is none. It may
// keep files in a folder.
func (b *builder) emulator(p platform, dir string) (run []string, why string) {
	var err error
	switch {
	case p.os == runtime.GOOS && p.arch == runtime.GOARCH:
	case p.String() == "linux/arm64" && runtime.GOOS == "linux":
		run, err = qemu(dir)
	case p.String() == "windows/amd64" && runtime.GOARCH == "amd64":
		run, err = b.wine(dir)
	default:
		err = fmt.Errorf("this is %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	if err != nil {
		return nil, err.Error()
	}
	return run, ""
}

// armProcessor is what /proc/cpuinfo says on an ARM server. ONNX Runtime ends with a fault where it reads that of
// another architecture, which qemu passes on.
const armProcessor = `processor	: 0
Features	: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp
CPU implementer	: 0x41
CPU architecture: 8
CPU variant	: 0x3
CPU part	: 0xd0c
CPU revision	: 1

`

// qemu runs programs for ARM on Debian with qemu-user, libc6-arm64-cross and libstdc++6-arm64-cross.
func qemu(dir string) ([]string, error) {
	program, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		return nil, err
	}
	const libraries = "/usr/aarch64-linux-gnu/lib"
	if _, err := os.Stat(filepath.Join(libraries, "libstdc++.so.6")); err != nil {
		return nil, err
	}
	root := filepath.Join(dir, "root")
	return []string{program, "-L", root}, errors.Join(
		os.MkdirAll(filepath.Join(root, "proc"), 0o755), os.Symlink(libraries, filepath.Join(root, "lib")),
		os.WriteFile(filepath.Join(root, "proc", "cpuinfo"), []byte(armProcessor), 0o644))
}

// prng is the library from which Go takes random numbers, and which Wine has from version 9 on.
const prng = `#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE p, SIZE_T n) {
  for (; n > 0; p += 1, n -= 1)
    if (!RtlGenRandom(p, 1)) return FALSE;
  return TRUE;
}
`

// wine runs programs for Windows by Wine, of which nothing stays.
func (b *builder) wine(dir string) ([]string, error) {
	program, err := exec.LookPath("wine")
	if err != nil {
		return nil, err
	}
	source, prefix := filepath.Join(dir, "prng.c"), filepath.Join(dir, "wine")
	if err := os.WriteFile(source, []byte(prng), 0o644); err != nil {
		return nil, err
	}
	run := []string{"env", "WINEPREFIX=" + prefix, "WINEDEBUG=-all", program}
	library := filepath.Join(prefix, "drive_c", "windows", "system32", "bcryptprimitives.dll")
	compile := slices.Concat(b.zig, []string{
		"cc", "-target", "x86_64-windows-gnu", "-shared", source, "-ladvapi32", "-o", library,
	})
	for _, c := range [][]string{slices.Concat(run[:3], []string{"wineboot", "--init"}), compile} {
		if _, err := os.Stat(library); err == nil {
			break
		}
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%v: %w: %s", c, err, out)
		}
	}
	return run, nil
}
