package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// dependency is a linked module as the go command describes it.
type dependency struct {
	Path, Version, Dir string
	Main               bool
}

// notice lists the modules that are linked into the command, and repeats their licences, as these ask for.
// Modules with the same text share it. The Apache licence is in LICENSE and is not repeated.
func notice() (string, error) {
	modules, err := linked()
	if err != nil {
		return "", err
	}
	var list strings.Builder
	users := map[string][]string{} // text of a licence -> modules
	for _, m := range modules {
		texts, err := licences(m.Dir)
		if err != nil {
			return "", fmt.Errorf("licence of %s: %w", m.Path, err)
		}
		kinds := make([]string, len(texts))
		for i, text := range texts {
			kinds[i] = kind(text)
			if kinds[i] == "" {
				return "", fmt.Errorf("licence of %s: unknown kind: look at it, and add it to kinds in notice.go", m.Path)
			}
			if kinds[i] != "Apache-2.0" {
				users[text] = append(users[text], m.Path)
			}
		}
		fmt.Fprintf(&list, "  %s %s (%s)\n", m.Path, m.Version, strings.Join(slices.Compact(kinds), ", "))
	}
	var b strings.Builder
	b.WriteString(
		"cfq\nCopyright 2026 The cfq authors\n\nLicensed under the Apache License, Version 2.0; see LICENSE.\n\n" +
			"The command links these modules. Their licences follow; that of Apache is in LICENSE.\n\n",
	)
	b.WriteString(list.String())
	b.WriteString("\nONNX Runtime (MIT, Copyright Microsoft Corporation) is not part of cfq: the command loads\n" +
		"the shared library at run time.\n")
	byUser := func(x, y string) int { return cmp.Compare(users[x][0]+x, users[y][0]+y) }
	for _, text := range slices.SortedFunc(maps.Keys(users), byUser) {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("-", 80), strings.Join(users[text], "\n"), text)
	}
	return b.String(), nil
}

// linked returns the modules that packages of the command come from, for every system that has a release of ONNX
// Runtime.
func linked() ([]dependency, error) {
	found := map[string]dependency{}
	for _, system := range []string{"linux", "darwin", "windows"} {
		var out, errs bytes.Buffer
		c := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not (or .Main .Replace)}}"+
			"{\"Path\": {{printf \"%q\" .Path}}, "+
			"\"Version\": {{printf \"%q\" .Version}}, \"Dir\": {{printf \"%q\" .Dir}}}{{end}}{{end}}", "./cmd/cfq")
		c.Dir, c.Stdout, c.Stderr = root(), &out, &errs
		c.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=1")
		if err := c.Run(); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", c, err, errs.String())
		}
		d := json.NewDecoder(&out)
		for {
			var m dependency
			if err := d.Decode(&m); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: %w", c, err)
			}
			found[m.Path] = m
		}
	}
	byPath := func(x, y dependency) int { return cmp.Compare(x.Path, y.Path) }
	return slices.SortedFunc(maps.Values(found), byPath), nil
}

// licences returns the texts of the licence files of a module.
func licences(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return nil, err
	}
	more, err := filepath.Glob(filepath.Join(dir, "licenses", "*"))
	if err != nil {
		return nil, err
	}
	// Of freetype's two licences, which a user chooses from, this is the FreeType licence.
	name := regexp.MustCompile(`^(LICEN[CS]E|COPYING|OFL)[-A-Za-z]*(\.md|\.txt)?$|^NOTICE$|^ftl\.txt$`)
	var texts []string
	for _, f := range append(files, more...) {
		if !name.MatchString(filepath.Base(f)) {
			continue
		}
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		texts = append(texts, strings.TrimSpace(strings.ReplaceAll(string(data), "\r\n", "\n")))
	}
	if len(texts) == 0 {
		return nil, errors.New("there is no licence file")
	}
	return texts, nil
}

// kind names a licence by words that only it has, "" if it is unknown.
func kind(text string) string {
	flat := strings.Join(strings.Fields(text), " ")
	for _, k := range []struct{ words, name string }{
		{"Apache License Version 2.0", "Apache-2.0"},
		{"SIL OPEN FONT LICENSE", "OFL-1.1"},
		{"Attribution 4.0 International", "CC-BY-4.0"},
		{"Creative Commons Attribution 4.0", "CC-BY-4.0"},
		{"creativecommons.org/licenses/by/4.0", "CC-BY-4.0"},
		{"Redistribution and use in source and binary forms", "BSD"},
		{"Permission is hereby granted, free of charge", "MIT"},
		{"The FreeType Project LICENSE", "FTL"},
		{"choice of exactly one of the following two licenses: * The FreeType License", "FTL"},
		{"Alrux Go EXTensions", "notice"},
	} {
		if strings.Contains(flat, k.words) {
			return k.name
		}
	}
	return ""
}
