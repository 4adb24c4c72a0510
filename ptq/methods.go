package ptq

import (
	_ "embed" // the table of methods
	"fmt"
	"strings"

	"cfq/calib"
	"cfq/internal/message"
	"cfq/qat"
	"cfq/recourse"
)

// CFPTQ is the method that is used where none is named.
const CFPTQ = "cf-ptq"

// Method is one way to quantize. Flags, help and documentation are made from the table that Methods returns.
type Method struct {
	Name string
	// Paper is the row of the paper that the method is, with the settings that make it so.
	Paper  string
	Doc    string
	Recipe Recipe
}

// methodTable has a row for each method: name, row of the paper and what it does, then lines of the settings in which
// it differs from ptq.
//
//go:embed methods.txt
var methodTable string

// Methods is the table of methods. Those with Paper set are the paper's rows.
func Methods() (list []Method) {
	keys := Keys()
	for _, row := range tableRows(methodTable) {
		if len(row) > 1 {
			list = append(list, Method{row[0], row[1], row[2], plainest(row[0])})
			continue
		}
		r := &list[len(list)-1].Recipe
		for setting := range strings.FieldsSeq(row[0]) {
			name, value, _ := strings.Cut(setting, "=")
			if name == "train.quantizers" { // is for methods alone to set
				r.Train.Quantizers = qat.Quantizers(value)
			}
			for _, k := range keys {
				if k.Name == name {
					_ = k.set(r, value) // a test sets all
				}
			}
		}
	}
	return list
}

// plainest is the recipe of the method ptq, by another name.
func plainest(name string) Recipe {
	return Recipe{
		Method: name,
		Calibrate: CalibrateSpec{
			Points: onFactual, Rows: 4096, Teacher: teacherReach, TeacherSteps: recourse.DefaultSteps, TeacherSeed: 1,
		},
		Allocate: AllocateSpec{
			Budget: 4, Cost: costBits, Rule: allocatorUniform, Unit: bitWidthsPerLayer, Scores: onFactual,
		},
		Round: RoundSpec{
			Rule: calib.Nearest, Scales: scalesPerTensor, WeightRange: calib.Output, ActRange: calib.MSE,
		},
		Write: WriteSpec{Compute: computeAuto, Input: inputAuto, ActBits: 8},
	}
}

// MethodNames lists the names of Methods.
func MethodNames() []string {
	var names []string
	for _, m := range Methods() {
		names = append(names, m.Name)
	}
	return names
}

// findMethod returns the method called name.
func findMethod(name string) (Method, error) {
	for _, m := range Methods() {
		if m.Name == name {
			return m, nil
		}
	}
	return Method{}, fmt.Errorf("invalid value %q for method: want %s", name, message.Or(MethodNames()))
}
