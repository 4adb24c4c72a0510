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

func trainingPlot(log string) string { return strings.TrimSuffix(log, filepath.Ext(log)) + ".svg" }

func logFiles(log string) []string {
	if log == "" {
		return nil
	}
	return []string{log, trainingPlot(log)}
}

func writeLog(log string, table [][]string, curves []chart.Chart) error {
	err := cli.Write(log, func(w io.Writer) error { return csv.NewWriter(w).WriteAll(table) })
	if err != nil {
		return err
	}
	return cli.Write(trainingPlot(log), func(w io.Writer) error { return chart.Draw(w, curves...) })
}

func checkLog(log string) error {
	if log != "" && trainingPlot(log) == log {
		return cli.Usagef(cli.HintValue, "--log %s: the log is a CSV file", log)
	}
	return nil
}

func csvNumber(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

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
