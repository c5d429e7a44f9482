package pace

// Class is the priority of a request. It is a label value of metrics.
type Class string

// The classes, most important first.
const (
	// Safety is for reads that prevent harm: whether a machine exists, or whether an object is what a write expects.
	Safety Class = "safety"
	// Write is for writes.
	Write Class = "write"
	// Poll is for reads that wait for the cloud or serve a user.
	Poll Class = "poll"
	// Drift is for reads that only look for differences, which can be repeated later.
	Drift Class = "drift"
)

// Classes are all classes.
var Classes = []Class{Safety, Write, Poll, Drift}

// reserve returns the share of a budget that the class leaves to more important ones.
func (c Class) reserve() float64 {
	switch c {
	case Safety:
		return 0
	case Write:
		return 0.1
	case Poll:
		return 0.25
	case Drift:
	}
	return 0.5
}
