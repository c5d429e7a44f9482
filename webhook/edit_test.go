package webhook_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// Actions of an edit on a place in a document.
const (
	// drop removes the place.
	drop = iota
	// replace sets the place to the text or to one of the oddities.
	replace
	// duplicate sets the place to a copy of another place's value.
	duplicate
	// lengthen repeats the place's value in its list.
	lengthen
	// rename gives the place another place's key, or the text if that one has no key.
	rename
	actions
)

// oddities are values that code is likely to misinterpret.
var oddities = []any{
	nil, true, false, json.Number("0"), json.Number("-1"), json.Number("9223372036854775808"), json.Number("1e99"),
	json.Number("0.5"),
	"", " ", "0", "none", "é\x00\n", "a~b/c", "1.5Gi", "12e9", "9Ei", "2026-01-02T03:04:05Z", strings.Repeat("long", 1200),
	"LoadBalancer", "UPDATE", "fast", "vol-1", "Bound", "service.beta.kubernetes.io/dlb-listener-maxqps.80", "^(a+)+$",
	map[string]any{}, []any{}, map[string]any{"": ""}, []any{nil}, []any{map[string]any{}},
	map[string]any{"service.beta.kubernetes.io/dlb-listener-maxqps": "1", "service.beta.kubernetes.io/dlb-typo": "1"},
}

// place is the position of a value in a document: an entry of an object, or an element of a list, which has no key.
type place struct {
	key   string
	value any
	set   func(value any)
	// remove, repeat and rename do nothing where they do not apply.
	remove, repeat func()
	rename         func(key string)
}

// edit applies edits to a JSON document. Each edit is three bytes: the action, the place, and the other value or place
// to use.
func edit(document, edits []byte, text string) []byte {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var root any
	if err := decoder.Decode(&root); err != nil {
		panic(err)
	}
	// Copies of copies soon exhaust memory.
	const maxEdits, maxPlaces = 16, 2000
	for range maxEdits {
		all := places(root, func(value any) { root = value })
		if len(edits) < 3 || len(all) == 0 || len(all) > maxPlaces {
			break
		}
		at, with := all[int(edits[1])%len(all)], int(edits[2])
		switch edits[0] % actions {
		case drop:
			at.remove()
		case replace:
			if with %= len(oddities) + 1; with == len(oddities) {
				at.set(text)
			} else {
				at.set(clone(oddities[with])) // the next edit may change it
			}
		case duplicate:
			at.set(clone(all[with%len(all)].value))
		case lengthen:
			for range with % 32 {
				at.repeat()
			}
		case rename:
			at.rename(cmp.Or(all[with%len(all)].key, text))
		}
		edits = edits[3:]
	}
	edited, err := json.Marshal(root)
	if err != nil {
		panic(err)
	}
	return edited
}

// disturb overwrites bytes of a document. Each three bytes of noise are the position, in two bytes, and the new byte; 0
// removes the byte.
func disturb(document, noise []byte) []byte {
	document = slices.Clone(document)
	for ; len(noise) >= 3 && len(document) > 0; noise = noise[3:] {
		at := (int(noise[0])<<8 | int(noise[1])) % len(document)
		if noise[2] == 0 {
			document = slices.Delete(document, at, at+1)
		} else {
			document[at] = noise[2]
		}
	}
	return document
}

// places returns the places below a value, in document order with keys sorted. set replaces the value itself.
func places(value any, set func(any)) []place {
	var all []place
	nothing := func() {}
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			put := func(v any) { value[key] = v }
			all = append(all, place{
				key: key, value: value[key], set: put, remove: func() { delete(value, key) }, repeat: nothing,
				rename: func(other string) {
					v := value[key]
					delete(value, key)
					value[other] = v
				},
			})
			all = append(all, places(value[key], put)...)
		}
	case []any:
		for i := range value {
			put := func(v any) { value[i] = v }
			all = append(all, place{
				value: value[i], set: put, remove: func() { set(slices.Delete(slices.Clone(value), i, i+1)) },
				repeat: func() { value = append(value, clone(value[i])); set(value) }, rename: func(string) {},
			})
			all = append(all, places(value[i], put)...)
		}
	}
	return all
}

// clone returns a deep copy, so that a document never contains itself.
func clone(value any) any {
	switch value := value.(type) {
	case map[string]any:
		cloned := make(map[string]any, len(value))
		for key, v := range value {
			cloned[key] = clone(v)
		}
		return cloned
	case []any:
		cloned := make([]any, len(value))
		for i, v := range value {
			cloned[i] = clone(v)
		}
		return cloned
	}
	return value
}

// Edits work as documented, so that the fuzzer reaches more than broken JSON.
func TestEdit(t *testing.T) {
	const body = `{"a":{"b":1,"c":[true]},"d":"x"}`
	for name, tc := range map[string]struct {
		edits, noise []byte
		want         string
	}{
		"none":           {nil, nil, body},
		"half":           {[]byte{drop, 1}, []byte{0, 1}, body},
		"drop":           {[]byte{drop, 0, 0}, nil, `{"d":"x"}`},
		"replace":        {[]byte{replace, 1, 0}, nil, `{"a":{"b":null,"c":[true]},"d":"x"}`},
		"write":          {[]byte{replace, 0, byte(len(oddities))}, nil, `{"a":"text","d":"x"}`},
		"copy":           {[]byte{duplicate, 1, 4}, nil, `{"a":{"b":"x","c":[true]},"d":"x"}`},
		"lengthen":       {[]byte{lengthen, 3, 2}, nil, `{"a":{"b":1,"c":[true,true,true]},"d":"x"}`},
		"rename":         {[]byte{rename, 4, 2}, nil, `{"a":{"b":1,"c":[true]},"c":"x"}`},
		"rename to text": {[]byte{rename, 4, 3}, nil, `{"a":{"b":1,"c":[true]},"text":"x"}`},
		"one by one":     {[]byte{drop, 1, 0, drop, 1, 0}, nil, `{"a":{},"d":"x"}`},
		"break a byte":   {nil, []byte{0, 1, 'z', 0, 0, 0}, `za":{"b":1,"c":[true]},"d":"x"}`},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := gocmp.Diff(tc.want, string(disturb(edit([]byte(body), tc.edits, "text"), tc.noise))); diff != "" {
				t.Errorf("edited (-want +got):\n%s", diff)
			}
		})
	}
}
