// Command mutants puts small faults into the core and records whether a test notices.
//
// In: a seed, or an earlier file of outcomes. Out: a row of CSV for each fault, appended when it is known; a run that
// was interrupted continues. The invariant: the source tree is not written, because a fault is an overlay of the build.
//
// Outcomes: caught; survived all tests that depend on the package; survived-near, where -near left some of them out;
// timeout of the tests of a package, to be judged by the reader; gone, where the code no longer exists.
package main

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// core says whether faults are drawn from a package.
func core(pkg string) bool {
	folder, _, _ := strings.Cut(pkg, "/")
	return slices.Contains(strings.Fields("calib qat quant recourse"), folder) ||
		slices.Contains(strings.Fields("allocate eval eval/gate eval/records internal/statistics onnxio/autodiff "+
			"onnxio/classifier onnxio/graph onnxio/lower ptq sensitivity task"), pkg)
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("mutants: ")
	r := run{lines: map[string]int{}, paths: map[string]string{}, sound: map[string]bool{}}
	seed := flag.Uint64("seed", 1, "draws the faults")
	count := flag.Int("n", 100, "faults to draw")
	list := flag.String("list", "", "repeat the faults that this file says were caught, and fail if one survives")
	flag.StringVar(&r.out, "o", "build/mutants.csv", "outcomes")
	flag.IntVar(&r.near, "near", -1, "test the package and this many packages that depend on it (-1: all)")
	flag.DurationVar(&r.limit, "limit", 4*time.Minute, "of the tests of a package; three times that for slow ones")
	flag.Parse()
	err := r.load()
	if err == nil && *list != "" {
		err = r.repeat(*list)
	} else if err == nil {
		err = r.sample(*seed, *count)
	}
	if err != nil {
		log.Fatal("error: ", err)
	}
}

type run struct {
	out, root string
	near      int
	limit     time.Duration
	tests     []pkg
	faults    []fault
	lines     map[string]int      // by folder of the core
	paths     map[string]string   // of imports, by directory
	sound     map[string]bool     // tests that pass without a fault
	done      map[string][]string // rows
}

// pkg is a package or, if it ends in .test, a program of tests.
type pkg struct {
	Dir, ImportPath string
	GoFiles, Deps   []string
}

// slow is positive for packages whose tests take minutes: they run last.
func (p pkg) slow() int {
	return 1 + slices.IndexFunc(strings.Fields("/ptq.test /cmd/cfq.test /tools/command.test"), func(name string) bool {
		return strings.HasSuffix(p.ImportPath, name)
	})
}

// load orders the tests of both modules, those with few dependencies first, and lists the faults of the first module.
func (r *run) load() (err error) {
	if r.done, err = read(r.out); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if r.root, err = os.Getwd(); err != nil {
		return err
	}
	for _, module := range []string{".", "internal/tools"} {
		out, err := exec.Command("go", "list", "-C", module, "-test", "-json=Dir,ImportPath,GoFiles,Deps", "./...").Output()
		if err != nil {
			return fmt.Errorf("go list: %w", err)
		}
		for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
			var p pkg
			if err := d.Decode(&p); err != nil {
				return err
			}
			if strings.HasSuffix(p.ImportPath, ".test") {
				r.tests = append(r.tests, p)
			} else if module == "." && !strings.HasSuffix(p.ImportPath, "]") {
				if err := r.parse(p); err != nil {
					return err
				}
			}
		}
	}
	slices.SortStableFunc(r.tests, func(a, b pkg) int {
		return cmp.Or(cmp.Compare(a.slow(), b.slow()), cmp.Compare(len(a.Deps), len(b.Deps)))
	})
	return nil
}

func (r *run) parse(p pkg) error {
	name, err := filepath.Rel(r.root, p.Dir)
	r.paths[p.Dir] = p.ImportPath
	for _, file := range p.GoFiles {
		src, readErr := os.ReadFile(filepath.Join(p.Dir, file))
		found, parseErr := parse(path.Join(filepath.ToSlash(name), file), src)
		err = cmp.Or(err, readErr, parseErr)
		r.faults = append(r.faults, found...)
		if core(filepath.ToSlash(name)) {
			r.lines[filepath.ToSlash(name)] += bytes.Count(src, []byte("\n"))
		}
	}
	return err
}

// slot is where a fault is drawn.
type slot struct{ pkg, kind string }

// draw spreads slots over the packages by lines and evenly over the kinds, and shuffles them and the faults of each.
func draw(all []fault, lines map[string]int, count int, seed uint64) ([]slot, map[slot][]fault) {
	rng := rand.New(rand.NewPCG(seed, 0))
	queues := map[slot][]fault{}
	for _, i := range rng.Perm(len(all)) {
		s := slot{path.Dir(all[i].file), all[i].kind}
		queues[s] = append(queues[s], all[i])
	}
	total, sum := 0, 0
	for _, n := range lines {
		total += n
	}
	var slots []slot
	for _, pkg := range slices.Sorted(maps.Keys(lines)) {
		sum += lines[pkg]
		for len(slots) < (2*sum*count+total)/(2*total) {
			slots = append(slots, slot{pkg: pkg})
		}
	}
	rng.Shuffle(len(slots), func(i, j int) { slots[i], slots[j] = slots[j], slots[i] })
	for i := range slots {
		slots[i].kind = kinds()[i%len(kinds())]
	}
	return slots, queues
}

