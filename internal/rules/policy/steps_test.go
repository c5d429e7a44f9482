package policy

import (
	"math/rand/v2"
	"regexp/syntax"
	"testing"
)

// The steps of a pattern bound the program that it compiles to.
func TestStepsBoundTheProgram(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	atoms := []string{"a", "[a-z]", ".", `\d`, "(?i:k)", "^", `\b`, "x*", "z?", "", "[^a]", `\pN`}
	repeats := []string{"*", "+", "?", "??", "{3}", "{0,1}", "{0,1}?", "{0,4}", "{2,5}", "{3,}", "{0}", "{0,}", "{0,}?"}
	var expression func(depth int) string
	expression = func(depth int) string {
		if depth == 0 {
			return atoms[random.IntN(len(atoms))]
		}
		one := expression(depth - 1)
		switch random.IntN(8) {
		case 0, 1, 2, 3:
			return "(?:" + one + ")" + repeats[random.IntN(len(repeats))]
		case 4:
			return "(" + one + ")"
		case 5:
			return "(?:" + one + "|" + expression(depth-1) + ")"
		case 6:
			return one + expression(depth-1)
		}
		return one
	}
	for range 30_000 {
		text := expression(random.IntN(9))
		parsed, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			continue
		}
		program, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		if n := steps(parsed); len(program.Inst) > 5*n+3 {
			t.Fatalf("%s has %d steps and %d instructions", text, n, len(program.Inst))
		}
	}
}
