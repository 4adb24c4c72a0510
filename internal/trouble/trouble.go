// Package trouble is the table of the errors that people meet: what each means, what to do about it, and its exit code.
//
// In: the ID of an error. Out: its row. The invariant: every hint that the command prints is a row, and the page
// docs/trouble.md and `cfq explain` come from the same rows.
package trouble

import "slices"

// Error is a row of the table.
type Error struct {
	ID string `json:"id"`
	// Messages are how the error reads; words in capitals stand for what differs from case to case.
	Messages []string `json:"messages"`
	Meaning  string   `json:"meaning"`
	// Hint says what to do. It is printed below the error; SUBCOMMAND becomes the one that was called.
	Hint string `json:"hint"`
	Code int    `json:"exit_code"`
}

// Exit codes of the command.
const (
	Missed       = 1 // done, but a target was not reached
	Unusable     = 2 // the usage, the task file, the data or the model is wrong
	RunFailed    = 3 // something failed while running
	Fault        = 4 // the program is at fault
	Inconclusive = 5 // too few people to say
)

// Section is a group of errors under one heading.
type Section struct {
	Title  string
	Errors []Error
}

// Sections is the table, in the order of the page.
func Sections() []Section {
	return []Section{
		{"Command line", slices.Concat(ofCommandLine(), ofMissingFlags())},
		{"Files", ofFiles()},
		{"Models", ofModels()},
		{"Task file and data", ofData()},
		{"Evaluation and gate", slices.Concat(ofEvaluation(), ofGates())},
		{"Calibration rows and looks", ofEvidence()},
		{"Records and earlier runs", ofRecords()},
		{"Quantization", ofQuantization()},
		{"The program", ofProgram()},
	}
}

// Errors are those of all sections.
func Errors() (all []Error) {
	for _, s := range Sections() {
		all = append(all, s.Errors...)
	}
	return all
}

// Find returns the row with an ID, and false when there is none.
func Find(id string) (Error, bool) {
	all := Errors()
	if i := slices.IndexFunc(all, func(t Error) bool { return t.ID == id }); i >= 0 {
		return all[i], true
	}
	return Error{}, false
}

func ofCommandLine() []Error {
	return []Error{
		{
			"unknown-subcommand",
			[]string{`unknown subcommand "WORD"`, "the first argument is a subcommand, not the flag --FLAG"},
			"The first word behind cfq names a subcommand. Flags stand behind it.",
			"`cfq help` lists the subcommands", Unusable,
		},
		{
			"wrong-arguments",
			[]string{
				"missing argument NAME", "missing arguments NAMES", "unexpected argument WORD", "missing TABLE: want TABLES",
				`unknown table "WORD"`, "the action is missing: cfq task init, check or show", `unknown action "WORD"`,
				`invalid shell "WORD": want bash, zsh or fish`, "too many arguments",
				"N missing: the original and two quantized ones are the least",
				"want the two models and tables of records, have N arguments",
				"FILE is a model, where a task file is expected",
			},
			"A subcommand takes a fixed number of files or words, in a fixed order. Names with spaces need quotes.",
			"`cfq help SUBCOMMAND` shows the arguments, with examples", Unusable,
		},
		{
			"models-without-names",
			[]string{"WORD is neither a file nor NAME=FILE", "two models are called NAME: give them names"},
			"cfq compare names each model in its tables. Without NAME= that is the name of the file, which must not be that " +
				"of another model.",
			"as in ptq=one/model.onnx cf-ptq=two/model.onnx", Unusable,
		},
		{
			"unknown-flag",
			[]string{"unknown flag --FLAG", "unknown flag -LETTER"},
			"The subcommand has no such flag. Flags may stand in front of the arguments or behind them.",
			"`cfq help SUBCOMMAND` lists the flags", Unusable,
		},
		{
			"invalid-value",
			[]string{
				`invalid value "VALUE" for --FLAG: REASON`, "invalid value for --FLAG: REASON",
				`invalid value "VALUE" of environment variable NAME: REASON`,
				"flag needs an argument: REASON", "--FLAG REASON", "LIST: a column has no name, or one that another has",
			},
			"The flag does not take this value. A flag that the command line does not have takes its value from the " +
				"environment variable CFQ_FLAG, if there is one.",
			"`cfq help SUBCOMMAND` says what the flag takes", Unusable,
		},
		{
			"flag-conflict",
			[]string{"--FLAG REASON", "cfq task ACTION has no --FLAG"},
			"The flag has no effect together with the others, or contradicts one of them. cfq refuses it because a flag " +
				"without effect hides a mistake.",
			"leave the flag out, or give what it depends on; `cfq help SUBCOMMAND` describes both", Unusable,
		},
		{
			"unknown-word",
			[]string{`nothing is called "WORD"`},
			"cfq explain knows the names of errors, metrics and operators, in any case.",
			"`cfq explain` lists what it explains", Unusable,
		},
	}
}

