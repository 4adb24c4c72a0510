package gate

import "cfq/internal/config"

// Schema returns the JSON Schema (draft 2020-12) of the gate file, for editors: from the keys that the decoder reads by. A file that it accepts may
// still have mistakes, such as a waiver of a check that does not exist.
func Schema() []byte {
	return config.Object(newDecoder("").gateKeys(&Gate{}, &parts{})).Document("gate", "cfq gate file")
}

// checkForm is a check: one with a limit.
func checkForm() schema {
	s := config.Object(newDecoder("").checkKeys(&Check{}))
	var limits []schema
	for side := atMost; side <= gap; side++ {
		limits = append(limits, schema{"required": []string{side.text().key}})
	}
	s["anyOf"] = limits
	s["dependentRequired"] = schema{"max_gap": []string{"by"}}
	return s
}

func textForm() schema  { return schema{"type": "string", "minLength": 1} }
func countForm() schema { return schema{"type": "integer", "minimum": 1} }

// someOf is a list that is not empty.
func someOf(item func() schema) schema {
	s := config.ListOf(item)()
	s["minItems"] = 1
	return s
}
