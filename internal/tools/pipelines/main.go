// Pipelines runs the pipelines that the project offers, step by step, on this machine.
//
// In: action.yml, .pre-commit-hooks.yaml, what examples/ci has for GitLab, pre-commit, DVC and make, examples/walk.sh
// and examples/pytorch/walk.sh of this checkout, recorded output in pages, the release in build/release, and the loan
// example. Out: what each step prints; an error when a step ends otherwise than it must, or a report is missing.
// The invariant: what is run are the files themselves, not copies of their commands. Steps that only GitHub can run
// ("uses") are named and left out.
package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

func main() {
	work, err := os.MkdirTemp("", "pipelines-")
	if err == nil {
		err = errors.Join(run(work), os.RemoveAll(work))
	}
	if err != nil {
		log.Fatal("pipelines: error: ", err)
	}
}

// place is where the pipelines run: a user's repository, and this one.
type place struct{ project, work string }

// run makes a good and a bad quantized model, and has each pipeline judge them.
func run(work string) error {
	project, err := os.Getwd()
	if err != nil {
		return err
	}
	p := place{project, work}
	const quantize = "$PROJECT/bin/cfq quantize model.onnx -d train.csv -t task.yaml --budget 4 -q"
	if err := p.shell("the loan example", 0, nil,
		"cp $PROJECT/testdata/loans/{model.onnx,{train,test}.csv,task.yaml{,.verified}} $PROJECT/examples/ci/gate.yaml .",
		quantize+" -o good.onnx --method cf-ptq", quantize+" -o bad.onnx --method mixed-ptq --force"); err != nil {
		return err
	}
	for _, c := range []struct {
		model, verdict string
		code           int
	}{{"good.onnx", "PASS", 0}, {"bad.onnx", "FAIL", 1}} {
		if err := p.action(c.model, c.verdict, c.code); err != nil {
			return fmt.Errorf("action.yml, %s: %w", c.model, err)
		}
		if err := p.gitlab(c.model, c.code); err != nil {
			return fmt.Errorf("examples/ci/gitlab.yml, %s: %w", c.model, err)
		}
		if err := p.shell("a commit of "+c.model, 0, nil, "cp "+c.model+" model.q.onnx"); err != nil {
			return err
		}
		if err := p.hooks(c.code); err != nil {
			return fmt.Errorf("examples/ci/pre-commit-config.yaml, %s: %w", c.model, err)
		}
	}
	if err := p.dvc(); err != nil {
		return fmt.Errorf("examples/ci/dvc.yaml: %w", err)
	}
	for _, example := range []string{"sklearn", "embeddings", "ft-transformer", "keras"} {
		err := p.shell("examples/walk.sh "+example, 0, []string{"OUT=" + filepath.Join(work, example)},
			"$PROJECT/examples/walk.sh "+example+" | tee walk.txt",
			"grep -q 'PASS: q.onnx against model.onnx' walk.txt")
		if err != nil {
			return err
		}
	}
	return errors.Join(
		p.shell("docs/quickstart.md", 0, nil, "$PROJECT/examples/walk.sh $PROJECT/docs/quickstart.md"),
		p.shell("docs/files.md, README.md, docs/recourse.md, docs/verdicts.md", 0, nil,
			"mkdir -p pages/build pages/testdata && cp model.onnx train.csv test.csv task.yaml* pages",
			"cd pages && ln -s $PROJECT/bin . && ln -s $PROJECT/testdata/loans testdata",
			"for page in docs/files.md README.md docs/recourse.md docs/verdicts.md; do",
			"IN=$PWD $PROJECT/examples/walk.sh $PROJECT/$page; done"),
		p.shell("examples/ci/Makefile", 0, nil,
			"make -C $PROJECT/examples/ci CFQ=$PROJECT/bin/cfq BUILD=$PWD/build release/model.q.onnx",
			"rm -r $PROJECT/examples/ci/release"),
		p.shell("examples/pytorch/walk.sh", 0, []string{"OUT=" + filepath.Join(work, "walk")},
			"$PROJECT/examples/pytorch/walk.sh | tee walk.txt",
			"grep -q 'FAIL: ptq.onnx against model.onnx' walk.txt",
			"grep -q 'PASS: cf-ptq.onnx against model.onnx' walk.txt"))
}

