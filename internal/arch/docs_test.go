package arch

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// README.md links every page of the documentation.
func TestIndex(t *testing.T) {
	index := string(read(t, "README.md"))
	walk(t, func(name string) {
		if path.Ext(name) == ".md" && path.Dir(name) == "docs" && !strings.Contains(index, "("+name+")") {
			t.Errorf("README.md does not link %s", name)
		}
	})
}

// Every link within the project leads to a file, and to a heading of it if it names one.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	walk(t, func(name string) {
		if path.Ext(name) != ".md" {
			return
		}
		for _, m := range link.FindAllStringSubmatch(string(read(t, name)), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := name
			if target != "" {
				file = path.Join(path.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, m[1])
			} else if anchor != "" && !slices.Contains(anchors(string(read(t, file))), anchor) {
				t.Errorf("%s links to %s, which has no such heading", name, m[1])
			}
		}
	})
}

// anchors are the fragments by which headings of a page are linked to.
func anchors(page string) []string {
	var found []string
	for line := range strings.Lines(page) {
		level := len(line) - len(strings.TrimLeft(line, "#"))
		if level == 0 || !strings.HasPrefix(line[level:], " ") {
			continue
		}
		id := strings.Map(func(r rune) rune {
			switch {
			case r == ' ' || r == '-':
				return '-'
			case r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
				return r
			}
			return -1
		}, strings.ToLower(strings.TrimSpace(line[level:])))
		found = append(found, id)
	}
	return found
}
