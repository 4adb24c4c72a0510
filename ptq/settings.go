package ptq

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cfq/internal/config"
	"cfq/internal/message"
	"cfq/qat"
)

// recipeVersion is that of the keys, of their values and of the methods' recipes.
const recipeVersion = "1"

// originPrefix begins the keys of a written recipe that say what a model was made from; nothing is set by them.
const originPrefix = "origin."

// NewRecipe returns the recipe of a method with settings such as "allocate.budget=3", see [Recipe.Set].
func NewRecipe(method string, settings ...string) (Recipe, error) {
	m, err := findMethod(method)
	if err != nil {
		return Recipe{}, inputError(err)
	}
	r := m.Recipe
	return r, r.Set(settings...)
}

// Set changes settings, each of which is key=value with one of [Keys], whatever order they are in. What has to change
// with them does, unless it is set, too. A setting that has no effect is an error.
func (r *Recipe) Set(settings ...string) error { return r.change(settings, false) }

// change is Set; forSeveral passes over settings without an effect on this one of several methods.
func (r *Recipe) change(settings []string, forSeveral bool) error {
	values, errs := assignments(settings)
	r.apply(values, forSeveral, func(_ string, err error) { errs = append(errs, err) })
	return inputError(errors.Join(errs...))
}

func assignments(settings []string) (values map[string]string, errs []error) {
	values = map[string]string{}
	names := keyNames()
	for _, s := range settings {
		key, value, ok := strings.Cut(s, "=")
		switch _, twice := values[key]; {
		case !ok:
			errs = append(errs, fmt.Errorf("%s is not key=value", message.Quote(s)))
		case twice:
			errs = append(errs, fmt.Errorf("%s is set twice", key))
		case !slices.Contains(names, key):
			errs = append(errs, fmt.Errorf("there is no setting %s%s", message.Quote(key), near(key, names)))
		default:
			values[key] = value
		}
	}
	return values, errs
}

func keyNames() (names []string) {
	for _, k := range Keys() {
		names = append(names, k.Name)
	}
	return names
}

func (r *Recipe) apply(values map[string]string, forSeveral bool, fail func(key string, err error)) {
	if r.Train != nil { // a copy of the recipe is left alone
		r.Train = new(*r.Train)
	}
	if r.Target != nil {
		r.Target = new(*r.Target)
	}
	var changed []Key
	for _, k := range Keys() {
		text, ok := values[k.Name]
		if !ok {
			continue
		}
		set := func() error { return k.set(r, text) }
		if forSeveral && k.untrained(r) {
			set = func() error { return k.Check(text) }
		}
		if err := set(); err != nil {
			fail(k.Name, err)
		} else if !forSeveral {
			changed = append(changed, k)
		}
	}
	r.follow(values)
	for _, k := range changed {
		if why := k.unused(r); why != "" {
			fail(k.Name, fmt.Errorf("%s: %s", k.Name, why))
		}
	}
}

func (r *Recipe) follow(values map[string]string) {
	free := func(key string) bool { _, given := values[key]; return !given }
	if r.Allocate.Cost == costBOPs && free("write.compute") {
		r.Write.Compute = computeInteger
	}
	if r.objective() == qat.Match && free("calibrate.teacher") {
		r.Calibrate.Teacher = teacherPaper // no gradient knows how lengths that are searched for depend on the network
	}
	exact := r.Allocate.Rule == allocatorExact || r.Allocate.Rule == allocatorLearned
	if free("allocate.unit") && (r.Round.Scales != scalesPerChannel || !exact) {
		r.Allocate.Unit = bitWidthsPerLayer
	}
}

// ParseRecipe reads a recipe: a method and settings by key, in YAML or JSON. What a written recipe says about its
// origin is passed over. The error is of type config.Errors.
func ParseRecipe(file string, data []byte) (r Recipe, err error) {
	d := &config.Decoder{File: file, Kind: "recipe"}
	root := d.Document(data, "a method")
	if root == nil {
		return r, d.Err()
	}
	version, method, lists := recipeVersion, CFPTQ, map[string]*[]string{}
	known := []config.Key{{Name: "version", Value: d.Text(&version)}, {Name: "method", Value: d.Text(&method)}}
	for _, name := range keyNames() {
		lists[name] = new([]string)
		known = append(known, config.Key{Name: name, Value: d.Texts(lists[name])})
	}
	for _, name := range originNames() {
		known = append(known, config.Key{Name: originPrefix + name})
	}
	m := d.Mapping(root, "a recipe", known)
	if version != recipeVersion {
		d.Errorf(m.Place("version"), "this is a recipe of version %s, and this program reads version %s", version,
			recipeVersion)
		return r, d.Err()
	}
	found, err := findMethod(method)
	if err != nil {
		d.Errorf(m.Place("method"), "%s%s", config.Clause(err.Error()), config.DidYouMean(method, MethodNames()))
		return r, d.Err()
	}
	values := map[string]string{}
	for name, list := range lists {
		if m.Has(name) && !m.Bad[name] {
			values[name] = strings.Join(*list, ",")
		}
	}
	r = found.Recipe
	r.apply(values, false, func(key string, err error) { d.Errorf(m.Place(key), "%s", config.Clause(err.Error())) })
	return r, d.Err()
}

func originNames() []string {
	return []string{
		"cfq", "model", "data", "task", "rows", "drawn", "promises", "overrides", "calibrated_on", "recourse",
		"deployment", "deployment_seed",
	}
}

// Texts are the method, the budget and what differs from the method's recipe, by key: what ParseRecipe reads.
func (r Recipe) Texts() map[string]string {
	texts := map[string]string{"version": recipeVersion, "method": r.Method}
	m, err := findMethod(r.Method)
	for _, k := range Keys() {
		text := k.Get(&r)
		if text != "" && (err != nil || text != k.Get(&m.Recipe) || k.Name == "allocate.budget") {
			texts[k.Name] = text
		}
	}
	return texts
}

// MarshalJSON writes Texts.
func (r Recipe) MarshalJSON() ([]byte, error) { return json.Marshal(r.Texts()) }
