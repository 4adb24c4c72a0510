package main

// person is one applicant. Money is in whole units of an unnamed currency.
type person struct {
	age        float64 // years
	sex        string
	dependants float64
	income     float64 // per year
	savings    float64
	debt       float64 // owed elsewhere
	amount     float64 // of the loan asked for
	months     float64 // over which it is to be paid back
	grade      int     // credit history, 1 (poor) to 5 (very good)
	years      float64 // with the present employer
	late       float64 // payments made late in the last two years
	employment string
	housing    string
	guarantor  bool
	approved   bool
}

func employments() []string {
	return []string{"salaried", "public", "self-employed", "part-time", "unemployed"}
}

func housings() []string { return []string{"rent", "own", "family"} }

// draw makes one applicant. Features depend on each other roughly as they do
// in life: income on age and employment, savings on income, housing on age.
func draw(s *source) person {
	var p person
	p.age = clamp(round(42+mul(13, s.normal()), 1), 19, 79)
	p.sex = []string{"male", "female"}[s.pick(0.55, 0.45)]
	p.dependants = float64(s.pick(0.48, 0.22, 0.19, 0.08, 0.03))
	job := s.pick(0.50, 0.16, 0.14, 0.13, 0.07)
	p.employment = employments()[job]
	if job != 4 {
		p.years = clamp(round(exp(1.3+mul(0.9, s.normal())), 1), 0, min(p.age-18, 40))
	}
	// Logarithms of the median income and their spread, in the order of employments.
	base := []float64{10.42, 10.47, 10.40, 9.75, 9.15}[job]
	spread := []float64{0.42, 0.33, 0.80, 0.40, 0.35}[job]
	wealth := s.normal() // what income and savings have in common
	log := base + mul(spread, mul(0.6, wealth)+mul(0.8, s.normal())) + mul(0.008, p.age-42)
	if p.sex == "female" {
		log -= 0.12 // the gap that subgroup reports can find; sex itself does not enter the decision
	}
	p.income = round(exp(log), 100)
	p.savings = round(exp(8.4+mul(0.45, wealth)+mul(0.7, s.normal())+mul(0.01, p.age-42)), 50)
	if s.uniform() > 0.3 {
		p.debt = round(exp(8.7+mul(0.9, s.normal())), 50)
	}
	p.amount = clamp(round(exp(9.3+mul(0.65, s.normal())), 500), 1000, 60000)
	p.months = mul(12, float64(1+s.pick(0.08, 0.17, 0.25, 0.2, 0.17, 0.08, 0.05)))
	p.late = float64(s.pick(0.62, 0.17, 0.1, 0.06, 0.03, 0.02))
	p.grade = int(clamp(round(3.6+mul(0.9, s.normal())-mul(0.5, p.late), 1), 1, 5))
	if p.age > 45 {
		p.housing = housings()[s.pick(0.36, 0.58, 0.06)]
	} else {
		p.housing = housings()[s.pick(0.55, 0.25, 0.2)]
	}
	p.guarantor = s.uniform() < 0.15
	p.approved = score(p)+mul(0.9, s.normal()) > 0
	return p
}

// score is the lender's judgement before chance: positive is favourable. It
// saturates and interacts, so that no linear model has it.
func score(p person) float64 {
	payment := p.amount / p.months
	burden := mul(12, payment) / (mul(0.6, p.income) + 3000)
	sum := -0.35
	sum += mul(2.6, p.income/(p.income+30000))
	sum -= mul(3.4, burden/(burden+0.35))
	sum += mul(1.5, p.savings/(p.savings+6000))
	sum -= mul(2.2, p.debt/(p.debt+mul(0.35, p.income)+2000))
	sum += mul(0.5, float64(p.grade)-3)
	sum -= mul(1.2, p.late/(p.late+1.5))
	sum += mul(0.9, p.years/(p.years+3))
	sum -= mul(0.12, p.dependants)
	if p.guarantor {
		sum += 0.5 + mul(0.2, float64(5-p.grade))
	}
	if p.age < 25 {
		sum -= 0.4
	}
	switch p.employment {
	case "public":
		sum += 0.5
	case "self-employed":
		sum -= 0.3
	case "unemployed":
		sum -= 0.8
	}
	switch p.housing {
	case "own":
		sum += 0.5
	case "family":
		sum += 0.15
	}
	return sum
}

// populate draws n applicants.
func populate(n int, stream uint64) []person {
	s := newSource(stream)
	people := make([]person, n)
	for i := range people {
		people[i] = draw(s)
	}
	return people
}