func ofMissingFlags() []Error {
	return []Error{
		{
			"missing-data",
			[]string{
				"--data is missing", "--rows chooses rows of --data, which is missing",
				"FILE does not say what its people are like",
				"--output: a promises file counts the rows of a data file, and there is none",
			},
			"The subcommand needs a table of people: CSV, Parquet, images; the columns are those of the task file.",
			"-d data.csv names the data", Unusable,
		},
		{
			"missing-task",
			[]string{"--task is missing", "--data: to verify on these rows takes a --task, too"},
			"Columns mean nothing to the model without a task file: it says how they become inputs, which outcome is " +
				"favourable and what people can change. cfq task init drafts one.",
			"-t task.yaml names the task file", Unusable,
		},
		{
			"missing-output",
			[]string{"--output is missing"},
			"The subcommand writes a file, or a folder of several files.",
			"-o names the file or folder to write", Unusable,
		},
		{
			"missing-test",
			[]string{"--test is missing"},
			"A sweep calibrates on the rows of --data and measures on others.",
			"--test test.csv names rows that are not those of --data; --test-rows chooses rows of --data", Unusable,
		},
		{
			"missing-arch",
			[]string{"--arch is missing"},
			"There is no default for the layers of the network that is trained.",
			"--arch mlp:64,32 is a network with two hidden layers", Unusable,
		},
	}
}

func ofFiles() []Error {
	return []Error{
		{
			"missing-file",
			[]string{"KIND FILE does not exist"},
			"There is no file of this name. Relative names start at the current folder. When a file with a similar name is " +
				"there, the message names it.",
			"check the name and the folder", Unusable,
		},
		{
			"is-a-folder",
			[]string{"KIND FILE is a directory"},
			"A file is wanted here.",
			"name a file in it", Unusable,
		},
		{
			"not-a-folder",
			[]string{"output FILE is a file"},
			"The subcommand writes several files into a folder, and a file has its name.",
			"name a folder", Unusable,
		},
		{
			"standard-stream",
			[]string{"KIND -: standard input and output are not supported"},
			"Inputs are read more than once and outputs are replaced as a whole, which a stream does not allow. Only " +
				"--stream reads and writes streams.",
			"name a file; ./- is one of that name", Unusable,
		},
		{
			"not-a-file",
			[]string{
				"KIND FILE is a pipe or a device, not a file", "output FILE is not a regular file and cannot be replaced by one",
				"output FILE is a link to a file that does not exist",
			},
			"Inputs are read more than once and outputs are replaced as a whole. A pipe, a device or a link to nothing " +
				"allows neither.",
			"name a regular file: save what comes from a pipe first", Unusable,
		},
		{
			"empty-file",
			[]string{"KIND FILE is empty"},
			"The file has no bytes. Often the program that wrote it failed, or the shell made it for a redirection.",
			"check that it was written completely", Unusable,
		},
		{
			"output-exists",
			[]string{"output FILE exists"},
			"Nothing is replaced without being told to.",
			"--overwrite replaces it", Unusable,
		},
		{
			"no-folder",
			[]string{"output FILE: no directory FOLDER"},
			"The folder of the output is not there. It is not created, because it may be a misspelt one.",
			"create the directory first", Unusable,
		},
		{
			"same-file",
			[]string{"the output FILE is one of the inputs", "two outputs have the same path FILE"},
			"The output would replace what is being read, or another output of the same run.",
			"give each output a name of its own", Unusable,
		},
		{
			"disk-full",
			[]string{"temporary file: REASON"},
			"Sorted lists of people that do not fit into memory are kept in files in the folder for temporary files. " +
				"Writing one of them failed.",
			"TMPDIR names a folder with more room", RunFailed,
		},
	}
}

