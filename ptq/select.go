package ptq

import (
	"cmp"
	"errors"
	"fmt"
	"path"

	"cfq/internal/message"
	"cfq/quant"
)

// keptInFloat returns, by the names of their nodes, the layers that patterns leave in float, and why. A pattern is a
// name or one of path.Match, in which * stands for anything but a slash. What is not a pattern, or matches no layer, is
// an error: it would silently quantize what was to be kept.
func keptInFloat(layers []quant.LayerInfo, only, keep []string) (map[string]string, error) {
	const listed = 20
	var errs []error
	names := make([]string, len(layers))
	for i, l := range layers {
		names[i] = l.Node
	}
	// by is the first of the patterns that matches each layer.
	by := func(what string, patterns []string) map[string]string {
		found := map[string]string{}
		for _, p := range patterns {
			any := false
			_, bad := path.Match(p, "") // which looks at all of the pattern
			for _, l := range layers {
				if ok, _ := path.Match(p, l.Node); l.Node == p || ok {
					any = true
					found[l.Node] = cmp.Or(found[l.Node], p)
				}
			}
			switch {
			case any:
			case bad == nil:
				errs = append(errs, fmt.Errorf("%s %q matches no layer (* stands for anything but a slash); the layers are %s",
					what, p, message.List(names, listed)))
			default:
				errs = append(errs, fmt.Errorf("%s %q is no pattern: a [ is never closed, or a \\ ends it", what, p))
			}
		}
		return found
	}
	wanted, kept := by("only", only), by("keep in float", keep)
	out := map[string]string{}
	for _, l := range layers {
		switch {
		case kept[l.Node] != "":
			out[l.Node] = fmt.Sprintf("%q keeps it", kept[l.Node])
		case len(only) > 0 && wanted[l.Node] == "":
			out[l.Node] = "it is not among those to quantize"
		}
	}
	return out, errors.Join(errs...)
}
