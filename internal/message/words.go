package message

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
)

// Words fills in one of the templates of text with data and returns its lines without the empty ones. Templates use the
// functions of this package and those given; what a file says goes through oneLine, or it could add lines and columns.
func Words(text, name string, functions template.FuncMap, data any) []string {
	all := template.FuncMap{
		"count": Count, "plural": Plural, "oneLine": OneLine, "list": List, "percentOf": Percent, "join": strings.Join,
	}
	maps.Copy(all, functions)
	var b strings.Builder
	if err := template.Must(template.New("").Funcs(all).Parse(text)).ExecuteTemplate(&b, name, data); err != nil {
		panic(fmt.Errorf("template %s: %w", name, err))
	}
	return slices.DeleteFunc(strings.Split(b.String(), "\n"), func(line string) bool { return line == "" })
}
