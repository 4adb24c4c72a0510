package reproduce

// small is the paper's "small CNN", and dense a network of dense layers. Without weight decay, what weights begin with
// stays in them as noise, and 4 bits must code that.
func small() []string {
	return []string{
		"--arch", "cnn:28x28/16x3,32x3,32x3", "--epochs", "8", "--learning-rate", "0.003", "--weight-decay", "0.01",
	}
}

func dense() []string {
	return []string{"--arch", "mlp:64,32", "--epochs", "8", "--weight-decay", "0.003"}
}

// pictured is a row about images whose recourse is in codes.
func pictured(data, name string, paper []Number, train, quantize []string) Row {
	r := row(data, name, paper, quantize)
	r.Variant.Train, r.Variant.Form = train, inCodes
	return r
}

// coded are the flags of a method. Activations stay in float, as the paper's do.
func coded(bits, method string) []string {
	return []string{"--method", method, "--budget", bits, "--compute", "float"}
}

const aboutPictures = "Class 8 (the digit, bags) is wanted, against all others; the paper does not say which class " +
	"it wants. Recourse moves a code of 16 numbers of an autoencoder that is not quantized, at the least l2 norm. " +
	"Networks are trained with weight decay; without, 4 bits break more. The paper's third data set, CelebA, cannot " +
	"be had."

// paperOfPictures has the paper's accuracy, VD, CRG and DirSim.
func paperOfPictures() map[string]map[string][]Number {
	return map[string]map[string][]Number{
		"mnist": {
			intEight: sd(.991, .001, .044, .006, .056, .009, .901, .014),
			intFour:  sd(.985, .002, .132, .012, .181, .021, .772, .025),
			mixedQAT: sd(.989, .001, .087, .009, .119, .017, .832, .021),
			pruned:   sd(.983, .002, .151, .014, .204, .025, .741, .028),
			taught:   sd(.988, .002, .096, .010, .130, .019, .816, .022),
			cfPTQ:    sd(.989, .001, .063, .008, .084, .014, .872, .018),
			cfqQAT:   sd(.990, .001, .041, .006, .052, .011, .910, .013),
		},
		"fashion-mnist": {
			intEight: sd(.917, .002, .068, .008, .091, .014, .862, .018),
			intFour:  sd(.901, .003, .183, .016, .247, .030, .706, .030),
			mixedQAT: sd(.912, .003, .126, .013, .169, .023, .781, .026),
			pruned:   sd(.899, .004, .205, .018, .274, .034, .681, .033),
			taught:   sd(.910, .003, .139, .014, .181, .025, .763, .027),
			cfPTQ:    sd(.913, .003, .096, .011, .124, .020, .825, .023),
			cfqQAT:   sd(.914, .002, .071, .009, .091, .017, .861, .020),
		},
	}
}

// pictures is of the methods without training, on the paper's network and on dense layers.
func pictures() Table {
	const others = ", MLP"
	t := Table{
		Name: "images", Labels: "table non_tabular_main_results", Title: "Recourse on images, without training",
		Columns: results(true), Note: aboutPictures,
		Claims: []Claim{
			fewer(cfPTQ, intFour), fewer(intEight, cfPTQ), fewer(cfPTQ+others, intFour+others),
			fewer(intEight+others, cfPTQ+others),
		},
	}
	for _, data := range []string{"mnist", "fashion-mnist"} {
		paper := paperOfPictures()[data]
		for _, n := range []struct {
			suffix string
			train  []string
		}{{"", small()}, {others, dense()}} {
			of := func(name string, quantize []string) {
				var numbers []Number
				if n.suffix == "" {
					numbers = paper[name]
				}
				t.Rows = append(t.Rows, pictured(data, name+n.suffix, numbers, n.train, quantize))
			}
			of(intEight, coded("8", "ptq"))
			of(intFour, coded("4", "ptq"))
			of(cfPTQ, coded("4", "cf-ptq-paper"))
			of(oursPTQ, coded("4", "cf-ptq"))
		}
	}
	return t
}

// trainedPictures has the methods that train, and the others, on dense layers: the search for recourse and the steps
// of training take more than ten times as long on a CNN.
func trainedPictures() Table {
	t := Table{
		Name: "images-trained", Labels: "table non_tabular_main_results", Title: "Recourse on images, with training",
		Columns: results(true),
		Note: aboutPictures + " The paper's networks are small CNNs; these have dense layers of 64 and 32, of which five " +
			"methods are trained in hours.",
		Claims: []Claim{fewer(cfqQAT, cfPTQ), fewer(intEight, cfPTQ)},
	}
	order := []string{cfPTQ, mixedQAT, taught, intFour, pruned}
	for i := range order[1:] {
		t.Claims = append(t.Claims, fewer(order[i], order[i+1]))
	}
	for _, data := range []string{"mnist", "fashion-mnist"} {
		for _, m := range []struct{ name, bits, method string }{
			{intEight, "8", "ptq"},
			{intFour, "4", "ptq"},
			{cfPTQ, "4", "cf-ptq-paper"},
			{oursPTQ, "4", "cf-ptq"},
			{mixedQAT, "4", "mixed-qat"},
			{pruned, "4", "prune-qat"},
			{taught, "4", "kd-qat"},
			{cfqQAT, "4", "cfq-qat-paper"},
			{ours, "4", "cfq-qat"},
		} {
			t.Rows = append(t.Rows, pictured(data, m.name, paperOfPictures()[data][m.name], dense(), coded(m.bits, m.method)))
		}
	}
	return t
}