func ofModels() []Error {
	return []Error{
		{
			"no-onnx-runtime",
			[]string{"ONNX Runtime library not found: REASON"},
			"Models are run by the ONNX Runtime library, version 1.24 or later. It is looked for at --ort-lib, CFQ_ORT_LIB, " +
				"next to the program, in the cache and in the folders of the system.",
			"`cfq doctor` says where it is looked for; --ort-lib and CFQ_ORT_LIB name one of your own; `make ort` fetches one",
			RunFailed,
		},
		{
			"not-a-model",
			[]string{"model: FILE: REASON"},
			"The file is no ONNX model, or one that is cut short. PyTorch's .pt, Keras' .keras and pickled models have to " +
				"be exported to ONNX first.",
			"an exported ONNX model is needed here; data goes behind -d, the task file behind -t", Unusable,
		},
		{
			"unusable-model",
			[]string{"model FILE: REASON"},
			"ONNX Runtime cannot run the model, its inputs are not those of the task file, or it is of a kind that has no " +
				"weights to quantize or no gradient to find recourse along. The message says which, and what to export instead.",
			"`cfq inspect` says what the file holds; docs/models.md lists the models that work", Unusable,
		},
		{
			"not-quantizable",
			[]string{"REASON; INSTEAD"},
			"The model has no gradient from the decision to its inputs, or no layer with weights that could take fewer " +
				"bits. cfq explain OPERATOR says it of one operator.",
			"export what the message says, and try `cfq inspect` on it", Unusable,
		},
	}
}

func ofData() []Error {
	return []Error{
		{
			"bad-task-file",
			[]string{"task FILE: REASON", "FILE:LINE:COLUMN: REASON", "FILE: REASON"},
			"The task file has a key, a value or a combination of both that means nothing. The message gives the line.",
			"docs/task.md describes every key; `cfq task show` prints what a file means", Unusable,
		},
		{
			"task-does-not-fit",
			[]string{"FILE does not fit FILE: N problems", "FILE does not fit FILE: 1 problem"},
			"The task file, the data and the model contradict each other: a column is missing, values are not those that " +
				"were declared, or the model decides worse than always choosing the more frequent outcome. Then the order of " +
				"the inputs, their scaling or the favourable class is wrong.",
			"each problem in the list says what to change", Unusable,
		},
		{
			"bad-data",
			[]string{"FILE: REASON", "FILE line N: REASON"},
			"The data cannot be read as the task file describes them: a column is missing, or no row could be read.",
			"`cfq task check TASK -d DATA` compares a task file with data, column by column", Unusable,
		},
		{
			"no-header",
			[]string{"stdin: REASON"},
			"The columns of a stream have names, from its first row or from --columns. They have to be those of the task " +
				"file.",
			"the first row names the columns; --columns age,income names those of rows without a header", Unusable,
		},
		{
			"kept-column",
			[]string{`column "NAME" is kept, and the answers have one of that name`},
			"--keep copies a column to the answers, which have columns of their own.",
			"give the column another name where the rows come from", Unusable,
		},
		{
			"no-promises",
			[]string{"FILE promises nothing to any of the people", "FILE promises nothing: its rows say so"},
			"No row of the promises file can be given to a person of the data. Either the people are others, or no row has " +
				"the status found.",
			"give the data and the task file that the promises were made with", Unusable,
		},
		{
			"scores-need-model",
			[]string{"--scores needs the MODEL that has them"},
			"Scores of the model's owner are compared with what the model says of the same rows.",
			"give the model behind the task file, or behind init", Unusable,
		},
		{
			"bad-verified-file",
			[]string{"TASK.verified: REASON"},
			"The file next to the task file that records a verified encoding was edited or is cut short.",
			"`cfq task check --scores` writes it anew", Unusable,
		},
	}
}

func ofEvaluation() []Error {
	return []Error{
		{
			"same-model",
			[]string{"FULL and QUANTIZED have the same content"},
			"Both files are the same model, which keeps every promise of its own. A gate that passes it would say nothing.",
			"give the original first and the quantized model second", Unusable,
		},
		{
			"reversed-models",
			[]string{"FILE was quantized from FILE: the order is reversed"},
			"The first model says that it was made from the second.",
			"give the original first, then the models made from it", Unusable,
		},
		{
			"other-original",
			[]string{"FILE was quantized from another model than FILE"},
			"A quantized model records the hash of its original. This one was made from another file, which would be judged " +
				"by promises that it never had to keep.",
			"give the model that it was made from; --other-original compares them all the same", Unusable,
		},
		{
			"unknown-group",
			[]string{"groups by COLUMN: REASON"},
			"People are told apart by a categorical feature or by a column that the task file names.",
			"a feature with subgroup: true, or a column under data: subgroups, tells people apart", Unusable,
		},
		{
			"promises-of-another-model",
			[]string{"promises FILE: the margins that the file states are up to X logits from those of FILE: REASON"},
			"A promises file states the margin of each promise. The original at hand has other margins at these points, so " +
				"the promises are not its own.",
			"make the promises anew with cfq recourse for this model and these people", Unusable,
		},
		{
			"not-exact",
			[]string{"recourse: no exact method applies: REASON"},
			"Recourse is proved optimal for linear models, for models whose actionable features are all discrete, and with " +
				"an installed solver for networks of Relu units.",
			"without --exact the solver finds actions that are near the cheapest", Unusable,
		},
		{
			"missing-data-sets",
			[]string{"missing data:"},
			"cfq reproduce reads the public data sets of the paper from the folder behind -d. It downloads nothing.",
			"put the files there, as they are published or gzipped", Unusable,
		},
	}
}

