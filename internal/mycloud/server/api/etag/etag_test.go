package etag

import "testing"

func TestMatches(t *testing.T) {
	tests := map[string]struct {
		header string
		weak   bool
		want   bool
	}{
		"same":              {`"7"`, false, true},
		"unquoted":          {`7`, false, true},
		"other":             {`"8"`, false, false},
		"one of several":    {`"8", "7"`, false, true},
		"any":               {`*`, false, true},
		"weak, for reads":   {`W/"7"`, true, true},
		"weak, for writes":  {`W/"7"`, false, false},
		"part of the value": {`"77"`, false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Matches(test.header, "7", test.weak); got != test.want {
				t.Errorf("Matches(%s) = %t", test.header, got)
			}
		})
	}
}