// action runs the steps of action.yml as GitHub would.
func (p place) action(model, verdict string, code int) error {
	var a struct {
		Inputs map[string]struct{ Default string }
		Runs   struct {
			Steps []struct {
				Name, Uses, Run string
				Env             map[string]string
			}
		}
	}
	if err := p.yaml("action.yml", &a); err != nil {
		return err
	}
	values := map[string]string{"github.action_path": p.project, "runner.temp": p.work}
	for name, in := range a.Inputs {
		values["inputs."+name] = in.Default
	}
	for _, own := range [][2]string{
		{"releases", p.release()},
		{"full", "model.onnx"},
		{"quantized", model},
		{"data", "test.csv"},
		{"task", "task.yaml"},
		{"gate", "gate.yaml"},
	} {
		values["inputs."+own[0]] = own[1]
	}
	summary, output := filepath.Join(p.work, "summary.md"), filepath.Join(p.work, "output")
	if err := errors.Join(os.WriteFile(summary, nil, 0o600), os.WriteFile(output, nil, 0o600)); err != nil {
		return err
	}
	for i, s := range a.Runs.Steps {
		if s.Run == "" {
			fmt.Printf("== %s: only GitHub runs %s\n", s.Name, s.Uses)
			continue
		}
		env := append(p.bare(), "GITHUB_ACTION_PATH="+p.project, "GITHUB_STEP_SUMMARY="+summary, "GITHUB_OUTPUT="+output,
			"RUNNER_TEMP="+p.work)
		for name, v := range s.Env {
			env = append(env, name+"="+expand(v, values))
		}
		want := 0
		if i == len(a.Runs.Steps)-1 {
			want = code
		}
		if err := p.shell("action.yml, "+model+", "+s.Name, want, env, expand(s.Run, values)); err != nil {
			return err
		}
	}
	return errors.Join(
		contains(summary, verdict), contains(output, "verdict="+verdict),
		p.reports("cfq-report", verdict))
}

// gitlab runs the template's job as GitLab's runner would.
func (p place) gitlab(model string, code int) error {
	var jobs map[string]struct {
		Variables    map[string]string
		BeforeScript []string `yaml:"before_script"`
		Script       []string
	}
	if err := p.yaml(filepath.Join("examples", "ci", "gitlab.yml"), &jobs); err != nil {
		return err
	}
	j, ok := jobs[".cfq-gate"]
	if !ok {
		return errors.New("there is no job .cfq-gate")
	}
	env := p.bare()
	for name, v := range j.Variables {
		env = append(env, name+"="+v)
	}
	env = append(env, "CFQ_RELEASES=file://"+p.release(), "FULL=model.onnx", "QUANTIZED="+model,
		"CFQ_DATA=test.csv", "CFQ_TASK=task.yaml", "CFQ_GATE=gate.yaml", "OUT=gitlab-report")
	if err := p.shell("examples/ci/gitlab.yml, "+model, code, env, append(j.BeforeScript, j.Script...)...); err != nil {
		return err
	}
	return p.reports("gitlab-report", "")
}

// release is the folder of the release that pipelines install: `make release` wrote it.
func (p place) release() string { return filepath.Join(p.project, "build", "release") }

// bare is the environment of a machine that has neither Go nor this project's programs and cache.
func (p place) bare() []string {
	return []string{"PATH=/usr/bin:/bin", "CFQ_CACHE_DIR=" + filepath.Join(p.work, "no-cache")}
}

// reports checks that every report is there.
func (p place) reports(dir, verdict string) error {
	var errs []error
	for _, r := range [][2]string{
		{"gate.md", verdict},
		{"gate.xml", "<testsuite"},
		{"gate.json", `"schema"`},
		{"gate.html", "<html"},
	} {
		errs = append(errs, contains(filepath.Join(p.work, dir, r[0]), r[1]))
	}
	return errors.Join(errs...)
}

// shell runs commands in the user's folder and expects an exit code.
func (p place) shell(title string, code int, env []string, commands ...string) error {
	fmt.Println("==", title)
	c := exec.Command("bash", "-e", "-c", strings.Join(commands, "\n"))
	c.Dir, c.Stdout, c.Stderr = p.work, os.Stdout, os.Stderr
	own := []string{
		"PROJECT=" + p.project, "CFQ_LOOKS_FILE=none", // each pipeline judges the same two models
		"PATH=" + filepath.Join(p.project, "bin") + ":" + os.Getenv("PATH"),
	}
	c.Env = slices.Concat(os.Environ(), own, env)
	err := c.Run()
	if got := c.ProcessState.ExitCode(); got != code {
		return errors.Join(fmt.Errorf("%s: exit code %d, want %d", title, got, code), err)
	}
	return nil
}

func (p place) yaml(name string, v any) error {
	data, err := os.ReadFile(filepath.Join(p.project, name))
	if err != nil {
		return err
	}
	return yaml.Unmarshal(data, v)
}

// expand puts values in the place of ${{ expressions }}.
func expand(s string, values map[string]string) string {
	return regexp.MustCompile(`\$\{\{ *([a-z_.-]+) *\}\}`).ReplaceAllStringFunc(s, func(e string) string {
		return values[strings.TrimSpace(strings.Trim(e, "${}"))]
	})
}

func contains(path, text string) error {
	data, err := os.ReadFile(path)
	if err == nil && !strings.Contains(string(data), text) {
		err = fmt.Errorf("%s does not say %q", path, text)
	}
	return err
}
