package providerid_test

import (
	"errors"
	"testing"

	"quaymaster.dev/provider/providerid"
)

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		providerID string
		want       string
		bad        bool
		foreign    bool
	}{
		"ours":                {providerID: "mycloud://i-0a1b2c", want: "i-0a1b2c"},
		"empty":               {bad: true, foreign: true},
		"another cloud":       {providerID: "aws:///eu-west-1a/i-1", bad: true, foreign: true},
		"prefix in capitals":  {providerID: "MYCLOUD://i-1", bad: true, foreign: true},
		"no instance":         {providerID: "mycloud://", bad: true},
		"more than one part":  {providerID: "mycloud://eu-1a/i-1", bad: true},
		"three slashes":       {providerID: "mycloud:///i-1", bad: true},
		"space":               {providerID: "mycloud://i-1 ", bad: true},
		"query":               {providerID: "mycloud://i-1?include_deleted=true", bad: true},
		"leaves its own path": {providerID: "mycloud://..", bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := providerid.Parse(tc.providerID)
			if got != tc.want || (err != nil) != tc.bad || errors.Is(err, providerid.ErrForeign) != tc.foreign {
				t.Errorf("Parse(%q) = %q, %v; want %q, error %t, foreign %t", tc.providerID, got, err, tc.want, tc.bad, tc.foreign)
			}
			if err == nil && providerid.Format(got) != tc.providerID {
				t.Errorf("Format(%q) = %q; want %q", got, providerid.Format(got), tc.providerID)
			}
		})
	}
}
