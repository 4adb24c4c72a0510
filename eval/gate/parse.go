package gate

import (
	"github.com/goccy/go-yaml/ast"

	"cfq/internal/config"
)

// Load reads a gate file in YAML or JSON. Mistakes in it are returned as Errors.
func Load(path string) (*Gate, error) {
	data, err := config.Content("gate file", path)
	if err != nil {
		return nil, err
	}
	return parse(path, data)
}

// Parse reads a gate file's content. Mistakes are returned as Errors: all of them, those that Gate.Check finds included.
func Parse(data []byte) (*Gate, error) { return parse("gate file", data) }

func parse(name string, data []byte) (*Gate, error) {
	d := newDecoder(name)
	var g *Gate
	if root := d.Document(data, "version and checks"); root != nil {
		g = d.gate(root)
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return g, nil
}

// gate decodes and checks the whole file.
func (d *decoder) gate(root ast.Node) *Gate {
	g := &Gate{}
	var p parts
	p.top = d.Mapping(root, "the gate file", d.gateKeys(g, &p))
	if !p.top.Has("version") {
		d.Errorf(p.top.Node, "the gate file needs the key %q: version: 1", "version")
	} else if !p.top.Bad["version"] && p.version != 1 {
		d.Errorf(p.top.Place("version"), "this gate file has version %d; the version known here is 1", p.version)
	}
	for _, k := range []struct {
		name string
		zero bool
	}{{"confidence", g.Confidence == 0}, {"margin", g.Margin == 0}} { // in a Gate, 0 stands for the default
		if k.zero && p.top.Has(k.name) && !p.top.Bad[k.name] {
			d.Errorf(p.top.Place(k.name), "%s must be above 0; leave it out for the default", k.name)
		}
	}
	for _, x := range g.problems() {
		m := p.top
		switch x.list {
		case checkList:
			m = p.checks[x.at]
		case waiverList:
			m = p.waivers[x.at]
		}
		if m.Bad[x.key] || x.key == "" && len(m.Bad) > 0 { // said already, or a consequence of it
			continue
		}
		d.Errorf(m.Place(x.key), "%s", x.text)
	}
	return g
}
