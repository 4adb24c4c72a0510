package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"cfq/eval"
	"cfq/internal/chart"
	"cfq/internal/cli"
	"cfq/ptq"
)

// trainingPlot is the file of the curves beside a log.
func trainingPlot(log string) string { return strings.TrimSuffix(log, filepath.Ext(log)) + ".svg" }

// writeTraining writes the rounds of a training as a CSV file, and their curves beside it.
func writeTraining(log string, t *ptq.Training) error {
	if err := cli.Write(log, func(w io.Writer) error { return trainingTable(w, t) }); err != nil {
		return err
	}
	return cli.Write(trainingPlot(log), func(w io.Writer) error { return drawTraining(w, t) })
}

// trainingTable writes one line for each round; what is undefined is empty.
func trainingTable(w io.Writer, t *ptq.Training) error {
	number := func(v eval.Float) string {
		if math.IsNaN(float64(v)) {
			return ""
		}
		return strconv.FormatFloat(float64(v), 'g', 6, 64)
	}
	out := csv.NewWriter(w)
	rows := [][]string{{"round", "steps", "loss", "vd", "rvd"}}
	for i, r := range t.Rounds {
		rows = append(rows, []string{
			strconv.Itoa(i + 1), strconv.Itoa(r.Steps), number(r.Loss), number(r.VD), number(r.RVD),
		})
	}
	return out.WriteAll(rows)
}

// drawTraining draws loss, VD and RVD over the steps.
func drawTraining(w io.Writer, t *ptq.Training) error {
	loss, vd, rvd := chart.Series{Name: "loss"}, chart.Series{Name: "VD(0.1)"}, chart.Series{Name: "RVD(0.1)"}
	for _, r := range t.Rounds {
		x := float64(r.Steps)
		loss.X, loss.Y = append(loss.X, x), append(loss.Y, float64(r.Loss))
		vd.X, vd.Y = append(vd.X, x), append(vd.Y, float64(r.VD))
		rvd.X, rvd.Y = append(rvd.X, x), append(rvd.Y, float64(r.RVD))
	}
	return chart.Draw(w,
		chart.Chart{
			Title: fmt.Sprintf("Loss (%s)", t.Objective), X: "steps", Y: "mean of the round", Series: []chart.Series{loss},
		},
		chart.Chart{
			Title: "Broken promises to some refused people", X: "steps", Y: "share", Series: []chart.Series{vd, rvd},
		})
}
