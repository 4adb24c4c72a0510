package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// hooks runs the hooks that the example's configuration asks for as pre-commit would, the last of which is the gate.
func (p place) hooks(code int) error {
	type hook struct {
		ID, Entry, Language string
		Args                []string
		Files               bool `yaml:"pass_filenames"`
	}
	var offered []hook
	var config struct{ Repos []struct{ Hooks []hook } }
	if err := errors.Join(
		p.yaml(".pre-commit-hooks.yaml", &offered),
		p.yaml(filepath.Join("examples", "ci", "pre-commit-config.yaml"), &config)); err != nil {
		return err
	}
	asked := config.Repos[0].Hooks
	for i, h := range asked {
		at := slices.IndexFunc(offered, func(o hook) bool { return o.ID == h.ID })
		if at < 0 || offered[at].Language != "system" || offered[at].Files {
			return fmt.Errorf("hook %s: there is none, or one that needs more than its arguments", h.ID)
		}
		want := 0
		if i == len(asked)-1 {
			want = code
		}
		command := offered[at].Entry + " " + strings.Join(h.Args, " ")
		if err := p.shell("hook "+h.ID, want, nil, command); err != nil {
			return err
		}
	}
	return nil
}

// stage is one of dvc.yaml.
type stage struct {
	Cmd        string
	Deps, Outs []string
}

// dvc runs the stages of dvc.yaml as `dvc repro` would, in their order: what a stage says that it reads must be there,
// and what it says that it makes must be there afterwards.
func (p place) dvc() error {
	var file struct {
		Vars   []map[string]any
		Stages yaml.MapSlice
	}
	if err := p.yaml(filepath.Join("examples", "ci", "dvc.yaml"), &file); err != nil {
		return err
	}
	for _, item := range file.Stages {
		data, err := yaml.Marshal(item.Value)
		if err != nil {
			return err
		}
		var s stage
		if err := yaml.Unmarshal(data, &s); err != nil {
			return err
		}
		for _, path := range s.Outs {
			if err := os.RemoveAll(filepath.Join(p.work, path)); err != nil {
				return err
			}
		}
		for _, v := range file.Vars {
			for name, value := range v {
				s.Cmd = strings.ReplaceAll(s.Cmd, "${"+name+"}", fmt.Sprint(value))
			}
		}
		err = p.exist(s.Deps)
		if err == nil {
			err = p.shell(fmt.Sprintf("dvc.yaml, %v", item.Key), 0, nil, s.Cmd)
		}
		if err = errors.Join(err, p.exist(s.Outs)); err != nil {
			return err
		}
	}
	return contains(filepath.Join(p.work, "report.json"), `"vd": `)
}

// exist says which files of the user's folder are not there.
func (p place) exist(paths []string) error {
	var errs []error
	for _, path := range paths {
		if _, err := os.Stat(filepath.Join(p.work, path)); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
