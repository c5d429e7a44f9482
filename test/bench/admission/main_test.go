package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	o, err := parse([]string{"-concurrency=1,8", "-only=" + quaymaster})
	if err != nil || !cmp.Equal(o.concurrency, []int{1, 8}) || !cmp.Equal(o.only, []string{quaymaster}) {
		t.Errorf("parse() = %+v, %v", o, err)
	}
	for _, arg := range []string{"-concurrency=0", "-concurrency=a", "-only=typo", "-rounds=0", "-attack-rounds=-1", "-duration=0s", "extra"} {
		if _, err := parse([]string{arg}); err == nil {
			t.Errorf("parse(%s) returned no error", arg)
		}
	}
}
