package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"cfq/internal/cli"
	"cfq/internal/config"
	"cfq/onnxio/codec"
	"cfq/onnxio/graph"
	"cfq/ptq"
	"cfq/task"
)

type recipeFlags struct {
	file   string
	method string
	set    []string
}

type calibrationFlags struct {
	peopleFlags
	recipeFlags
}

func (f *calibrationFlags) variables() variables {
	return f.peopleFlags.variables().with(variables{
		"method": cli.Choice(&f.method, ptq.MethodNames()), "recipe": &f.file, "set": repeated{&f.set},
	})
}

// maxRead is the largest number of rows kept in memory: of more rows, a sample of this size is drawn.
const maxRead = 100000

func (f *calibrationFlags) reading(r *ptq.Recipe, seed uint64) task.ReadOptions {
	o := task.ReadOptions{Seed: seed}
	if rows := r.Calibrate.Rows; f.promises == "" && rows > 0 {
		o.Most = max(maxRead, rows)
	}
	return o
}

func (f *calibrationFlags) origin(model string, people *task.People, seed uint64) (map[string]string, error) {
	r, err := madeFrom(map[string]string{
		"model": model, "data": f.data, "task": f.task, "promises": f.promises, "overrides": f.overrides,
	})
	if err != nil {
		return nil, err
	}
	r["rows"] = f.rows
	if people.Undrawn > 0 {
		r["drawn"] = fmt.Sprintf("%d of %d rows, seed %d", people.N, people.N+people.Undrawn, seed)
	}
	return r, nil
}

func (f *calibrationFlags) openRun(ctx context.Context, e *env, model string, read task.ReadOptions) (
	in *opened, run ptq.Run, err error,
) {
	if in, err = f.open(ctx, e, []string{model}, read); err != nil {
		return nil, run, err
	}
	run = ptq.Run{Workers: e.workers, Progress: e.progress(), Overrides: in.allowed.list}
	run.Promises, err = in.judged(ctx, e, model)
	return in, run, err
}

func (f *recipeFlags) recipe(fs *pflag.FlagSet, more ...string) (r ptq.Recipe, err error) {
	if f.file == "" {
		r, err = ptq.NewRecipe(f.method)
	} else if fs.Changed("method") {
		return r, cli.Usagef(cli.HintConflict, "--method: the recipe in %s has a method", f.file)
	} else {
		r, err = readRecipe(f.file)
	}
	if err == nil {
		err = r.Set(append(more, f.set...)...)
	}
	if err == nil {
		err = r.Check()
	}
	return r, cli.Wrap(err, hintRecipe)
}

const hintRecipe = "`cfq help recipe` lists the settings"

func readRecipe(path string) (r ptq.Recipe, err error) {
	if err := cli.Input("recipe", path); err != nil {
		return r, err
	}
	if filepath.Ext(path) != ".onnx" {
		return config.Load("recipe", path, ptq.ParseRecipe)
	}
	g, err := codec.ReadFile(path)
	if err != nil {
		return r, err
	}
	text, ok := g.Meta(ptq.RecipeKey)
	if !ok {
		return r, fmt.Errorf("%s has no recipe: cfq did not quantize it", path)
	}
	return ptq.ParseRecipe(path, []byte(text))
}

func recipe(m *graph.Model) (r map[string]string) {
	text, ok := m.Meta(ptq.RecipeKey)
	if !ok || json.Unmarshal([]byte(text), &r) != nil {
		return nil
	}
	return r
}

func methodTable() string {
	var b strings.Builder
	newTextView(&b).page("methods", struct {
		Keys    []ptq.Key
		Methods []ptq.Method
	}{ptq.Distinguishing(), ptq.Methods()})
	return b.String()
}
