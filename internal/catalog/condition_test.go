package catalog

import "testing"

func TestWrongValuesAreThere(t *testing.T) {
	r := twoKinds().view(withKey("", "example.com/two-drain", "ON"))
	set := true
	if holds, known := r.holds(Condition{Key: "example.com/two-drain", Set: &set}, nil); !holds || !known {
		t.Errorf("that a wrong value is there: %v, known %v", holds, known)
	}
	if _, known := r.holds(Condition{Key: "example.com/two-drain", Is: []string{"true"}}, nil); known {
		t.Error("what a wrong value is, is known")
	}
}