func ofGates() []Error {
	return []Error{
		{
			"gate-failed",
			[]string{"FAIL: CHECKS"},
			"The lower bound of at least one number is beyond its limit, so chance does not explain it. The report names " +
				"the checks and, with --report html:FILE, the people.",
			"do not ship this model: quantize with a larger --budget or with --target-vd, and judge that", Missed,
		},
		{
			"gate-inconclusive",
			[]string{"INCONCLUSIVE: CHECKS"},
			"The limit lies between the bounds of a number: these people are too few to say. The report says how many would " +
				"be enough. The exit code is 1 with --on-inconclusive fail.",
			"judge with more people, or with a larger limit if you can defend it", Inconclusive,
		},
		{
			"bad-gate-file",
			[]string{"FILE:LINE:COLUMN: REASON", "FILE: REASON"},
			"The gate file has a key or value that means nothing. The message gives the line.",
			"docs/pipeline.md lists the keys", Unusable,
		},
		{
			"bad-check",
			[]string{`check "CHECK": REASON`},
			"A check is METRIC@MARGIN[GROUP]<=LIMIT; margin and group may be left out.",
			"for example --check 'vd@0.25[sex]<=0.05'; `cfq explain metrics` lists the metrics", Unusable,
		},
		{
			"no-checks",
			[]string{"no checks"},
			"A gate without limits would pass every model.",
			"start with --max-vd 0.02 --max-rvd 0.02; --gate FILE reads more checks", Unusable,
		},
		{
			"no-previous",
			[]string{"missing --previous: a check of an increase compares with an earlier report"},
			"The limit is on how much a number has grown since an earlier model.",
			"for example --previous report.json, written by --report json:report.json", Unusable,
		},
		{
			"bad-previous",
			[]string{"report FILE: REASON"},
			"The file behind --previous is no report of cfq eval, cfq gate or cfq summarize in JSON.",
			"cfq eval --report json:FILE writes one", Unusable,
		},
		{
			"other-previous",
			[]string{"report FILE: its THING is FILE, and this gate's is FILE"},
			"An increase means something only between two quantized models of one original, under one task file.",
			"--previous takes a report on the same original, task and overrides", Unusable,
		},
	}
}

func ofEvidence() []Error {
	return []Error{
		{
			"encoding-unverified",
			[]string{"the gate needs a verified encoding: REASON"},
			"The gate demands proof that the task file encodes columns as the model was trained: scores that the owner's " +
				"own code gave to some rows.",
			"`cfq task check TASK -d DATA MODEL --scores SCORES` verifies it", Unusable,
		},
		{
			"no-calibration-record",
			[]string{
				"--calibration-record none: the gate file requires one",
				"there is no record FILE of the rows that the model was calibrated on, and this gate requires one",
				"record of calibration rows FILE: REASON",
			},
			"A model does better on rows that it was calibrated on. With the record of these rows, the gate judges once with " +
				"and once without them.",
			"cfq quantize writes it next to the model; --calibration-record names one that stands elsewhere", Unusable,
		},
		{
			"calibrated-on-these",
			[]string{
				"all N people of the data are equal to rows that the model was calibrated on: none is left for a verdict",
				"the model was calibrated on rows of FILE, and there is no record FILE that says which",
			},
			"The data are those that the model was made with, so a verdict on them says nothing about other people. If none " +
				"of these rows were used, --calibration-record none says so, and the report repeats it.",
			"use people that the model was not calibrated on; --calibration-record names the record of those it was", Unusable,
		},
		{
			"other-calibration-record",
			[]string{"record of rows FILE: it is that of another model, HASH, and not of FILE, HASH"},
			"The record next to the model belongs to another one. A run that was killed may have replaced one of the two.",
			"quantize again; --calibration-record names a record that stands elsewhere", Unusable,
		},
		{
			"other-task",
			[]string{"the model was quantized with another task file than FILE: REASON"},
			"The gate requires the record of calibration rows. Another task file may encode people differently, and people " +
				"who are equal to these rows are then not recognised.",
			"quantize with the task file that the gate is given", Unusable,
		},
		{
			"judged-before",
			[]string{"these people have judged QUANTIZED already: VERDICT"},
			"Judging one model by the same people until it passes makes the bounds wrong. QUANTIZED.looks remembers who was " +
				"asked.",
			"bring new people within the planned --looks; --again repeats the evaluation", Unusable,
		},
		{
			"unplanned-look",
			[]string{"this would be look N at the model, and REASON"},
			"Each further look at a model is one more chance to pass it wrongly. Bounds are widened for planned looks only; " +
				"QUANTIZED.looks remembers those that there were.",
			"plan looks before the first one: --looks, or looks in the gate file", Unusable,
		},
	}
}