func (r *run) sample(seed uint64, count int) (err error) {
	slots, queues := draw(r.faults, r.lines, count, seed)
	slices.SortStableFunc(slots, func(a, b slot) int { // minutes for each
		return cmp.Compare(pkg{ImportPath: "/" + a.pkg + ".test"}.slow(), pkg{ImportPath: "/" + b.pkg + ".test"}.slow())
	})
	for _, s := range slots {
		outcome := ""
		for _, from := range append([]slot{s}, slots...) { // another package where this one has no such fault left
			for outcome == "" && from.kind == s.kind && len(queues[from]) > 0 {
				f := queues[from][0]
				queues[from] = queues[from][1:]
				if outcome, err = r.test(f, ""); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (r *run) repeat(list string) error {
	rows, err := read(list)
	survived := 0
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		row := rows[id]
		if err != nil || row[5] != "caught" {
			continue
		}
		f := fault{file: row[0], function: row[1], kind: row[2], original: row[3]}
		f.ordinal, _ = strconv.Atoi(row[4])
		outcome := ""
		if now, ok := find(r.faults, f); ok {
			outcome, err = r.test(now, row[6])
		}
		if outcome == "" && err == nil {
			err = r.write(f, "gone", "", 0)
		}
		if strings.HasPrefix(outcome, "survived") {
			survived++
		}
	}
	if err == nil && survived > 0 {
		err = fmt.Errorf("%d faults that were caught survive: see %s", survived, r.out)
	}
	return err
}

// test runs the tests that can notice a fault, first those that did before. Without an outcome it does not compile.
func (r *run) test(f fault, before string) (outcome string, err error) {
	if row := r.done[key(f.fields())]; row != nil {
		tested, _ := strconv.Atoi(strings.Fields(row[6] + " 0")[0]) // for survived-near
		if row[5] != "survived-near" || r.near >= 0 && tested > r.near {
			return row[5], nil
		}
	}
	tmp, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	started := time.Now()
	file := filepath.Join(r.root, f.path)
	faulty, overlay := filepath.Join(tmp, "faulty.go"), filepath.Join(tmp, "overlay.json")
	src, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	src = slices.Concat(src[:f.from], []byte(f.with), src[f.to:])
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{file: faulty}})
	if err = cmp.Or(err, os.WriteFile(faulty, src, 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		return "", err
	}
	env := append(os.Environ(), "CFQ_REQUIRE_ORT=1", "GOGC=400")
	// In the environment, so that builds within tests have it, too.
	with := slices.Concat(env, []string{"GOFLAGS=" + os.Getenv("GOFLAGS") + " -overlay=" + overlay})
	build := exec.Command("go", "build", "-C", filepath.Dir(file))
	if build.Env = with; build.Run() != nil {
		return "", nil
	}
	tests := r.dependents(filepath.Dir(file), before)
	by := ""
	for i, p := range tests {
		if r.near >= 0 && i > r.near {
			outcome, by = "survived-near", fmt.Sprintf("%d of %d packages", i, len(tests))
			break
		}
		if outcome, by = r.runTests(p, with); outcome == "survived" {
			continue
		}
		if !r.sound[p.Dir] {
			if outcome, by := r.runTests(p, env); outcome != "survived" {
				return "", fmt.Errorf("without a fault, %s: %s", outcome, by)
			}
			r.sound[p.Dir] = true
		}
		break
	}
	return outcome, r.write(f, outcome, by, time.Since(started))
}

// dependents are the tests of a package and of those that depend on it, in the order in which they are run.
func (r *run) dependents(dir, before string) []pkg {
	first, own, others := []pkg{}, []pkg{}, []pkg{}
	for _, p := range r.tests {
		uses := func(dep string) bool { dep, _, _ = strings.Cut(dep, " ["); return dep == r.paths[dir] }
		switch {
		case before != "" && p.ImportPath == strings.Fields(before)[0]+".test":
			first = append(first, p)
		case p.Dir == dir:
			own = append(own, p)
		case slices.ContainsFunc(p.Deps, uses), strings.HasSuffix(p.ImportPath, "/tools/command.test"): // it builds cfq
			others = append(others, p)
		}
	}
	return slices.Concat(first, own, others)
}

// runTests also says which package and test failed.
func (r *run) runTests(p pkg, env []string) (outcome, by string) {
	limit := r.limit
	if p.slow() > 0 {
		limit *= 3
	}
	cmd := exec.Command("go", "test", "-json", "-count=1", "-failfast", "-vet=off", "-timeout", limit.String())
	cmd.Dir = p.Dir
	cmd.Env = env
	out, err := cmd.Output()
	by = strings.TrimSuffix(p.ImportPath, ".test")
	if err == nil {
		return "survived", by
	}
	test := "" // that failed or, if the program ended without saying so, that ran last
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var e struct{ Action, Test string }
		if d.Decode(&e) != nil {
			break
		}
		test = cmp.Or(e.Test, test)
		if e.Action == "fail" {
			break
		}
	}
	by = strings.TrimSpace(by + " " + test)
	if bytes.Contains(out, []byte("panic: test timed out after")) {
		return "timeout", by
	}
	return "caught", by
}

func (r *run) write(f fault, outcome, by string, took time.Duration) error {
	row := append(f.fields(), outcome, by, fmt.Sprintf("%.0f", took.Seconds()))
	r.done[key(row)] = row
	file, err := os.OpenFile(r.out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	w := csv.NewWriter(file)
	err = w.Write(row)
	w.Flush()
	return cmp.Or(err, w.Error(), file.Close())
}

// read returns the last row of each fault.
func read(name string) (map[string][]string, error) {
	rows := map[string][]string{}
	file, err := os.Open(name)
	if err != nil {
		return rows, err
	}
	defer file.Close()
	records, err := csv.NewReader(file).ReadAll()
	for _, r := range records {
		rows[key(r)] = r
	}
	return rows, err
}
