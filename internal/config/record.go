package config

import (
	"encoding/json"
	"fmt"
	"os"
)

// EncodeRecord is the content of a file that cfq keeps next to another one: JSON, of which a key schema names the
// layout.
func EncodeRecord(v any) []byte {
	text, _ := json.MarshalIndent(v, "", "  ") // of texts and finite numbers
	return append(text, '\n')
}

// ReadRecord reads a file of EncodeRecord. The error wraps fs.ErrNotExist when there is none.
func ReadRecord(path, schema string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return DecodeRecord(text, schema, into)
}

// DecodeRecord is ReadRecord of the content.
func DecodeRecord(text []byte, schema string, into any) error {
	var head struct{ Schema string }
	err := json.Unmarshal(text, &head)
	switch {
	case head.Schema != schema && head.Schema != "":
		return fmt.Errorf("it has the schema %.40q, not %q: it was written by another version of cfq, or by something else",
			head.Schema, schema)
	case head.Schema == "" && json.Valid(text):
		return fmt.Errorf("it has no schema %q: this is another file", schema)
	case err == nil:
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("it is not whole: %w", err)
	}
	return nil
}

// Parsed is what parse makes of a file, which errors call what.
func Parsed[T any](what, path string, parse func([]byte) (T, error)) (T, error) {
	var none T
	text, err := os.ReadFile(path)
	if err != nil {
		return none, fmt.Errorf("%s: %w", what, err)
	}
	v, err := parse(text)
	if err != nil {
		return none, fmt.Errorf("%s %s: %w", what, path, err)
	}
	return v, nil
}
