package finding

// Doc documents what a finding's id means.
type Doc struct {
	// ID is that of the finding.
	ID string
	// Severity is what a finding has that an update introduces.
	Severity Severity
	// Help says in a sentence or two when it is found.
	Help string
}
