package catalog

import "testing"

func TestWrongValuesAreThere(t *testing.T) {
	r := twoKinds().view(withKey("", "example.com/two-drain", "ON"))
	set := true
	if holds, known := r.holds(Condition{Key: "example.com/two-drain", Set: &set}, nil); !holds || !known {
		t.Errorf("an invalid value is set: %v, known %v", holds, known)
	}
	if _, known := r.holds(Condition{Key: "example.com/two-drain", Is: []string{"true"}}, nil); known {
		t.Error("an invalid value is known")
	}
}
