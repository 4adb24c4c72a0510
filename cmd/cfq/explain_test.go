package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestExplainable(t *testing.T) {
	kindOf := map[string]string{}
	claim := func(name, kind string) {
		key := strings.ToLower(name)
		if other, taken := kindOf[key]; taken {
			t.Errorf("%s of %s is a name of %s, too", name, kind, other)
		}
		kindOf[key] = kind
	}
	for _, k := range topicKinds() {
		claim(k.name, "kinds")
		for _, x := range k.topics {
			claim(x.name, k.name)
			for _, alias := range x.alias {
				if !strings.EqualFold(alias, x.name) {
					claim(alias, k.name)
				}
			}
			var b bytes.Buffer
			x.write(&b)
			if !strings.HasPrefix(b.String(), x.name) || strings.Count(b.String(), "\n") < 4 ||
				len(x.cells) != len(k.head)-1 {
				t.Errorf("%s of %s: cells %q, text\n%s", x.name, k.name, x.cells, b.String())
			}
		}
	}
}
