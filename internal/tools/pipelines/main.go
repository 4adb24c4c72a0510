// Pipelines runs the pipelines that the project offers, step by step, on this machine.
//
// In: action.yml, examples/ci/gitlab.yml, examples/ci/Makefile and examples/pytorch/walk.sh of this checkout, and the loan example. Out: what each step prints;
// an error when a step ends otherwise than it must, or a report is missing. The invariant: what is run are the
// files themselves, not copies of their commands. Steps that only GitHub can run ("uses") are named and left out.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "pipelines: error:", err)
		os.Exit(1) //nolint:gocritic // nothing is left open
	}
}

// place is where the pipelines run: a user's repository beside this one.
type place struct {
	ctx     context.Context //nolint:containedctx // lives as long as the program
	project string          // this checkout
	work    string          // the user's files
}

// run makes a good and a bad quantized model, and has each pipeline judge them.
func run(ctx context.Context) error {
	project, err := os.Getwd()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "pipelines-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // a temporary folder
	p := &place{ctx, project, work}
	loans := filepath.Join(project, "testdata", "loans")
	for _, name := range []string{"model.onnx", "train.csv", "test.csv", "task.yaml"} {
		if err := copyFile(filepath.Join(loans, name), filepath.Join(work, name)); err != nil {
			return err
		}
	}
	if err := copyFile(filepath.Join(project, "examples", "ci", "gate.yaml"), filepath.Join(work, "gate.yaml")); err != nil {
		return err
	}
	cfq := filepath.Join(project, "bin", "cfq")
	for _, m := range []struct{ file, method string }{{"good.onnx", "cf-ptq"}, {"bad.onnx", "mixed-ptq"}} {
		err := p.shell(nil, fmt.Sprintf("%s quantize model.onnx -d train.csv -t task.yaml -o %s --method %s --budget 4 -q >/dev/null", cfq, m.file, m.method), 0)
		if err != nil {
			return err
		}
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
	}
	fmt.Println("== examples/ci/Makefile")
	make := fmt.Sprintf("make -C %s CFQ=%s BUILD=%s release/model.q.onnx && rm -r %s", filepath.Join(project, "examples", "ci"), cfq, filepath.Join(work, "build"),
		filepath.Join(project, "examples", "ci", "release"))
	if err := p.shell(nil, make, 0); err != nil {
		return fmt.Errorf("examples/ci/Makefile: %w", err)
	}
	fmt.Println("== examples/pytorch/walk.sh")
	walk := fmt.Sprintf("OUT=%s %s | tee walk.txt", filepath.Join(work, "walk"), filepath.Join(project, "examples", "pytorch", "walk.sh"))
	if err := p.shell(nil, walk, 0); err != nil {
		return fmt.Errorf("examples/pytorch/walk.sh: %w", err)
	}
	for _, said := range []string{"FAIL: ptq.onnx against model.onnx", "PASS: cf-ptq.onnx against model.onnx"} {
		if err := contains(filepath.Join(work, "walk.txt"), said); err != nil {
			return err
		}
	}
	fmt.Println("== all pipelines did what they must")
	return nil
}

// action is what of action.yml is run.
type action struct {
	Inputs map[string]struct {
		Default  string `yaml:"default"`
		Required bool   `yaml:"required"`
	} `yaml:"inputs"`
	Runs struct {
		Steps []struct {
			Name, Uses, Run string
			Env             map[string]string
		}
	}
}

