package command

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cfq/internal/must"
)

func streaming(t *testing.T, flags ...string) *exec.Cmd {
	t.Helper()
	c := newWorkdir(t).command(append([]string{"recourse", loans("model.onnx"), "-t", loans("task.yaml")}, flags...)...)
	c.Stdin, c.Stderr = nil, os.Stderr
	return c
}

func loanRows(t *testing.T) (header string, rows []string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(string(firstLoans(t, "test.csv", 300)), "\n"), "\n")
	for i, line := range lines[1:] {
		rows = append(rows, fmt.Sprintf("%d,%s", i, line))
	}
	return "id," + lines[0], rows
}

func answers(t *testing.T, in io.Reader, flags ...string) []string {
	t.Helper()
	c := streaming(t, flags...)
	c.Stdin = in
	return strings.Split(strings.TrimSuffix(string(must.Get(c.Output())(t)), "\n"), "\n")
}

// TestStreamPartition: the answer to a row is the same bytes in whatever order and company the rows come, however many
// at a time, whatever the number of workers, and the same as in a promises file.
func TestStreamPartition(t *testing.T) {
	header, rows := loanRows(t)
	all := func(rows []string) io.Reader {
		return strings.NewReader(header + "\n" + strings.Join(rows, "\n") + "\n")
	}
	whole := answers(t, all(rows), "--stream", "--keep", "id")
	must.Same(t, len(rows)+1, len(whole))

	dir := t.TempDir()
	data := filepath.Join(dir, "data.csv")
	put(t, data, firstLoans(t, "test.csv", len(rows)))
	file := streaming(t, "-d", data, "-o", filepath.Join(dir, "promises.csv"), "-q")
	must.Do(t, file.Run())
	promises := must.Get(os.ReadFile(filepath.Join(dir, "promises.csv")))(t)
	for i, line := range strings.Split(strings.TrimSuffix(string(promises), "\n"), "\n") {
		_, want, _ := strings.Cut(line, ",") // the row
		_, want, _ = strings.Cut(want, ",")  // and the line
		if _, got, _ := strings.Cut(whole[i], ","); got != want {
			t.Errorf("line %d: %s in a promises file, streamed %s", i+1, want, got)
		}
	}

	order := rand.New(rand.NewPCG(1, 2)).Perm(len(rows)) //nolint:gosec // a test
	var mixed, want []string
	for _, i := range order {
		mixed, want = append(mixed, rows[i]), append(want, whole[i+1])
	}
	must.Same(t, want, answers(t, all(mixed), "--stream", "--keep", "id", "--workers", "3")[1:])

	var parts []string
	for part := range slices.Chunk(rows, 100) {
		parts = append(parts, answers(t, strings.NewReader(strings.Join(part, "\n")), "--stream", "--keep", "id", "--columns",
			header)...)
	}
	must.Same(t, whole[1:], parts)

	r, w := io.Pipe()
	go func() {
		defer w.Close()
		fmt.Fprintln(w, header)
		for part := range slices.Chunk(rows[:60], 7) {
			fmt.Fprintln(w, strings.Join(part, "\n"))
			time.Sleep(150 * time.Millisecond)
		}
	}()
	must.Same(t, whole[:61], answers(t, r, "--stream", "--keep", "id"))
}

func TestStreamAnswers(t *testing.T) {
	header, rows := loanRows(t)
	c := streaming(t, "--stream", "--keep", "id")
	in, out := must.Get(c.StdinPipe())(t), must.Get(c.StdoutPipe())(t)
	must.Do(t, c.Start())
	defer c.Process.Kill()
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	expect := func(prefix string) {
		t.Helper()
		select {
		case line := <-lines:
			if !strings.HasPrefix(line, prefix) {
				t.Fatalf("%q, want %s...", line, prefix)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("no answer %s", prefix)
		}
	}
	fmt.Fprintln(in, header)
	expect("id,status,")
	for i := range 3 {
		fmt.Fprintln(in, rows[i])
		expect(fmt.Sprintf("%d,", i))
	}
	in.Close()
	must.Do(t, c.Wait())
}

func TestStreamInterrupted(t *testing.T) {
	header, rows := loanRows(t)
	c := streaming(t, "--stream", "--keep", "id")
	var messages bytes.Buffer
	c.Stderr = &messages
	in, out := must.Get(c.StdinPipe())(t), must.Get(c.StdoutPipe())(t)
	must.Do(t, c.Start())
	go func() { // until nobody reads
		fmt.Fprintln(in, header)
		for {
			if _, err := fmt.Fprintln(in, strings.Join(rows, "\n")); err != nil {
				return
			}
		}
	}()
	var got []byte
	buf, stopped := make([]byte, 1<<12), false
	for {
		n, err := out.Read(buf)
		if got = append(got, buf[:n]...); err != nil {
			break
		}
		if !stopped && bytes.Count(got, []byte("\n")) > 100 {
			stopped = true
			_ = c.Process.Signal(syscall.SIGINT)
		}
	}
	err := c.Wait()
	if c.ProcessState.ExitCode() != 130 || messages.String() != "cfq: error: interrupted\n" {
		t.Errorf("%v, %q", err, messages.String())
	}
	lines := strings.Split(string(got), "\n")
	must.Same(t, "", lines[len(lines)-1])
	for _, line := range lines[:len(lines)-1] {
		must.Same(t, strings.Count(lines[0], ","), strings.Count(line, ","))
	}
}

// The runtime aborts where memory ends.
func TestStreamWaits(t *testing.T) {
	for sent, want := range map[syscall.Signal]string{
		syscall.SIGINT: "exit status 130", syscall.SIGABRT: "signal: aborted",
	} {
		c := streaming(t, "--stream")
		must.Get(c.StdinPipe())(t)
		c.Stderr = nil
		must.Do(t, c.Start())
		stop := time.AfterFunc(20*time.Second, func() { _ = c.Process.Kill() })
		time.Sleep(time.Second)
		_ = c.Process.Signal(sent)
		_ = c.Wait()
		stop.Stop()
		must.Has(t, c.ProcessState.String(), want)
	}
}
