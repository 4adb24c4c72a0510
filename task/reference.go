package task

import (
	_ "embed"
	"strings"

	"cfq/internal/config"
)

// reference is the reference page of the task file. Its tables describe the keys of each mapping, and so does the
// schema by them.
//
//go:embed reference.txt
var reference string

// Markdown returns the reference page of the task file.
func Markdown() string { return reference }

// object is the form of a mapping with the given keys, which the table of a section of the reference page describes.
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
	keys := newDecoder("").taskKeys(&Task{}, &parts{})
	return object("The task file", keys)().Document("task", "cfq task file")
}

func scalarForm() schema { return schema{"type": []string{"string", "number", "boolean"}} }
func flagForm() schema   { return schema{"type": "boolean"} }
func countForm() schema  { return schema{"type": "integer", "minimum": 0} }
func charForm() schema {
	return schema{"type": []string{"string", "number"}, "minLength": 1, "maxLength": 1}
}

// sideForm is one side of bounds: open, a number, or a percentile.
func sideForm() schema {
	return anyOf(func() schema { return schema{"type": []string{"number", "null"}} }, percentForm)()
}

func percentForm() schema { return schema{"type": "string", "pattern": `^[0-9.]+ ?%$`} }

// pairForm is bounds.
func pairForm() schema {
	s := config.ListOf(sideForm)()
	s["minItems"], s["maxItems"] = 2, 2
	return s
}

func oneOrMore(item func() schema) func() schema { return anyOf(item, config.ListOf(item)) }

// mapOf is a mapping whose keys the file chooses.
func mapOf(item func() schema) func() schema {
	return func() schema { return schema{"type": "object", "additionalProperties": item()} }
}

func anyOf(forms ...func() schema) func() schema {
	return func() schema {
		all := make([]schema, len(forms))
		for i, f := range forms {
			all[i] = f()
		}
		return schema{"anyOf": all}
	}
}

func oneOf(words []string) func() schema { return func() schema { return schema{"enum": words} } }
