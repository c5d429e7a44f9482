package inspect

import "testing"

func TestChecksNeedEarlierOnes(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range ordered(nil, nil, nil) {
		for _, need := range c.Needs {
			if !seen[need] {
				t.Errorf("%s needs %s, which is not an earlier check", c.Name, need)
			}
		}
		seen[c.Name] = true
	}
}
