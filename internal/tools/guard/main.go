// Guard shows that a change of the code changes no result: it builds an earlier commit and the working tree, runs the
// same commands with both, and compares what they write.
//
//	go run -C internal/tools ./guard -base COMMIT [-only PATTERN] [-keep DIR]
//
// Graphs without their metadata, plans and tables must be equal byte for byte, and numbers in JSON to 1e-12. What
// is meant to differ stands in the tables of this program: flags and keys that were renamed, keys that were deleted.
// The models and data next to the project are used where they are.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	base := flag.String("base", "b786830", "the commit to compare with")
	only := flag.String("only", "", "regular expression of the cases to run")
	keep := flag.String("keep", "", "folder that keeps what the commands write")
	shared := flag.String("shared", os.Getenv("CFQ_SHARED"), "folder of models and data; else next to the project")
	flag.Parse()
	if err := run(context.Background(), *base, *only, *keep, *shared); err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, base, only, keep, shared string) (err error) {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	root, err := output(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	if shared == "" {
		shared = filepath.Join(root, "..", "shared")
	}
	work := keep
	if work == "" {
		if work, err = os.MkdirTemp("", "guard"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	}
	if work, err = filepath.Abs(work); err != nil {
		return err
	}
	before, err := buildBase(ctx, root, base, work)
	if err != nil {
		return err
	}
	after := side{name: "after", dir: filepath.Join(work, "after"), program: filepath.Join(work, "cfq-after")}
	if _, err := output(ctx, root, "go", "build", "-o", after.program, "./cmd/cfq"); err != nil {
		return err
	}
	for _, s := range []side{before, after} {
		if err := os.MkdirAll(s.dir, 0o755); err != nil {
			return err
		}
	}
	models, err := models(root, shared)
	if err != nil {
		return err
	}
	different, count := 0, 0
	for _, m := range models {
		for _, c := range m.cases() {
			if !pattern.MatchString(c.name) {
				continue
			}
			count++
			problem := c.compare(ctx, before, after)
			if problem != nil {
				different++
				fmt.Printf("DIFFERS %s: %v\n", c.name, problem)
			} else {
				fmt.Println("equal  ", c.name)
			}
		}
	}
	fmt.Printf("%d of %d cases differ from %s\n", different, count, base)
	if different > 0 || count == 0 {
		return fmt.Errorf("%d of %d cases differ", different, count)
	}
	return nil
}

// side is one of the two programs, and the folder in which its commands run.
type side struct{ name, dir, program string }

// buildBase builds the program of a commit from a worktree that is removed again.
func buildBase(ctx context.Context, root, commit, work string) (s side, err error) {
	s = side{name: "before", dir: filepath.Join(work, "before"), program: filepath.Join(work, "cfq-before")}
	tree := filepath.Join(work, "tree")
	if _, err := output(ctx, root, "git", "worktree", "add", "--detach", "--force", tree, commit); err != nil {
		return s, err
	}
	defer func() {
		_, e := output(ctx, root, "git", "worktree", "remove", "--force", tree)
		err = errors.Join(err, e)
	}()
	_, err = output(ctx, tree, "go", "build", "-o", s.program, "./cmd/cfq")
	return s, err
}

func output(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, problems.String())
	}
	return strings.TrimSpace(string(out)), nil
}
