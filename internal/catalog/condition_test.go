package catalog

import "testing"

func TestInvalidValuesAreSet(t *testing.T) {
	r := (Set{catalogs: []*Catalog{twoKinds()}}).Parse(withKey("", "example.com/two-drain", "ON")).views[0]
	set := true
	if holds, known := r.holds(Condition{Key: "example.com/two-drain", Set: &set}, service); !holds || !known {
		t.Errorf("an invalid value is set: %v, known %v", holds, known)
	}
	if _, known := r.holds(Condition{Key: "example.com/two-drain", Is: []string{"true"}}, service); known {
		t.Error("what an invalid value means is known")
	}
}
