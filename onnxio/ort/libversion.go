package ort

import (
	"debug/elf"
	"debug/macho"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// fileVersion reads the version of ONNX Runtime from the library file at path
// without loading it: from the symbol version of OrtGetApiBase in ELF, from the
// identification command in Mach-O. It is "" when the file does not say.
func fileVersion(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("opening the ONNX Runtime library: %w", err)
	}
	defer f.Close()
	magic := make([]byte, 4)
	if _, err := f.ReadAt(magic, 0); err != nil {
		return "", fmt.Errorf("%s is not a shared library: it is too short", path)
	}
	switch {
	case string(magic) == elf.ELFMAG:
		e, err := elf.NewFile(f)
		if err != nil {
			return "", fmt.Errorf("%s is a damaged library: %w", path, err)
		}
		return elfVersion(path, e)
	case binary.LittleEndian.Uint32(magic) == macho.Magic64:
		m, err := macho.NewFile(f)
		if err != nil {
			return "", fmt.Errorf("%s is a damaged library: %w", path, err)
		}
		return machoVersion(m), nil
	case string(magic[:2]) == "MZ", binary.BigEndian.Uint32(magic) == macho.MagicFat:
		return "", nil // versions are elsewhere; loading will tell
	}
	return "", fmt.Errorf("%s is not a shared library", path)
}

func elfVersion(path string, e *elf.File) (string, error) {
	syms, err := e.DynamicSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return "", fmt.Errorf("%s is a damaged library: %w", path, err)
	}
	for _, s := range syms {
		if s.Name == "OrtGetApiBase" {
			v, _ := strings.CutPrefix(s.Version, "VERS_")
			return v, nil
		}
	}
	return "", fmt.Errorf("%s is not ONNX Runtime: it has no OrtGetApiBase", path)
}

func machoVersion(m *macho.File) string {
	const idDylib, versionAt = 0xd, 16 // LC_ID_DYLIB; offset of current_version
	for _, l := range m.Loads {
		raw := l.Raw()
		if len(raw) >= versionAt+4 && m.ByteOrder.Uint32(raw) == idDylib {
			v := m.ByteOrder.Uint32(raw[versionAt:])
			return fmt.Sprintf("%d.%d.%d", v>>16, v>>8&0xff, v&0xff)
		}
	}
	return ""
}

// checkVersion refuses a library older than MinVersion. Versions that are not
// numbers are left to the library to refuse.
func checkVersion(info Info) error {
	have, want := versionKey(info.Version), versionKey(MinVersion)
	if have < 0 || have >= want {
		return nil
	}
	return tooOld(info)
}

func tooOld(info Info) error {
	version := info.Version
	if version == "" {
		version = "of unknown version"
	}
	return fmt.Errorf("ONNX Runtime %s at %s (found by %s) is too old: %s or later is needed; run `make ort` or set %s to the library",
		version, info.Path, info.Source, MinVersion, LibEnv)
}

// versionKey orders versions by major and minor number; -1 if v has none.
func versionKey(v string) int {
	parts := strings.SplitN(v, ".", 3)
	if len(parts) < 2 {
		return -1
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	if err1 != nil || err2 != nil {
		return -1
	}
	return major*1000 + minor
}
