package policy

// maxWork bounds the work of rules on one object: the bytes of values that they read, times the steps of their
// patterns. It takes about 50 ms. An ordinary Service needs less than a thousandth of it.
const maxWork = 4_000_000

// The work of a rule for each annotation and port of a Service, whether it concerns them or not, and of each finding.
const (
	workPerValue   = 20
	workPerFinding = 200
	// workOfWeight is how much of the weight of a policy that is opened is one unit of work.
	workOfWeight = 16
)

// work counts down what rules may still do to one object.
type work struct {
	left int
	// origins holds the origins of the Service's defaults; nil until a rule is broken.
	origins map[string]string
}

func newWork() *work { return &work{left: maxWork} }

// spend reports whether there is enough left, and takes it.
func (w *work) spend(n int) bool {
	w.left -= n
	return !w.exhausted()
}

func (w *work) exhausted() bool { return w.left < 0 }
