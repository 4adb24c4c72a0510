package main

import (
	"fmt"

	"cfq/internal/cli"
	"cfq/onnxio/codec"
)

// pairing looks whether each quantized model belongs to the original, as far as the files say. Models the wrong way round are an
// error; what else is doubtful becomes a warning of the report.
func (d *field) pairing() error {
	whole := true // the files hold all there is of the models
	for _, path := range d.paths {
		file, err := source(path)
		if err != nil {
			return err
		}
		d.sources = append(d.sources, file)
		whole = whole && len(codec.ExternalFiles(path)) == 0
	}
	original := recipe(d.files[0])
	for i := 1; i < len(d.paths); i++ {
		switch from := recipe(d.files[i])["model"]; {
		case original["model"] != "" && original["model"] == d.sources[i].SHA256:
			return cli.Usagef("the original comes first, what was made of it afterwards",
				"%s was quantized from %s: the two stand the wrong way round", d.paths[0], d.paths[i])
		case whole && d.sources[0].SHA256 == d.sources[i].SHA256:
			d.same = true
			d.warn("%s and %s have the same content: a model keeps all promises of its own", d.paths[0], d.paths[i])
		case from != "" && from != d.sources[0].SHA256:
			d.warn("%s was quantized from another model than %s (its recipe says %.12s, and this is %.12s)", d.paths[i], d.paths[0], from, d.sources[0].SHA256)
		}
	}
	if len(original) > 0 && !d.same {
		d.warn("%s was itself quantized: the promises are its own, and not those of the model that it was made from", d.paths[0])
	}
	for i := 2; i < len(d.paths); i++ {
		for k := 1; k < i; k++ {
			if whole && d.sources[i].SHA256 == d.sources[k].SHA256 {
				d.warn("%s and %s have the same content", d.paths[k], d.paths[i])
			}
		}
	}
	return nil
}

// warn keeps a doubt for the report.
func (d *field) warn(format string, args ...any) {
	d.warnings = append(d.warnings, fmt.Sprintf(format, args...))
}

// strayMargin is how far, in logits, the margins that a promises file states may be from those found for a gate to rest on it.
const strayMargin = 0.05

// foreign is an error when the promises are clearly not those of the original to these people.
func (d *field) foreign() error {
	if d.given == nil || !(d.stray > strayMargin) {
		return nil
	}
	return cli.Wrap(fmt.Errorf("promises %s: the margins that the file states are up to %.3g logits from those of %s: it was made for another model, task or data",
		d.f.promises, d.stray, d.paths[0]), cli.Unusable, "make the promises anew with cfq recourse for this model and these people")
}
