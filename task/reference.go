package task

import (
	_ "embed"
	"strings"

	"cfq/internal/config"
)

// reference is the reference page of the task file. The schema describes keys by its tables.
//
//go:embed reference.txt
var reference string

// Markdown returns the reference page of the task file.
func Markdown() string { return reference }

func object(section string, keys []key) func() schema {
	return func() schema {
		_, table, _ := strings.Cut(reference, "\n## "+section+"\n")
		table, _, _ = strings.Cut(table, "\n## ")
		for i := range keys {
			_, row, _ := strings.Cut(table, "\n| `"+keys[i].Name+"` | ")
			row, _, _ = strings.Cut(row, " |\n")
			cells := append(strings.Split(row, " | "), "")
			keys[i].Doc = cells[0]
			if keys[i].Fallback != required {
				keys[i].Fallback = cells[1]
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

func pairOf(side func() schema, others ...func() schema) func() schema {
	if others != nil {
		side = config.AnyOf(append([]func() schema{side}, others...)...)
	}
	return func() schema {
		s := config.ListOf(side)()
		s["minItems"], s["maxItems"] = 2, 2
		return s
	}
}

func sideForm() schema { return config.Type("number", "null")() }

func percentForm() schema { return schema{"type": "string", "pattern": `^[0-9.]+ ?%$`} }

func mapOf(item func() schema) func() schema {
	return func() schema { return schema{"type": "object", "additionalProperties": item()} }
}
