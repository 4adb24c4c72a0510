package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"cfq/internal/chart"
	"cfq/internal/cli"
	"cfq/ptq"
)

// trainingPlot is the file of the curves next to a log.
func trainingPlot(log string) string { return strings.TrimSuffix(log, filepath.Ext(log)) + ".svg" }

// logFiles are the files of a log: none without one.
func logFiles(log string) []string {
	if log == "" {
		return nil
	}
	return []string{log, trainingPlot(log)}
}

// writeLog writes a table of rounds as a CSV file, and their curves next to it.
func writeLog(log string, table [][]string, curves []chart.Chart) error {
	err := cli.Write(log, func(w io.Writer) error { return csv.NewWriter(w).WriteAll(table) })
	if err != nil {
		return err
	}
	return cli.Write(trainingPlot(log), func(w io.Writer) error { return chart.Draw(w, curves...) })
}

// checkLog refuses a log that is named as its plot would be.
func checkLog(log string) error {
	if log != "" && trainingPlot(log) == log {
		return cli.Usagef(cli.HintValue, "--log %s: the log is a CSV file", log)
	}
	return nil
}

// csvNumber writes a number; what is undefined is empty.
func csvNumber(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// trainingTable has one line for each round, those in which bit widths were learned first.
func trainingTable(r *ptq.Result) [][]string {
	rows := [][]string{{"stage", "round", "steps", "loss", "vd", "rvd", "bits"}}
	add := func(stage string, rounds []ptq.Round) {
		for i, r := range rounds {
			rows = append(rows, []string{
				stage, strconv.Itoa(i + 1), strconv.Itoa(r.Steps), csvNumber(float64(r.Loss)), csvNumber(float64(r.VD)),
				csvNumber(float64(r.RVD)), csvNumber(r.Bits),
			})
		}
	}
	if r.Learned != nil {
		add("widths", r.Learned.Rounds)
	}
	add("train", r.Training.Rounds)
	return rows
}

// trainingCharts are loss, VD and RVD over the steps.
func trainingCharts(t *ptq.Training) []chart.Chart {
	loss, vd, rvd := chart.Series{Name: "loss"}, chart.Series{Name: "VD(0.1)"}, chart.Series{Name: "RVD(0.1)"}
	for _, r := range t.Rounds {
		x := float64(r.Steps)
		loss.X, loss.Y = append(loss.X, x), append(loss.Y, float64(r.Loss))
		vd.X, vd.Y = append(vd.X, x), append(vd.Y, float64(r.VD))
		rvd.X, rvd.Y = append(rvd.X, x), append(rvd.Y, float64(r.RVD))
	}
	return []chart.Chart{
		{Title: fmt.Sprintf("Loss (%s)", t.Objective), X: "steps", Y: "mean of the round", Series: []chart.Series{loss}},
		{Title: "Broken promises to some refused people", X: "steps", Y: "share", Series: []chart.Series{vd, rvd}},
	}
}
