package task

import (
	_ "embed"
	"slices"
	"strings"

	"cfq/internal/config"
)

// reference is the reference page of the task file. The schema describes keys by its tables.
//
//go:embed reference.txt
var reference string

// Markdown returns the reference page of the task file.
func Markdown() string { return reference }

// referenceTable returns the cells of a section's table by row: key, what it is, what holds without it, and kinds.
func referenceTable(section string) (rows [][]string) {
	_, text, _ := strings.Cut(reference, "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for line := range strings.Lines(text) {
		if row, ok := strings.CutPrefix(line, "| `"); ok {
			cells := strings.Split(strings.TrimSuffix(row, " |\n"), " | ")
			cells[0] = strings.TrimSuffix(cells[0], "`")
			rows = append(rows, cells)
		}
	}
	return rows
}

func object(section string, keys []key) func() schema {
	return func() schema {
		for _, row := range referenceTable(section) {
			if i := slices.IndexFunc(keys, func(k key) bool { return k.Name == row[0] }); i >= 0 {
				if keys[i].Doc = row[1]; keys[i].Fallback != required {
					keys[i].Fallback = row[2]
				}
			}
		}
		return config.Object(keys)
	}
}

// Schema returns the JSON Schema (draft 2020-12) of the task file, for editors: from the keys that the decoder reads
// by. A file that it accepts may still have mistakes: names that refer to nothing, numbers that contradict each other.
func Schema() []byte {
	t := &Task{}
	return object("The task file", newDecoder("", t).taskKeys(t))().Document("task", "cfq task file")
}

func pairOf(side func() schema) func() schema {
	return func() schema {
		s := config.ListOf(side)()
		s["minItems"], s["maxItems"] = 2, 2
		return s
	}
}

func percentForm() schema { return schema{"type": "string", "pattern": `^[0-9.]+ ?%$`} }

func mapOf(item func() schema) func() schema {
	return func() schema { return schema{"type": "object", "additionalProperties": item()} }
}