func ofRecords() []Error {
	return []Error{
		{
			"records-exist",
			[]string{"--records: FOLDER has records already"},
			"The folder holds records of an earlier run.",
			"--resume goes on from them; --overwrite replaces them", Unusable,
		},
		{
			"other-records",
			[]string{
				"--resume: FOLDER holds records of other people or promises than these files have",
				"--resume: the records in FOLDER and this run are not made of the same: REASON", "FILE: REASON",
			},
			"A run can be resumed only with the files and flags that it was started with.",
			"--resume goes on with the same files and flags; --overwrite in its place begins anew", Unusable,
		},
		{
			"incomplete-records",
			[]string{"records: the folder FOLDER is not complete: there is no FILE"},
			"The run that made the records did not finish. A sum over them would leave people out without saying so.",
			"cfq eval --resume goes on with it; name its files one by one if these people will do", Unusable,
		},
		{
			"no-records",
			[]string{"records: no file is called NAME", "records: nothing is in FOLDER", "records: REASON", "FILE: REASON"},
			"Tables of records are what cfq eval writes with --records or --stream.",
			"give tables of records that were made of the same models and task file by the same version", Unusable,
		},
		{
			"sampled-parts",
			[]string{"records: --sample was given for each part: REASON"},
			"A sample of each part is no sample of all people.",
			"leave out --sample where parts of the people are evaluated", Unusable,
		},
		{
			"records-of-other-files",
			[]string{"records in FILE: they were made with another THING, HASH, than the one at hand, HASH"},
			"Records hold the hashes of the models, the task file and whatever else decides them.",
			"give the files and the version of cfq that the records were made with, or make the records anew", Unusable,
		},
		{
			"other-sweep",
			[]string{"FILE: REASON"},
			"The folder holds points of a sweep with other files or flags, or its list of points was edited.",
			"name another folder behind -o; --overwrite begins anew in this one", Unusable,
		},
	}
}

func ofQuantization() []Error {
	return []Error{
		{
			"nothing-to-save",
			[]string{"FILE was not written: it would have N bytes, and the original has N, of which N weights take N"},
			"The description of scales and codes takes more bytes than the weights save. A single layer, such as a logistic " +
				"regression, has nothing to save, nor has a network of a few hundred weights.",
			"serve the float file, which recourse and eval take as it is; --allow-larger writes this one all the same",
			Unusable,
		},
		{
			"margin-error",
			[]string{"FILE was not written: margin error REASON"},
			"At recourse points of people, quantization moves the margin by more than the margin that promises " +
				"have. Many of them would break.",
			"a larger --budget or --method cf-ptq makes smaller errors; --force writes it all the same", Missed,
		},
		{
			"not-verified",
			[]string{"FILE was not written: REASON"},
			"ONNX Runtime does not compute with the written file what its weights say, or no longer runs a layer as " +
				"planned. On processors without VNNI sums of 8-bit weights beyond 64 saturate, which --full-range allows.",
			"leave out --full-range, or use --compute float; a report of this is welcome", RunFailed,
		},
		{
			"target-inconclusive",
			[]string{"inconclusive: REASON"},
			"Too few people are held out to show that a model keeps the target, even one that breaks no promise. Nothing " +
				"was quantized.",
			"give more rows of data, a larger --holdout or a larger --target-vd", Inconclusive,
		},
		{
			"target-missed",
			[]string{"no budget up to 8 bits was shown to keep VD(X) within X; FILE is the best found: REASON"},
			"The best model was written, but the people held out do not show that it keeps the target.",
			"more people narrow the bounds; a larger --target-margin, --method cf-ptq or --keep-float the errors", Missed,
		},
		{
			"bad-plan",
			[]string{"plan FILE: REASON"},
			"The plan file was edited into something that means nothing, or is for another model.",
			"docs/files.md says what a plan may say", Unusable,
		},
	}
}

func ofProgram() []Error {
	return []Error{{
		"fault",
		[]string{"cfq failed: REASON"},
		"A fault of the program, not of its use. Outputs are written whole or not at all, so none is half written.",
		"report the command, this text and what `cfq version` prints", Fault,
	}}
}
