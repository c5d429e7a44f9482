package api

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDocumentedKindsHaveFeeds(t *testing.T) {
	field, _ := reflect.TypeFor[ChangesParams]().FieldByName("Kinds")
	documented := strings.Split(field.Tag.Get("enum"), ",")
	slices.Sort(documented)
	if d := cmp.Diff(slices.Sorted(maps.Keys(newTestAPI(t).feeds())), documented); d != "" {
		t.Errorf("kinds of the parameter (-with a feed +documented):\n%s", d)
	}
}