// action runs the steps of action.yml as GitHub would.
func (p *place) action(model, verdict string, code int) error {
	fmt.Printf("== action.yml, %s\n", model)
	var a action
	if err := p.yaml("action.yml", &a); err != nil {
		return err
	}
	values := map[string]string{"github.action_path": p.project}
	for name, in := range a.Inputs {
		values["inputs."+name] = in.Default
	}
	for name, v := range map[string]string{"full": "model.onnx", "quantized": model, "data": "test.csv", "task": "task.yaml", "gate": "gate.yaml"} {
		values["inputs."+name] = v
	}
	summary, output := filepath.Join(p.work, "summary.md"), filepath.Join(p.work, "output")
	for _, file := range []string{summary, output} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			return err
		}
	}
	for i, s := range a.Runs.Steps {
		if s.Run == "" {
			fmt.Printf("-- %s: only GitHub runs %s\n", s.Name, s.Uses)
			continue
		}
		fmt.Printf("-- %s\n", s.Name)
		env := []string{"GITHUB_ACTION_PATH=" + p.project, "GITHUB_STEP_SUMMARY=" + summary, "GITHUB_OUTPUT=" + output}
		for name, v := range s.Env {
			env = append(env, name+"="+expand(v, values))
		}
		want := 0
		if i == len(a.Runs.Steps)-1 {
			want = code
		}
		if err := p.shell(env, expand(s.Run, values), want); err != nil {
			return fmt.Errorf("step %s: %w", s.Name, err)
		}
	}
	return errors.Join(
		contains(summary, verdict), contains(output, "verdict="+verdict),
		p.reports(filepath.Join(p.work, "cfq-report"), verdict))
}

// job is what of the GitLab template is run.
type job struct {
	Variables    map[string]string `yaml:"variables"`
	BeforeScript []string          `yaml:"before_script"`
	Script       []string          `yaml:"script"`
}

// gitlab runs the template's job as GitLab's runner would.
func (p *place) gitlab(model string, code int) error {
	fmt.Printf("== examples/ci/gitlab.yml, %s\n", model)
	var jobs map[string]job
	if err := p.yaml(filepath.Join("examples", "ci", "gitlab.yml"), &jobs); err != nil {
		return err
	}
	j, ok := jobs[".cfq-gate"]
	if !ok {
		return errors.New("there is no job .cfq-gate")
	}
	link := filepath.Join(p.work, "cfq")
	if err := os.Symlink(p.project, link); err != nil {
		return err
	}
	defer os.Remove(link) //nolint:errcheck // a link
	var env []string
	for name, v := range j.Variables {
		env = append(env, name+"="+v)
	}
	env = append(env, "FULL=model.onnx", "QUANTIZED="+model, "CFQ_DATA=test.csv", "CFQ_TASK=task.yaml", "CFQ_GATE=gate.yaml", "OUT=gitlab-report")
	if err := p.shell(env, strings.Join(append(j.BeforeScript, j.Script...), "\n"), code); err != nil {
		return err
	}
	return p.reports(filepath.Join(p.work, "gitlab-report"), "")
}

// reports checks that every report is there.
func (p *place) reports(dir, verdict string) error {
	var errs []error
	for name, text := range map[string]string{"gate.md": verdict, "gate.xml": "<testsuite", "gate.json": `"schema"`, "gate.html": "<html", "people.csv": "row"} {
		errs = append(errs, contains(filepath.Join(dir, name), text))
	}
	return errors.Join(errs...)
}

// shell runs commands in the user's folder and expects an exit code.
func (p *place) shell(env []string, commands string, code int) error {
	c := exec.CommandContext(p.ctx, "bash", "-e", "-c", commands)
	said := &indented{}
	c.Dir, c.Env, c.Stdout, c.Stderr = p.work, append(os.Environ(), env...), said, said
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	if got := c.ProcessState.ExitCode(); got != code {
		return fmt.Errorf("exit code %d in place of %d", got, code)
	}
	return nil
}

// indented sets what is written to it apart from what this program says: a gate that has to fail is no failure.
type indented struct{ within bool }

func (w *indented) Write(b []byte) (int, error) {
	for line := range strings.SplitAfterSeq(string(b), "\n") {
		if line == "" {
			continue
		}
		if !w.within {
			fmt.Print("  | ")
		}
		fmt.Print(line)
		w.within = !strings.HasSuffix(line, "\n")
	}
	return len(b), nil
}

func (p *place) yaml(name string, v any) error {
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

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}
